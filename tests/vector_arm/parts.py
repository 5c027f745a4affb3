"""An index that is real until it is told to lie, an encoder that can fail, and a house around them."""

import asyncio
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.hits import best_first
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.core.fusion import FusionSettings
from service.core.rollout import FlagKind, FlagState
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, Workspace
from service.ports.embedding import EncoderFailed, EncoderState, TextRefused
from service.ports.vectors import (
    CollectionName,
    CollectionState,
    Hit,
    VectorPoint,
    VectorQuery,
    VectorStoreError,
)
from service.search.circuit import PROBER
from service.search.plan import Hybrid
from service.search.request import Answer, Arms, ByQuery, Explain, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from tests.rollout.parts import WordEncoder as PlainWordEncoder

Float32Array = NDArray[np.float32]
GENEROUS_S = 30.0
ON = FlagState(FlagKind.ON)
UNREADABLE = "\u200b"  # a text in which a real encoder finds no token


def is_probing() -> bool:
    """Whether a circuit asks, and no request."""
    task = asyncio.current_task()
    return task is not None and task.get_name() == PROBER


@dataclass(slots=True)
class LyingIndex:
    """A memory index whose searches can be made to answer anything, late, or not at all."""

    real: MemoryVectorIndex
    extra: list[Hit] = field(default_factory=list)  # put in front of every answer
    error: VectorStoreError | None = None
    delay: float = 0.0
    ill_beyond: int = 0  # searches for no more points than that are well
    searches: int = 0
    limits: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)  # the limits that nobody's request asked for
    crash_before_upsert: bool = False
    crash_after_upsert: bool = False

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """The real hits behind the invented ones, cut at the limit and ordered as an engine's adapter does it."""
        self.searches += 1
        (self.probes if is_probing() else self.limits).append(query.limit)
        is_ill = query.limit > self.ill_beyond
        if self.delay and is_ill:
            await asyncio.sleep(self.delay)
        if self.error is not None and is_ill:
            raise self.error
        found = await self.real.search(collection, query, max(deadline, time.monotonic() + 1.0))
        return best_first((*self.extra, *found)[: query.limit])

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """As the real one."""
        return await self.real.ensure(collection, dimension, deadline)

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: Float32Array,
        deadline: float,
    ) -> None:
        """As the real one, with a process that dies right before or right after."""
        if self.crash_before_upsert:
            raise KilledHere
        await self.real.upsert(collection, points, vectors, deadline)
        if self.crash_after_upsert:
            raise KilledHere

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """As the real one."""
        await self.real.delete(collection, ids, deadline)

    async def collections(self, deadline: float) -> tuple[CollectionName, ...]:
        """As the real one."""
        return await self.real.collections(deadline)

    async def describe(self, collection: CollectionName, deadline: float) -> CollectionState:
        """As the real one."""
        return await self.real.describe(collection, deadline)

    async def ids(
        self,
        collection: CollectionName,
        workspace: Workspace | None,
        after: uuid.UUID | None,
        limit: int,
        deadline: float,
    ) -> tuple[uuid.UUID, ...]:
        """As the real one."""
        return await self.real.ids(collection, workspace, after, limit, deadline)

    async def count(self, collection: CollectionName, workspace: Workspace | None, deadline: float) -> int:
        """As the real one."""
        return await self.real.count(collection, workspace, deadline)

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """As the real one."""
        await self.real.drop(collection, deadline)

    async def health(self, deadline: float) -> None:
        """As the real one."""
        await self.real.health(deadline)

    async def close(self) -> None:
        """As the real one."""
        await self.real.close()


class KilledHere(BaseException):
    """The process ends at this point; nothing catches it."""


class WordEncoder(PlainWordEncoder):
    """The toy encoder with an order to fail, hang or choke on a word. Another name is another model."""

    def __init__(self, fingerprint: str = "words-1") -> None:
        self.fingerprint = fingerprint
        self.fails = False
        self.hangs = False
        self.poison: str | None = None
        self.encoded = 0
        self.queries = 0  # but for the arm's own probes
        self.state = EncoderState.READY

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """(64,) float32, unit length. Raises EncoderFailed when told to."""
        self.queries += not is_probing()
        if self.hangs:
            await asyncio.sleep(3_600)
        if self.fails:
            raise EncoderFailed("told to fail")
        if text == UNREADABLE:
            raise TextRefused("nothing to read")
        return await super().encode_query(text, workspace)

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """One window a text. Raises EncoderFailed for a batch with the poison in it."""
        if self.fails or (self.poison and any(self.poison in text for text in texts)):
            raise EncoderFailed("told to fail")
        self.encoded += len(texts)
        return await super().encode_passages(texts)


class AlwaysOn:
    """A flag that is on. Implements RolloutFlag."""

    async def state(self, workspace: Workspace) -> FlagState:
        """On."""
        return ON


@dataclass(slots=True)
class Vectors:
    """The house: an application, and a vector arm that a test can make ill."""

    app: Application
    index: LyingIndex
    encoder: WordEncoder
    ledger: SqlVectorLedger
    fusion: FusionSettings = field(default_factory=FusionSettings)
    arm: VectorArm = field(init=False)

    def __post_init__(self) -> None:
        """One arm, so that its breaker remembers."""
        self.arm = VectorArm(self.encoder, self.index, self.ledger)

    def worker(self, owner: str = "w1") -> VectorWorker:
        """A worker on the same index."""
        return VectorWorker(self.ledger, self.index, self.encoder, "words", owner=owner)

    async def sync(self) -> VectorWorker:
        """Follow the log to its end."""
        worker = self.worker()
        while await worker.step() is StepOutcome.WORKED:
            pass
        return worker

    async def ask(
        self,
        query: str,
        limit: int = 8,
        arms: Arms = Arms.BY_FLAG,
        budget: float = GENEROUS_S,
        patience: float | None = None,
        **more: object,
    ) -> Answer:
        """Retrieve with the flag on. `budget` is the setting; `patience` is this request's own, if it has one."""
        retriever = Retriever(
            self.app.store, self.app.lexical, Hybrid(self.arm, AlwaysOn(), self.fusion, budget)
        )
        options = RetrieveOptions(
            DEFAULT_WORKSPACE,
            limit=limit,
            arms=arms,
            explain=Explain.ON,
            budget=patience,
            **more,  # type: ignore[arg-type]
        )
        return await retriever.retrieve(ByQuery(query), options)

    async def lexically(self, query: str, limit: int = 8) -> Answer:
        """The same request to a process that has no vector arm."""
        options = RetrieveOptions(DEFAULT_WORKSPACE, limit=limit, explain=Explain.ON)
        return await Retriever(self.app.store, self.app.lexical).retrieve(ByQuery(query), options)
