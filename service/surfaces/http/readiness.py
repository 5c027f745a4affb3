"""What each part says of itself, looked at once for everybody who asks at about the same time."""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from service.adapters.lexical.index import ShardStatus
from service.adapters.lexical.shard import TOLD
from service.bootstrap import Application
from service.errors import Unavailable
from service.ingest.vector_status import VectorStatus
from service.ports.embedding import EncoderState
from service.ports.vector_reports import VectorFault
from service.search.vector_arm import ArmBreakers
from service.surfaces.http.readings import PATIENCE_S, status_of_vectors
from service.surfaces.http.vector_families import health_of

SHOWN: Final = 20  # workspaces that an operator is told of at once
SHARED_S: Final = 0.5  # how old an answer may be: health is open to everybody, and the store is not theirs
STORE_SILENT: Final = "the vector store does not answer"
ENCODER_ILL: Final = "the encoder fails or is too slow"
FAULTS: Final = {
    VectorFault.DATABASE: "the vector worker does not reach the database",
    VectorFault.STORE_UNAVAILABLE: STORE_SILENT,
    VectorFault.STORE_TIMEOUT: "the vector store does not answer in time",
    VectorFault.STORE_ERROR: "the vector store answers with an error",
    VectorFault.STORE_FULL: "the vector store has no space left",
    VectorFault.FINGERPRINT_MISMATCH: "the vector store holds another model's vectors",
    VectorFault.ENCODER: "the encoder fails",
    VectorFault.DEFECT: "the vector worker fails",
    VectorFault.WORKER_LOST: "the vector worker is not heard of any more",
}


class PartOut(msgspec.Struct, kw_only=True):
    """One part of the service: its state, and why it is not the best one."""

    state: str
    reason: str | None


class VectorDetailsOut(msgspec.Struct, kw_only=True):
    """How far the vectors of all workspaces are; what is not known is null.

    `missing` and `orphan` are those of the last comparison of rows and points, which `compared_by` made;
    `fault` is the part that keeps vectors from following.
    """

    pending: int | None
    lag_seconds: float | None
    parked: int
    missing: int | None
    orphan: int | None
    compared_at: datetime | None
    compared_by: str | None
    fault: str | None
    workers: dict[str, int]


class DetailsOut(msgspec.Struct, kw_only=True):
    """What only an operator of every workspace is told."""

    vectors: VectorDetailsOut


class PartsOut(msgspec.Struct, kw_only=True):
    """Everything that a retrieval needs, and the vector arm, which it does not need."""

    store: PartOut
    lexical: PartOut
    vectors: PartOut


@dataclass(frozen=True, slots=True)
class Seen:
    """The parts as anybody may know them, and how far the vectors of all workspaces are, where that is known."""

    parts: PartsOut
    vectors: VectorStatus | None = None
    indexes: Sequence[ShardStatus] = ()  # the lexical indexes that are not ready, of whatever workspace

    @property
    def tells_more(self) -> bool:
        """Whether there is anything that only an operator of every workspace may know."""
        return self.vectors is not None or bool(self.indexes)

    def with_counts(self) -> PartsOut:
        """The parts as an operator of every workspace may know them."""
        vectors, pending = self.parts.vectors, None if self.vectors is None else self.vectors.pending
        if vectors.state == "ready" and pending:
            vectors = part(vectors.state, f"{pending} changes behind")
        lexical = self.parts.lexical
        if self.indexes:
            named = ", ".join(f"{index.workspace} ({index.state.value})" for index in self.indexes[:SHOWN])
            more = f" and {len(self.indexes) - SHOWN} more" if len(self.indexes) > SHOWN else ""
            lexical = part(lexical.state, f"{lexical.reason or 'not ready yet'}: {named}{more}")
        return PartsOut(store=self.parts.store, lexical=lexical, vectors=vectors)

    def details(self) -> DetailsOut | None:
        """The figures behind the states, for the same operator; None where vectors are off or nothing answers."""
        found = self.vectors
        if found is None:
            return None
        vectors = VectorDetailsOut(
            pending=found.pending,
            lag_seconds=found.lag_seconds,
            parked=found.parked,
            missing=found.missing,
            orphan=found.orphan,
            compared_at=found.compared_at,
            compared_by=found.compared_by,
            fault=None if found.fault is None else found.fault.value,
            workers=dict(Counter(health_of(worker).value for worker in found.workers)),
        )
        return DetailsOut(vectors=vectors)


