"""A process that captures and keeps a real embedded vector store up, until it is killed at a named point.

Rows in a real database, points in Qdrant Edge in a child of this process, vectors from a real encoder
service with hashed words in place of a model. It obeys `orders`, and reports.
"""

import asyncio
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from embeddings.encoder_service import EncoderService
from service.adapters.encoder import ServiceEncoder
from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import MEBIBYTE, EdgeSettings
from service.bootstrap import Application, application
from service.core.embedding_text import embedding_text
from service.core.rollout import FlagKind, FlagState
from service.ingest.vectors import StepOutcome, VectorWorker, WorkerSettings
from service.model import DEFAULT_WORKSPACE, MAX_LIMIT, ItemId, PassageText, Workspace
from service.ports.vectors import MAX_PAGE, CollectionName, PointKey, VectorPoint, point_id
from service.search.plan import Hybrid
from service.search.request import ByQuery, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from service.settings import Settings
from tests.embeddings.hash_encoder import HashEncoder
from tests.vector_faults.orders import (
    Churn,
    HaltAt,
    House,
    Leave,
    Order,
    Point,
    Report,
    Retire,
    Sight,
    Store,
    document,
)

QUERY = "sill3 door version"
PATIENCE_S = 60.0
LEASE_S = 0.1  # a killed worker's right to work runs out so soon
SOURCES = 8


def live_until_killed(pipe: Connection, house: House) -> None:
    """Catch up, report, and obey orders; only `Leave` lets it return."""
    asyncio.run(_live(pipe, house))


class Halt:
    """Stops this process's one thread for ever where the test wants it stopped."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.at: Point | None = None

    def __call__(self, point: Point) -> None:
        """Say that the point is reached, and come back never."""
        if point is self.at:
            self._pipe.send(point)
            while True:
                signal.pause()


class HaltingEdge(EdgeVectorIndex):
    """The real store with two points to halt at."""

    def __init__(self, settings: EdgeSettings, halt: Halt) -> None:
        super().__init__(settings)
        self._halt = halt

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: NDArray[np.float32],
        deadline: float,
    ) -> None:
        """As the real one, unless it halts."""
        self._halt(Point.BEFORE_UPSERT)
        await super().upsert(collection, points, vectors, deadline)

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """As the real one, unless it halts."""
        self._halt(Point.BEFORE_DELETE)
        await super().delete(collection, ids, deadline)


class HaltingLedger(SqlVectorLedger):
    """The real ledger with a point to halt at."""

    def __init__(self, engines: Engines, halt: Halt) -> None:
        super().__init__(engines, "float32")
        self._halt = halt

    async def save_progress(self, collection: CollectionName, incarnation: str, seq: int) -> None:
        """As the real one, unless it halts."""
        self._halt(Point.BEFORE_PROGRESS)
        await super().save_progress(collection, incarnation, seq)


class AlwaysOn:
    """A flag that is on. Implements RolloutFlag."""

    async def state(self, workspace: Workspace) -> FlagState:
        """On."""
        return FlagState(FlagKind.ON)


@dataclass(frozen=True, slots=True)
class Resident:
    """The parts of the process."""

    app: Application
    worker: VectorWorker
    retriever: Retriever
    halt: Halt

    async def catch_up(self) -> None:
        """Follow the log to its end; while a killed worker's lease runs, wait for it to run out."""
        while (outcome := await self.worker.step()) is not StepOutcome.IDLE:
            if outcome is not StepOutcome.WORKED:
                await asyncio.sleep(0.01)

    async def write(self, what: Store | Retire) -> None:
        """One transaction."""
        if isinstance(what, Store):
            await self.app.capturing.capture(DEFAULT_WORKSPACE, what.capture)
        else:
            await self.app.lifecycle.retire(DEFAULT_WORKSPACE, what.item_id)

    async def sight(self) -> Sight:
        """Everything there is to compare."""
        collection = await self.worker.collection()
        assert collection is not None
        soon = time.monotonic() + PATIENCE_S
        index = self.worker.index
        await index.ensure(collection.name, collection.dimension, soon)
        ids = await index.ids(collection.name, None, None, MAX_PAGE, soon)
        assert len(ids) < MAX_PAGE
        live = await self._live_passages()
        options = RetrieveOptions(DEFAULT_WORKSPACE, limit=MAX_LIMIT)
        answer = await self.retriever.retrieve(ByQuery(QUERY), options)
        progress = await self.worker.ledger.progress(collection.name)
        return Sight(
            points=frozenset(map(str, ids)),
            counted=await index.count(collection.name, None, soon),
            owed=frozenset(_points_owed(live)),
            live=frozenset((item_id, passage.seq) for item_id, _, passage in live),
            answered=tuple((r.provenance.item_id, r.seq) for r in answer.results),
            vector=answer.vector.reason,
            cached=await self._cached_texts(),
            pending=await self.worker.ledger.head() - (progress.seq if progress else 0),
        )

    async def _live_passages(self) -> list[tuple[ItemId, str, PassageText]]:
        items, passages = schema.items.c, schema.passages.c
        statement = (
            select(items.item_id, items.title, passages.seq, passages.heading, passages.text)
            .where(passages.item_key == items.item_key, passages.scorable)
            .where(items.retired_at.is_(None), items.superseded_by.is_(None))
        )
        async with begin(self.app.store.engines.read) as connection:
            found = (await connection.execute(statement)).all()
        return [
            (ItemId(row.item_id), row.title, PassageText(row.seq, row.heading, row.text)) for row in found
        ]

    async def _cached_texts(self) -> int:
        statement = select(func.count()).select_from(schema.embedding_cache)
        async with begin(self.app.store.engines.read) as connection:
            return int((await connection.execute(statement)).scalar_one())


