"""The vector arm: a query's nearest passages under a deadline, or a reason why not. It never raises more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from service.core.breaker import Breaker, after_cancel, after_failure, after_success, may_call
from service.core.drill import Drill, DrillKind
from service.model import ContentType, ItemId, Workspace
from service.ports.embedding import (
    CollectionRole,
    Encoder,
    EncoderFailed,
    EncoderState,
    KnownCollection,
    VectorLedger,
    serving_collection,
)
from service.ports.tracing import UNTRACED, Step, Tracer
from service.ports.vectors import (
    MAX_HITS,
    CollectionMissing,
    StoreReason,
    VectorQuery,
    VectorSearch,
    VectorStoreError,
)

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array, Hit

POINTER_TTL_S = 1.0  # how long a switch of collections may go unnoticed
ROUND_GROWTH = 4


class Reason(StrEnum):
    """Why the vector arm did not run: a closed list."""

    OFF = "off"
    SHADOW = "shadow"
    NOT_IN_ROLLOUT = "not_in_rollout"
    NO_MODEL = "no_model"
    MODEL_LOADING = "model_loading"
    ENCODE_TIMEOUT = "encode_timeout"
    ENCODE_ERROR = "encode_error"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_TIMEOUT = "store_timeout"
    STORE_ERROR = "store_error"
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"
    NO_VECTORS = "no_vectors"
    FORCED_OFF = "forced_off"


class ArmDegraded(Exception):
    """The arm has no answer, for a reason of the closed list."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NamedHit:
    """A passage that the index proposes, by its best window."""

    item_id: ItemId
    seq: int
    score: float


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """What to look for, and until when (`time.monotonic()` seconds)."""

    text: str
    workspace: Workspace
    content_type: ContentType | None
    deadline: float
    drill: Drill | None = None
    tracer: Tracer = UNTRACED


@dataclass(frozen=True, slots=True)
class ArmBreakers:
    """The two circuits as they are: one guards the store, the other the encoder."""

    store: Breaker
    encoder: Breaker


