"""What an encoder service says of itself."""

from dataclasses import dataclass
from enum import StrEnum

from embeddings.fingerprint import Fingerprint


class Phase(StrEnum):
    """Where the encoder is in its life. Only `ready` encodes; `stuck` may become ready again."""

    ABSENT = "absent"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    STUCK = "stuck"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class EncoderState:
    """A moment's state. `code` and `reason` are set when failed or stuck; `retry_in_s` when failed.

    `fingerprint` is that of the model in memory.
    """

    phase: Phase
    code: str | None = None
    reason: str | None = None
    loads: int = 0
    retry_in_s: float | None = None
    fingerprint: Fingerprint | None = None


@dataclass(slots=True)
class WorkCounts:
    """What the worker did since it was made; written by its thread only, so plain numbers suffice."""

    query_batches: int = 0
    queries: int = 0
    largest_query_batch: int = 0
    passage_batches: int = 0
    windows: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class EncoderReading:
    """The cache of query vectors since the service was made, and the queries that wait now."""

    cache_hits: int
    cache_misses: int
    waiting: int


@dataclass(frozen=True, slots=True)
class EncoderCounters:
    """Totals since the service was made, except `waiting_*`, `abandoned_workers` and `cached`, which are now."""

    cache_hits: int
    cache_misses: int
    cached: int
    query_batches: int
    queries: int
    largest_query_batch: int
    passage_batches: int
    windows: int
    failures: int
    overloads: int
    timeouts: int
    waiting_queries: int
    waiting_passages: int
    abandoned_workers: int