def _points_owed(live: Sequence[tuple[ItemId, str, PassageText]]) -> list[str]:
    """A point for every window of every live passage."""
    encoder = HashEncoder()
    return [
        str(point_id(DEFAULT_WORKSPACE, PointKey(item_id, passage.seq, window)))
        for item_id, title, passage in live
        for window in range(len(encoder.windows(embedding_text(title, passage.heading, passage.text))))
    ]


@asynccontextmanager
async def resident(house: House, halt: Halt) -> AsyncIterator[Resident]:
    """Open everything; after `Leave` close it in order."""
    settings = Settings(data_dir=house.data_dir, database_url=house.database_url, index_grace=0.0)
    edge = EdgeSettings(house.data_dir / "vectors", reserve_bytes=MEBIBYTE)
    service = EncoderService(HashEncoder)
    service.start()
    async with application(settings) as app:
        await service.wait_ready(PATIENCE_S)
        index = HaltingEdge(edge, halt)
        ledger = HaltingLedger(app.store.engines, halt)
        encoder = ServiceEncoder(service)
        bounds = WorkerSettings(lease_seconds=LEASE_S)
        worker = VectorWorker(ledger, index, encoder, "hash", bounds)
        hybrid = Hybrid(VectorArm(encoder, index, ledger), AlwaysOn(), budget=PATIENCE_S)
        yield Resident(app, worker, Retriever(app.store, app.lexical, hybrid), halt)
        await worker.release()
        await index.close()
    await service.close()


async def _live(pipe: Connection, house: House) -> None:
    async with resident(house, Halt(pipe)) as here:
        found = await here.sight()
        await here.catch_up()
        counters = here.worker.counters
        pipe.send(Report(found, await here.sight(), counters.encoded, counters.parked))
        order: Order = await asyncio.to_thread(pipe.recv)
        match order:
            case HaltAt(writes, point):
                for write in writes:
                    await here.write(write)
                here.halt.at = point
                await here.catch_up()
                raise AssertionError(f"never came to: {point}")
            case Churn(seed):
                await _churn(pipe, here, random.Random(seed))  # noqa: S311 - what to write, not a secret
            case Leave():
                return


async def _churn(pipe: Connection, here: Resident, chance: random.Random) -> None:
    following = asyncio.create_task(_follow(here))
    pipe.send("begun")
    version = chance.randrange(1_000, 1_000_000)
    while not following.done():
        version += 1
        source = chance.randrange(SOURCES)
        await here.write(Store(document(source, version, passages=1 + chance.randrange(6))))
        if chance.random() < 0.3:
            await here.write(Retire(ItemId(f"s{source}v{version}")))
    following.result()


async def _follow(here: Resident) -> None:
    while True:
        await here.worker.step()
        await asyncio.sleep(0)
