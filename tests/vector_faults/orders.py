"""What a test says to the process that it will kill, and what that process says back."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from service.model import Capture, ItemId, PassageText
from tests.builders import capture

WINDOW = ("sill", "door", "lintel", "jamb", "threshold", "gasket", "hinge", "mullion", "transom", "sash")


class Point(StrEnum):
    """Where the process stops for ever, so that it can be killed there."""

    BEFORE_UPSERT = "rows are committed, the store was not told"
    BEFORE_DELETE = "new points are stored, stale ones not yet removed"
    BEFORE_PROGRESS = "the store has acknowledged, progress is not recorded"


@dataclass(frozen=True, slots=True)
class House:
    """Where the process finds its data."""

    data_dir: Path
    database_url: str


@dataclass(frozen=True, slots=True)
class Store:
    """Capture, commit."""

    capture: Capture


@dataclass(frozen=True, slots=True)
class Retire:
    """Retire, commit."""

    item_id: ItemId


@dataclass(frozen=True, slots=True)
class HaltAt:
    """Make the writes, then follow the log up to the point, say so and do nothing more."""

    writes: tuple[Store | Retire, ...]
    point: Point


@dataclass(frozen=True, slots=True)
class Churn:
    """Write seeded captures and retirements for ever, while the worker follows."""

    seed: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing more to do: end in order."""


Order = HaltAt | Churn | Leave
Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sight:
    """Rows, points and an answer at one time, nobody writing. Points are counted by the store and by ids.

    `live` and `answered` are the (item id, seq) of live scorable passages in SQL and of a hybrid answer.
    """

    points: frozenset[str]
    counted: int
    owed: frozenset[str]
    live: frozenset[Name]
    answered: tuple[Name, ...]
    vector: str
    cached: int
    pending: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a fresh process found, and what was there once it had caught up."""

    found: Sight
    caught_up: Sight
    encoded: int
    parked: int


def document(source: int, version: int, passages: int = 3) -> Capture:
    """One of a few sources: passages of one to three windows, of which the last is the version's own.

    Behind them stands a link stub, which is never scored.
    """
    texts = [words(source * 10 + number, 5 + 24 * (number % 3)) for number in range(passages)]
    texts[-1] = f"version {version} of {words(source, 6)}"
    made = capture(
        f"source{source}",
        *texts,
        title=f"Source {source}",
        version=f"v{version}",
        item_id=f"s{source}v{version}",
    )
    stub = PassageText(passages, None, f"sill3 door version {version}, for download", scorable=False)
    return replace(made, passages=(*made.passages, stub))


def words(start: int, count: int) -> str:
    """So many words, each start its own sequence."""
    return " ".join(f"{WINDOW[(start + k) % len(WINDOW)]}{(start * 7 + k) % 53}" for k in range(count))
