"""The vector arm: a query's nearest passages under a deadline, or a reason why not. It never raises more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from service.core.breaker import Breaker
from service.core.drill import DrillKind
from service.errors import Unavailable
from service.model import Workspace
from service.ports.embedding import (
    CollectionRole,
    Encoder,
    EncoderFailed,
    EncoderState,
    KnownCollection,
    TextRefused,
    VectorLedger,
    serving_collection,
)
from service.ports.tracing import Step
from service.ports.vectors import (
    MAX_HITS,
    CollectionMissing,
    StoreReason,
    VectorQuery,
    VectorSearch,
    VectorStoreError,
)
from service.search.circuit import Circuit
from service.search.degradation import ArmDegraded, Reason
from service.search.nearest import EncodedQuery, Nearest, RoundCounters, VectorRequest

if TYPE_CHECKING:
    from service.core.drill import Drill
    from service.ports.vectors import Float32Array, Hit

POINTER_TTL_S = 1.0  # how long a switch of collections may go unnoticed
SPARE = 8  # one candidate in so many may be stale or a second window before another round is needed


@dataclass(frozen=True, slots=True)
class ArmBreakers:
    """The two circuits as they are: one guards the store, the other the encoder."""

    store: Breaker
    encoder: Breaker


class VectorArm:
    """Encodes and searches. One circuit guards the store, another the encoder. Implements Searcher."""

    def __init__(self, encoder: Encoder, index: VectorSearch | None, ledger: VectorLedger | None) -> None:
        self._encoder = encoder
        self._index = index
        self._ledger = ledger
        self._store = Circuit(Reason.STORE_UNAVAILABLE)
        self._encoding = Circuit(Reason.ENCODE_ERROR)
        self._known: Sequence[KnownCollection] = ()
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self.counters = RoundCounters()

    @property
    def breakers(self) -> ArmBreakers:
        """For whoever watches."""
        return ArmBreakers(self._store.breaker, self._encoding.breaker)

    def switch(self, encoder: Encoder) -> None:
        """Encode and search with another model from the next request on."""
        self._encoder = encoder
        for circuit in (self._encoding, self._store):  # what they know is about the other model
            circuit.stop()
        self._encoding = Circuit(Reason.ENCODE_ERROR)
        self._store = Circuit(Reason.STORE_UNAVAILABLE)
        self._looked_at = float("-inf")

    async def close(self) -> None:
        """Stop looking after what is not well."""
        await self._store.close()
        await self._encoding.close()

    def refusal(self, drill: Drill | None = None) -> Reason | None:
        """Why a request would get no answer, as far as that is known without waiting; None if it may get one."""
        if drill is not None and drill.kind in _REFUSED_DRILLS:
            return _REFUSED_DRILLS[drill.kind]
        return _NOT_READY.get(self._encoder.state) or self._encoding.refusal() or self._store.refusal()

    async def encode(self, request: VectorRequest) -> EncodedQuery:
        """The query's vector and the collection to search. Raises ArmDegraded."""
        refused = self.refusal(request.drill)
        if refused is not None:
            raise ArmDegraded(refused)
        if request.drill is not None:
            async with _before(request.deadline, Reason.STORE_TIMEOUT):
                await asyncio.sleep(request.drill.delay)
        if time.monotonic() >= request.deadline:  # it waited for its turn, or for its own body
            raise ArmDegraded(Reason.ENCODE_TIMEOUT)
        collection = await self._collection(request.deadline)
        with request.tracer.span(Step.ENCODE):
            return EncodedQuery(request, collection, await self._encoded(request))

    async def nearest(self, query: EncodedQuery, depth: int) -> Nearest:
        """The first round of candidates: `depth` of them and a few more, some of which may be stale.

        Raises ArmDegraded.
        """
        nearest = Nearest(self, query)
        await nearest.ask(min(depth + depth // SPARE, MAX_HITS))
        return nearest

    async def search(self, query: EncodedQuery, limit: int) -> tuple[Hit, ...]:
        """One search behind the circuit, until the request's deadline. Raises ArmDegraded."""
        circuit, began, request = self._store, time.monotonic(), query.request
        circuit.check()
        try:
            hits = await self._searched(query.collection, query.nearest(limit), request.deadline)
        except ArmDegraded as degraded:
            if degraded.reason is Reason.NO_VECTORS:  # the store is well: the collection is about to be begun
                circuit.succeeded()
            elif request.blames(degraded.reason, began):
                probe = partial(self._probe_store, query.nearest(limit), request.budget)
                circuit.failed(degraded.reason, began, probe)
            raise
        if _in_time(began, request):
            circuit.succeeded()
        return hits

    async def search_further(self, query: EncodedQuery, limit: int) -> tuple[Hit, ...]:
        """A deeper search, which takes longer and has less time: the circuit learns nothing from it.

        Raises ArmDegraded.
        """
        self._store.check()
        return await self._searched(query.collection, query.nearest(limit), query.request.deadline)

    async def _searched(
        self, collection: KnownCollection, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        if self._index is None:
            raise ArmDegraded(Reason.STORE_UNAVAILABLE)
        try:
            async with _before(deadline, Reason.STORE_TIMEOUT):
                return await self._index.search(collection.name, query, deadline)
        except CollectionMissing as error:
            raise ArmDegraded(Reason.NO_VECTORS) from error
        except VectorStoreError as error:
            raise ArmDegraded(_REASONS[error.reason]) from error

    async def _probe_store(self, query: VectorQuery, budget: float) -> None:
        """Ask what a request asked, of what a request would ask now: the collection may have been replaced."""
        deadline = time.monotonic() + budget
        with _no_vectors_is_well():
            await self._searched(await self._collection(deadline), query, deadline)

    async def _collection(self, deadline: float) -> KnownCollection:
        try:
            async with _before(deadline, Reason.STORE_TIMEOUT):
                await self._look_up()
        except Unavailable as error:
            raise ArmDegraded(Reason.STORE_UNAVAILABLE) from error
        if all(one.role is CollectionRole.BUILDING for one in self._known):
            raise ArmDegraded(Reason.NO_VECTORS)
        serving = serving_collection(self._known, self._encoder.fingerprint)
        if serving is None:
            raise ArmDegraded(Reason.FINGERPRINT_MISMATCH)
        return serving

    async def _look_up(self) -> None:
        """Which collections there are, asked by one request at a time and once in POINTER_TTL_S."""
        async with self._looking:
            if self._ledger is not None and time.monotonic() - self._looked_at > POINTER_TTL_S:
                self._known = await self._ledger.collections()
                self._looked_at = time.monotonic()

    async def _encoded(self, request: VectorRequest) -> Float32Array:
        circuit, began = self._encoding, time.monotonic()
        try:
            vector = await self._vector(request.text, request.workspace, request.deadline)
        except TextRefused as error:  # its text's fault, and nobody else shall pay for it
            raise ArmDegraded(Reason.ENCODE_ERROR) from error
        except ArmDegraded as degraded:
            if request.blames(degraded.reason, began):
                circuit.failed(degraded.reason, began, partial(self._probe_encoder, request.budget))
            raise
        if _in_time(began, request):
            circuit.succeeded()
        return vector

    async def _vector(self, text: str, workspace: Workspace, deadline: float) -> Float32Array:
        """The text's vector. Raises ArmDegraded, TextRefused."""
        try:
            async with _before(deadline, Reason.ENCODE_TIMEOUT):
                return await self._encoder.encode_query(text, workspace)
        except TextRefused:
            raise
        except EncoderFailed as error:
            raise ArmDegraded(Reason.ENCODE_ERROR) from error

    async def _probe_encoder(self, budget: float) -> None:
        """A text of its own every time, so that no cache answers."""
        text = f"probe {time.monotonic()}"
        await self._vector(text, Workspace(""), time.monotonic() + budget)


def _in_time(began: float, request: VectorRequest) -> bool:
    """Whether a request of the usual budget would have had the answer: shadow and evaluation have more time."""
    return time.monotonic() - began <= request.budget


@asynccontextmanager
async def _before(deadline: float, reason: Reason) -> AsyncIterator[None]:
    """Give up at the deadline, for that reason."""
    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
            yield
    except TimeoutError as error:
        raise ArmDegraded(reason) from error


_REFUSED_DRILLS = {DrillKind.OFF: Reason.FORCED_OFF, DrillKind.ERROR: Reason.STORE_ERROR}
_NOT_READY = {
    EncoderState.LOADING: Reason.MODEL_LOADING,
    EncoderState.ABSENT: Reason.NO_MODEL,
    EncoderState.FAILED: Reason.NO_MODEL,
}
_REASONS = {
    StoreReason.UNAVAILABLE: Reason.STORE_UNAVAILABLE,
    StoreReason.TIMEOUT: Reason.STORE_TIMEOUT,
    StoreReason.ERROR: Reason.STORE_ERROR,
    StoreReason.FINGERPRINT_MISMATCH: Reason.FINGERPRINT_MISMATCH,
}


@contextmanager
def _no_vectors_is_well() -> Iterator[None]:
    """A store that answers is well; that there is nothing to search has a reason of its own."""
    try:
        yield
    except ArmDegraded as degraded:
        if degraded.reason not in (Reason.NO_VECTORS, Reason.FINGERPRINT_MISMATCH):
            raise
