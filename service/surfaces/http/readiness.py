"""What each part says of itself, looked at once for everybody who asks at about the same time."""

import asyncio
import math
from dataclasses import dataclass
from typing import Final

import msgspec

from service.bootstrap import Application
from service.errors import Unavailable
from service.ingest.vector_runner import VectorStatus
from service.model import Workspace
from service.ports.embedding import EncoderState
from service.surfaces.http.readings import PATIENCE_S, status_of_vectors

SHARED_S: Final = 0.5  # how old an answer may be: health is open to everybody, and the store is not theirs


class PartOut(msgspec.Struct, kw_only=True):
    """One part of the service: its state, and why it is not the best one."""

    state: str
    reason: str | None


class PartsOut(msgspec.Struct, kw_only=True):
    """Everything that a retrieval needs, and the vector arm, which it does not need."""

    store: PartOut
    lexical: PartOut
    vectors: PartOut


@dataclass(frozen=True, slots=True)
class Seen:
    """The parts as anybody may know them, and how many changes the vectors of all workspaces are behind."""

    parts: PartsOut
    pending: int | None = None

    def with_counts(self) -> PartsOut:
        """The parts as an operator of every workspace may know them."""
        vectors = part(self.parts.vectors.state, f"{self.pending} changes behind")
        return PartsOut(store=self.parts.store, lexical=self.parts.lexical, vectors=vectors)


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
    workspace = Workspace(application.settings.workspace)
    status = application.lexical.status().get(workspace)
    has_index = status is None or status.applied is not None  # an index nobody asked for opens when asked for
    bound = application.settings.scan_bound
    try:
        async with asyncio.timeout(PATIENCE_S), application.store.snapshot() as snapshot:
            is_small = has_index or await snapshot.count_scorable(workspace, bound + 1) <= bound
    except (Unavailable, TimeoutError):
        return Seen(all_parts("unavailable", "the store does not answer"))
    lexical = part("ready")
    if status is not None and not has_index:
        why = f"the index is {status.state.value}"
        lexical = (
            part("scanning", f"{why}; the rows are read instead")
            if is_small
            else part("unavailable", f"{why}; the rows are too many to read")
        )
    found = await status_of_vectors(application)
    parts = PartsOut(store=part("ready"), lexical=lexical, vectors=_vectors(found))
    return Seen(parts, found.pending if found is not None and parts.vectors.state == "ready" else None)


def _vectors(status: VectorStatus | None) -> PartOut:
    """The vector arm's state. It never decides readiness: without it answers are lexical."""
    if status is None:
        return part("off")
    match status.encoder:
        case EncoderState.READY if status.collection is None:
            return part("empty", "there are no vectors yet")
        case EncoderState.READY if status.failure is None:
            return part("ready")
        case EncoderState.READY:
            return part("degraded", "the vector store does not answer")
        case EncoderState.LOADING:
            return part("loading", "the model is being loaded")
        case _:
            return part("unavailable", "the model cannot be had")
