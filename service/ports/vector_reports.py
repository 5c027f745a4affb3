"""What is told of the vector index from process to process: the last comparison, and how its workers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from service.ports.vectors import CollectionName

LOST_S: Final = 90.0  # a worker that said nothing for so long, and did not say goodbye, is lost


class VectorFault(StrEnum):
    """Which part is not well: a closed list."""

    DATABASE = "database"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_TIMEOUT = "store_timeout"
    STORE_ERROR = "store_error"
    STORE_FULL = "store_full"
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"
    ENCODER = "encoder"
    DEFECT = "defect"  # the worker's own
    WORKER_LOST = "worker_lost"


class WorkerDuty(StrEnum):
    """What a worker is there for at the moment."""

    STARTING = "starting"
    WORKING = "working"
    STANDBY = "standby"
    NO_MODEL = "no_model"
    OTHER_MODEL = "other_model"


@dataclass(frozen=True, slots=True)
class NotedComparison:
    """What rows and points differed in at a moment, and which process compared them (`by`, host and number)."""

    collection: CollectionName
    at: datetime
    missing: int
    orphan: int
    by: str


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says of itself. `fault` and `failure` are those that last now; None while it is well."""

    owner: str
    place: str
    model: str
    duty: WorkerDuty
    fault: VectorFault | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker that reported within a day, and how many seconds ago (by the database's clock).

    `fault`, `failure` and `failed_at` are those of its last failure, which is over unless `is_failing`.
    """

    place: str
    model: str
    duty: WorkerDuty
    is_failing: bool
    fault: VectorFault | None
    failure: str | None
    failed_at: datetime | None
    silent_seconds: float

    @property
    def is_lost(self) -> bool:
        """Whether it has not been heard of for too long."""
        return self.silent_seconds > LOST_S


class VectorReports(Protocol):
    """Keeps the last comparison of each collection and the last word of each worker. Raises StoreUnavailable."""

    async def note_comparison(self, noted: NotedComparison) -> None:
        """Keep it, unless a newer one of the collection is kept."""
        ...

    async def comparison(self, collection: CollectionName) -> NotedComparison | None:
        """The newest one, whoever made it."""
        ...

    async def report(self, report: WorkerReport) -> None:
        """Keep a worker's word; its last failure stays when it is well again."""
        ...

    async def withdraw(self, owner: str) -> None:
        """A worker ends as it should."""
        ...

    async def workers(self) -> Sequence[SeenWorker]:
        """Those that reported within a day, the newest word first, at most MOST_WORKERS."""
        ...


MOST_WORKERS: Final = 100