class Readiness:
    """The last look at the parts. Whoever comes during a look waits for it and shares it."""

    def __init__(self) -> None:
        self._looking = asyncio.Lock()
        self._seen: tuple[Application, Seen] | None = None
        self._at = -math.inf

    async def look(self, application: Application) -> Seen:
        """What the parts said at most SHARED_S ago. Never raises."""
        async with self._looking:
            now = asyncio.get_running_loop().time
            if self._seen is None or self._seen[0] is not application or now() - self._at >= SHARED_S:
                self._seen = application, await _look(application)
                self._at = now()
            return self._seen[1]


def part(state: str, reason: str | None = None) -> PartOut:
    """A part's state."""
    return PartOut(state=state, reason=reason)


def all_parts(state: str, reason: str) -> PartsOut:
    """Every part in one state."""
    one = part(state, reason)
    return PartsOut(store=one, lexical=one, vectors=one)


async def _look(application: Application) -> Seen:
    """Reasons are fixed texts: what a library says may name a path."""
    lost, bound = application.lexical.unusable(), application.settings.scan_bound
    try:
        async with asyncio.timeout(PATIENCE_S), application.store.snapshot() as snapshot:
            large = [
                index for index in lost if await snapshot.count_scorable(index.workspace, bound + 1) > bound
            ]
    except (Unavailable, TimeoutError):
        return Seen(all_parts("unavailable", "the store does not answer"))
    found = await status_of_vectors(application)
    if found is None and application.vectors.worker is not None:
        vectors = part("unknown", "how far the vectors are cannot be read")
    else:
        vectors = _vectors(found, application.vectors.arm.breakers)
    indexes = [index for index in application.lexical.status().values() if index.applied is None]
    return Seen(PartsOut(store=part("ready"), lexical=_lexical(lost, large), vectors=vectors), found, indexes)


def _lexical(lost: Sequence[ShardStatus], large: Sequence[ShardStatus]) -> PartOut:
    """The state of all indexes that this process ought to have, told without saying whose, or of how many."""
    if not lost:
        return part("ready")
    why = f"an index {TOLD[(large or lost)[0].state]}"
    if not large:
        return part("scanning", f"{why}; the rows are read instead")
    return part("unavailable", f"{why}; the rows are too many to read")


def _vectors(status: VectorStatus | None, breakers: ArmBreakers) -> PartOut:
    """The vector arm's state. It never decides readiness: without it answers are lexical."""
    if status is None:
        return part("off")
    match status.encoder:
        case EncoderState.READY if status.collection is None:
            return part("empty", "there are no vectors yet")
        case EncoderState.READY:
            wrong = _what_is_wrong(status, breakers)
            return part("ready") if wrong is None else part("degraded", wrong)
        case EncoderState.LOADING:
            return part("loading", "the model is being loaded")
        case _:
            return part("unavailable", "the model cannot be had")


def _what_is_wrong(status: VectorStatus, breakers: ArmBreakers) -> str | None:
    """The part that is not well, by its own name: one that reads cannot use comes before one that lags."""
    if breakers.encoder.is_open:
        return ENCODER_ILL
    if status.fault is not None:
        return FAULTS[status.fault]
    if status.failure is not None:
        return FAULTS[VectorFault.DEFECT]
    return STORE_SILENT if breakers.store.is_open else None
