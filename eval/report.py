"""The report: everything a decision rests on, as one JSON document."""

from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from eval.errors import MalformedLine, MissingFile, OtherSchema
from eval.inference import Comparison, Interval

SCHEMA: Final = "citewell-eval-1"
REPORT_FILE: Final = "report.json"
Estimates = dict[str, dict[str, Interval]]  # by arm, then by measure
PerQuery = dict[str, dict[str, dict[str, float]]]  # by arm, by measure, by query


class Model(msgspec.Struct, frozen=True):
    """Which encoder was measured."""

    name: str
    fingerprint: str


class CheckOut(msgspec.Struct, frozen=True):
    """A condition of the decision."""

    condition: str
    holds: bool
    figures: str


class Against(msgspec.Struct, frozen=True):
    """Hybrid minus another arm on one measure."""

    arm: str
    measure: str
    result: Comparison


class Slice(msgspec.Struct, frozen=True):
    """The queries that have a tag: recall@8 by arm, and hybrid minus lexical."""

    tag: str
    queries: int
    arms: dict[str, Interval]
    against_lexical: Comparison


class Place(msgspec.Struct, frozen=True):
    """A passage in a shown ranking."""

    passage_id: str
    name: str
    relevant: bool


class Discordant(msgspec.Struct, frozen=True):
    """A query on which hybrid and lexical differ in recall@8, with what each shows."""

    query_id: str
    text: str
    recall: dict[str, float]
    rankings: dict[str, list[Place]]


class PassageOut(msgspec.Struct, frozen=True):
    """A passage as it is read."""

    title: str
    heading: str | None
    text: str


class Violation(msgspec.Struct, frozen=True):
    """A passage among the first eight that must not be there."""

    query_id: str
    arm: str
    name: str
    rank: int
    above_relevant: bool


class FindingsOut(msgspec.Struct, frozen=True):
    """What was reported and not scored."""

    duplicate_judgements: list[str] = []
    unknown_queries: list[str] = []
    unjudged_queries: list[str] = []
    unknown_passages: list[str] = []


class SetReport(msgspec.Struct, frozen=True):
    """One set's figures. `first_relevant` holds the rank of the first relevant passage, by arm and query."""

    name: str
    dataset_hash: str
    corpus: str
    queries: int
    better_single_arm: str
    arms: Estimates
    comparisons: list[Against]
    slices: list[Slice]
    per_query: PerQuery
    first_relevant: dict[str, dict[str, int | None]]
    discordant: list[Discordant]
    passages: dict[str, PassageOut]
    look_alikes: list[Violation]
    stale: list[Violation]
    findings: FindingsOut


class Timings(msgspec.Struct, frozen=True):
    """What it took, in milliseconds unless said. The only figures that differ from run to run.

    Hybrid answers find the query's vector in memory; `encode_query` is what a new query adds.
    """

    answers: dict[str, dict[str, dict[str, float]]] = {}  # by set, by arm: p50, p95
    encode_query: dict[str, float] = {}
    passages_encoded: int = 0
    passages_from_cache: int = 0
    encode_seconds: float = 0.0


class Report(msgspec.Struct, frozen=True):
    """An evaluation."""

    schema: Literal["citewell-eval-1"]
    decision: Literal["GO", "NO-GO"]
    dataset_hash: str
    created_at: datetime
    seed: int
    model: Model
    settings: dict[str, str | int | float]
    versions: dict[str, str]
    checks: list[CheckOut]
    sets: list[SetReport]
    timings: Timings

    def set_named(self, name: str) -> SetReport | None:
        """A set's figures, if it was measured."""
        return next((one for one in self.sets if one.name == name), None)


class _Header(msgspec.Struct):
    schema: str = ""


def read_report(path: Path) -> Report:
    """A report of this schema version. Raises MissingFile, OtherSchema, MalformedLine."""
    place = path / REPORT_FILE if path.is_dir() else path
    try:
        raw = place.read_bytes()
    except OSError as error:
        raise MissingFile(f"there is no report {place.name} ({type(error).__name__})") from error
    try:
        header = msgspec.json.decode(raw, type=_Header)
        if header.schema != SCHEMA:
            raise OtherSchema(f"{place.name} has schema {header.schema[:40]!r}; this version reads {SCHEMA}")
        return msgspec.json.decode(raw, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedLine.at(place, 1, f"no evaluation report: {error}"[:300]) from error


def report_bytes(report: Report) -> bytes:
    """The JSON document."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
