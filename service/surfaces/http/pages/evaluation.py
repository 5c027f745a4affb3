"""The evaluation report as `citewell eval run --out` writes it: the fields that a page shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from service.settings import Settings

REPORT_FILE: Final = "report.json"
SCHEMA: Final = "citewell-eval-1"
FOLDER: Final = "evaluation"  # in the data directory, unless the settings say another
MAX_REPORT: Final = 200_000_000  # bytes


class Interval(msgspec.Struct, frozen=True):
    """An estimate with the bounds of its 95 % confidence interval."""

    estimate: float
    low: float
    high: float


class Difference(msgspec.Struct, frozen=True):
    """Hybrid minus another arm over the same queries."""

    difference: Interval
    p_value: float
    wins: int
    ties: int
    losses: int


class Against(msgspec.Struct, frozen=True):
    """Whom the hybrid is compared with, and by which measure."""

    arm: str
    measure: str
    result: Difference


class Check(msgspec.Struct, frozen=True):
    """A condition of the verdict."""

    condition: str
    holds: bool
    figures: str


class Measured(msgspec.Struct, frozen=True):
    """One set's figures, by arm and measure."""

    name: str
    queries: int
    corpus: str
    better_single_arm: str
    arms: dict[str, dict[str, Interval]]
    comparisons: list[Against]

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure that an arm has, in the order of the report."""
        return tuple(dict.fromkeys(measure for figures in self.arms.values() for measure in figures))


class Model(msgspec.Struct, frozen=True):
    """The encoder that was measured."""

    name: str


class Evaluation(msgspec.Struct, frozen=True):
    """An evaluation."""

    schema: str
    decision: Literal["GO", "NO-GO"]
    created_at: datetime
    dataset_hash: str
    seed: int
    model: Model
    settings: dict[str, str | int | float]
    checks: list[Check]
    sets: list[Measured]


class _Header(msgspec.Struct):
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the folder holds: a report, or in one sentence why there is none to show."""

    report: Evaluation | None
    missing: str = ""
    is_damaged: bool = False


def evaluation_folder(settings: Settings) -> Path:
    """Where the report is looked for."""
    return settings.evaluation_dir or settings.data_dir / FOLDER


def read_evaluation(folder: Path) -> Kept:
    """The report of a folder. Never raises for what is in it."""
    place = folder / REPORT_FILE
    try:
        if not place.is_file():
            return Kept(None, "No evaluation was kept here yet.")
        if place.stat().st_size > MAX_REPORT:
            return Kept(None, "The evaluation report is too large to be shown.", is_damaged=True)
        raw = place.read_bytes()
    except OSError:
        return Kept(None, "The evaluation report cannot be read.", is_damaged=True)
    try:
        if msgspec.json.decode(raw, type=_Header).schema != SCHEMA:
            return Kept(None, "The evaluation report is of another version of citewell.", is_damaged=True)
        return Kept(msgspec.json.decode(raw, type=Evaluation))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Kept(None, "The evaluation report is damaged.", is_damaged=True)


def arm_order(figures: Mapping[str, object]) -> tuple[str, ...]:
    """The arms a table has, baseline first."""
    usual = ("lexical", "vector", "hybrid")
    return (*(arm for arm in usual if arm in figures), *sorted(set(figures).difference(usual)))