class VectorArm:
    """Encodes and searches. One breaker guards the store, another the encoder."""

    def __init__(self, encoder: Encoder, index: VectorSearch | None, ledger: VectorLedger | None) -> None:
        self._encoder = encoder
        self._index = index
        self._ledger = ledger
        self._store_breaker = Breaker()
        self._encoder_breaker = Breaker()
        self._last_reason = Reason.STORE_UNAVAILABLE
        self._last_encoder_reason = Reason.ENCODE_ERROR
        self._known: Sequence[KnownCollection] = ()
        self._looked_at = float("-inf")

    @property
    def breakers(self) -> ArmBreakers:
        """For whoever watches."""
        return ArmBreakers(self._store_breaker, self._encoder_breaker)

    def switch(self, encoder: Encoder) -> None:
        """Encode and search with another model from the next request on."""
        self._encoder = encoder
        self._encoder_breaker = Breaker()
        self._looked_at = float("-inf")

    async def start(self, request: VectorRequest, depth: int) -> Nearest:
        """The first round of candidates. Raises ArmDegraded."""
        await self._drill(request)
        collection = await self._collection()
        with request.tracer.span(Step.ENCODE):
            vector = await self._encode(request)
        nearest = Nearest(self, collection, vector, request)
        await nearest.ask(min(2 * depth, MAX_HITS))
        return nearest

    async def search(
        self, collection: KnownCollection, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """One search behind the breaker. Raises ArmDegraded."""
        if self._index is None:
            raise ArmDegraded(Reason.STORE_UNAVAILABLE)
        allowed, self._store_breaker = may_call(self._store_breaker, time.monotonic())
        if not allowed:
            raise ArmDegraded(self._last_reason)
        try:
            async with _before(deadline, Reason.STORE_TIMEOUT):
                hits = await self._index.search(collection.name, query, deadline)
        except CollectionMissing as error:  # the store is well: the collection is only about to be begun
            self._store_breaker = after_success(self._store_breaker)
            raise ArmDegraded(Reason.NO_VECTORS) from error
        except VectorStoreError as error:
            raise self._store_failed(_REASONS[error.reason]) from error
        except ArmDegraded as error:
            raise self._store_failed(error.reason) from error
        except asyncio.CancelledError:
            self._store_breaker = after_cancel(self._store_breaker)
            raise
        self._store_breaker = after_success(self._store_breaker)
        return hits

    def _store_failed(self, reason: Reason) -> ArmDegraded:
        self._last_reason = reason
        self._store_breaker = after_failure(self._store_breaker, time.monotonic())
        return ArmDegraded(reason)

    async def _drill(self, request: VectorRequest) -> None:
        match request.drill:
            case Drill(DrillKind.OFF):
                raise ArmDegraded(Reason.FORCED_OFF)
            case Drill(DrillKind.ERROR):
                raise ArmDegraded(Reason.STORE_ERROR)
            case Drill(DrillKind.SLOW, delay):
                async with _before(request.deadline, Reason.STORE_TIMEOUT):
                    await asyncio.sleep(delay)

    async def _collection(self) -> KnownCollection:
        match self._encoder.state:
            case EncoderState.LOADING:
                raise ArmDegraded(Reason.MODEL_LOADING)
            case EncoderState.ABSENT | EncoderState.FAILED:
                raise ArmDegraded(Reason.NO_MODEL)
        if self._ledger is not None and time.monotonic() - self._looked_at > POINTER_TTL_S:
            self._known = await self._ledger.collections()
            self._looked_at = time.monotonic()
        if all(one.role is CollectionRole.BUILDING for one in self._known):
            raise ArmDegraded(Reason.NO_VECTORS)
        serving = serving_collection(self._known, self._encoder.fingerprint)
        if serving is None:
            raise ArmDegraded(Reason.FINGERPRINT_MISMATCH)
        return serving

    async def _encode(self, request: VectorRequest) -> Float32Array:
        allowed, self._encoder_breaker = may_call(self._encoder_breaker, time.monotonic())
        if not allowed:
            raise ArmDegraded(self._last_encoder_reason)
        try:
            async with _before(request.deadline, Reason.ENCODE_TIMEOUT):
                vector = await self._encoder.encode_query(request.text, request.workspace)
        except EncoderFailed as error:
            raise self._encoder_failed(Reason.ENCODE_ERROR) from error
        except ArmDegraded as error:
            raise self._encoder_failed(error.reason) from error
        except asyncio.CancelledError:
            self._encoder_breaker = after_cancel(self._encoder_breaker)
            raise
        self._encoder_breaker = after_success(self._encoder_breaker)
        return vector

    def _encoder_failed(self, reason: Reason) -> ArmDegraded:
        self._last_encoder_reason = reason
        self._encoder_breaker = after_failure(self._encoder_breaker, time.monotonic())
        return ArmDegraded(reason)


class Nearest:
    """A query's distinct passages, nearest first, asked for in growing rounds."""

    def __init__(
        self, arm: VectorArm, collection: KnownCollection, vector: Float32Array, request: VectorRequest
    ) -> None:
        self._arm = arm
        self._collection = collection
        self._vector = vector
        self._request = request
        self._limit = 0
        self.rounds = 0
        self.hits: Sequence[NamedHit] = ()
        self.exhausted = False

    async def ask(self, limit: int) -> None:
        """The nearest `limit` points. Raises ArmDegraded."""
        query = VectorQuery(self._vector, self._request.workspace, self._request.content_type, limit)
        with self._request.tracer.span(Step.VECTOR_SEARCH) as span:
            found = await self._arm.search(self._collection, query, self._request.deadline)
            span.note("hits", len(found))
        self.rounds += 1
        self._limit = limit
        self.exhausted = len(found) < limit
        self.hits = distinct_passages(found)

    async def ask_further(self) -> bool:
        """Another round, deeper; False when the index has no more or the bound is reached."""
        if self.exhausted or self._limit >= MAX_HITS:
            return False
        await self.ask(min(self._limit * ROUND_GROWTH, MAX_HITS))
        return True


def distinct_passages(hits: Sequence[Hit]) -> Sequence[NamedHit]:
    """Each passage once, by its best window; best first, equal scores by item id and seq."""
    best: dict[tuple[ItemId, int], float] = {}
    for hit in hits:
        name = (hit.key.item_id, hit.key.seq)
        best[name] = max(hit.score, best.get(name, float("-inf")))
    ordered = sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))
    return [NamedHit(item_id, seq, score) for (item_id, seq), score in ordered]


@asynccontextmanager
async def _before(deadline: float, reason: Reason) -> AsyncIterator[None]:
    """Give up at the deadline, for that reason."""
    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
            yield
    except TimeoutError as error:
        raise ArmDegraded(reason) from error


_REASONS = {
    StoreReason.UNAVAILABLE: Reason.STORE_UNAVAILABLE,
    StoreReason.TIMEOUT: Reason.STORE_TIMEOUT,
    StoreReason.ERROR: Reason.STORE_ERROR,
    StoreReason.FINGERPRINT_MISMATCH: Reason.FINGERPRINT_MISMATCH,
}
