"""Changing the model on the stores that serve: Qdrant Edge in its child process, and a Qdrant server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.adapters.vectors.qdrant_server.index import ServerVectorIndex
from service.adapters.vectors.qdrant_server.settings import CollectionSettings
from service.bootstrap import Application
from service.ingest.migration import MigrationRefused, migrate
from service.ingest.store_pointer import PointerKeeper, repair_pointer
from service.ingest.vector_collections import drop_collection
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import CollectionRole, EncoderFailed, KnownCollection
from service.ports.vectors import CollectionName, PointKey, VectorIndex, VectorStoreUnavailable, point_id
from service.search.plan import Hybrid
from service.search.request import Answer, ArmState, ByQuery, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from tests.builders import capture, ids, store
from tests.vector_arm.parts import GENEROUS_S, AlwaysOn, WordEncoder
from tests.vectors.parts import soon

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]
ACTIVE, RETIRED, BUILDING = CollectionRole.ACTIVE, CollectionRole.RETIRED, CollectionRole.BUILDING
PATIENCE_S = 60.0


class StuckAlias(ServerVectorIndex):
    """A real server's adapter that fails to move its alias as often as it is told."""

    def __init__(self) -> None:
        super().__init__(AsyncQdrantClient(":memory:"), CollectionSettings())
        self.refusals = 0

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """As the real one, once it is not stuck any more."""
        if self.refusals:
            self.refusals -= 1
            raise VectorStoreUnavailable("told to fail")
        await super().activate(collection, deadline)


class WatchedEncoder(WordEncoder):
    """A model that has somebody look on at every batch of passages, and may fail from one on."""

    def __init__(self, fingerprint: str, look: Callable[[], Awaitable[None]], lasts: int = 1_000) -> None:
        super().__init__(fingerprint)
        self._look = look
        self.lasts = lasts

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """One window a text. Raises EncoderFailed when it has done so many batches."""
        await self._look()
        if not self.lasts:
            raise EncoderFailed("told to fail")
        self.lasts -= 1
        return await super().encode_passages(texts)


@dataclass(slots=True)
class Change:
    """A corpus with vectors of a first model, about to get a second."""

    app: Application
    index: VectorIndex
    ledger: SqlVectorLedger
    first: WordEncoder = field(default_factory=lambda: WordEncoder("words-1"))
    seen: list[ArmState] = field(default_factory=list)
    arm: VectorArm = field(init=False)

    def __post_init__(self) -> None:
        """The read path begins with the first model."""
        self.arm = VectorArm(self.first, self.index, self.ledger)

    async def begin(self) -> None:
        """Three documents, followed and served by the first model."""
        for name, text in (("a", "threshold"), ("b", "sill"), ("c", "noise")):
            await store(self.app, capture(name, text, item_id=name))
        worker = VectorWorker(self.ledger, self.index, self.first, "words", owner="first")
        while await worker.step() is StepOutcome.WORKED:
            pass
        await worker.release()
        await repair_pointer(self.ledger, self.index)

    def second(self, lasts: int = 1_000) -> VectorWorker:
        """A worker of the next model, under whose building somebody searches."""
        encoder = WatchedEncoder("words-2", self.look, lasts)
        return VectorWorker(self.ledger, self.index, encoder, "words two", owner="second")

    async def ask(self) -> Answer:
        """A query that by vectors finds two documents, and by words one."""
        hybrid = Hybrid(self.arm, AlwaysOn(), budget=GENEROUS_S)
        return await Retriever(self.app.store, self.app.lexical, hybrid).retrieve(
            ByQuery("sill"), RetrieveOptions(DEFAULT_WORKSPACE)
        )

    async def look(self) -> None:
        """Search now, and keep how the arm ran."""
        self.seen.append((await self.ask()).vector.state)

    async def roles(self) -> list[CollectionRole]:
        """Of the collections, oldest first."""
        return [one.role for one in await self.ledger.collections()]

    async def pointed(self) -> CollectionName | None:
        """Where the store itself points; where it keeps no pointer, where SQL does."""
        if isinstance(self.index, ServerVectorIndex):
            return await self.index.active(soon())
        return (await self.serving()).name

    async def serving(self) -> KnownCollection:
        """The collection that SQL says serves."""
        return next(one for one in await self.ledger.collections() if one.role is ACTIVE)


@pytest.fixture(params=["edge", "server"])
async def change(request: pytest.FixtureRequest, app: Application, tmp_path: Path) -> AsyncIterator[Change]:
    """Each store in turn, on each database."""
    index: VectorIndex = (
        EdgeVectorIndex(EdgeSettings(tmp_path / "edge")) if request.param == "edge" else StuckAlias()
    )
    made = Change(app, index, SqlVectorLedger(app.store.engines, "float32"))
    await made.begin()
    yield made
    await made.arm.close()
    await index.close()


async def test_the_first_model_serves_while_the_second_is_built(change: Change) -> None:
    """E16: the old collection answers all through the build; then SQL and the store's alias point at the new."""
    old = await change.serving()
    assert await change.pointed() == old.name
    done = await migrate(change.second())
    assert (done.switched, done.passages, done.points, done.recall) == (True, 3, 3, 1.0)
    assert done.is_pointed
    assert change.seen
    assert set(change.seen) == {ArmState.RAN}
    assert await change.roles() == [RETIRED, ACTIVE]
    assert await change.pointed() == done.collection.name != old.name
    assert set(await change.index.collections(soon())) == {old.name, done.collection.name}
    change.arm.switch(WordEncoder("words-2"))
    assert set(ids(await change.ask())) >= {"a", "b"}
    assert (await change.ask()).vector.state is ArmState.RAN


async def test_a_build_that_fails_changes_nothing(change: Change) -> None:
    """E16: an encoder that dies in the middle leaves pointer, alias and answers; the next try takes it up."""
    old = await change.serving()
    with pytest.raises(EncoderFailed):
        await migrate(change.second(lasts=0))
    assert await change.roles() == [ACTIVE, BUILDING]
    assert await change.pointed() == old.name
    assert (await change.ask()).vector.state is ArmState.RAN
    again = change.second()
    await again.release()
    done = await migrate(again)
    assert (done.switched, done.passages) == (True, 3)
    assert await change.pointed() == done.collection.name


async def test_a_collection_that_lacks_points_is_refused(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E16: what does not hold every passage never serves, and the alias stays."""
    old = await change.serving()
    lost = point_id(DEFAULT_WORKSPACE, PointKey(ItemId("b"), 0))
    upsert = type(change.index).upsert

    async def losing(
        self: object, collection: CollectionName, points: object, vectors: object, deadline: float
    ) -> None:
        await upsert(change.index, collection, points, vectors, deadline)  # type: ignore[arg-type]
        await change.index.delete(collection, [lost], deadline)

    monkeypatch.setattr(type(change.index), "upsert", losing)
    with pytest.raises(MigrationRefused):
        await migrate(change.second())
    assert await change.roles() == [ACTIVE, BUILDING]
    assert await change.pointed() == old.name


async def test_the_old_collection_is_kept_until_it_is_dropped(change: Change) -> None:
    """E16: what serves cannot be dropped; what served before can, and only that goes."""
    old = await change.serving()
    await migrate(change.second())
    new = await change.serving()
    await drop_collection(change.ledger, change.index, old.name, "operator")
    assert await change.index.collections(soon()) == (new.name,)
    assert await change.roles() == [ACTIVE]
    assert await change.pointed() == new.name


@pytest.fixture
async def stuck(app: Application) -> AsyncIterator[tuple[Change, StuckAlias]]:
    """A server whose alias can be made not to move, on each database."""
    index = StuckAlias()
    made = Change(app, index, SqlVectorLedger(app.store.engines, "float32"))
    await made.begin()
    yield made, index
    await made.arm.close()
    await index.close()


async def test_an_alias_that_did_not_move_is_moved_later(stuck: tuple[Change, StuckAlias]) -> None:
    """E16: the switch is made in SQL; an alias that could not follow is put right by the next start."""
    change, index = stuck
    old = await change.serving()
    index.refusals = 1
    done = await migrate(change.second())
    assert (done.switched, done.is_pointed) == (True, False)
    assert await change.roles() == [RETIRED, ACTIVE]
    assert await change.pointed() == old.name
    index.refusals = 1
    told: list[str] = []
    keeper = asyncio.create_task(PointerKeeper(change.ledger, index, told.append, first_pause=0.01).run())
    async with asyncio.timeout(PATIENCE_S):
        while await change.pointed() != done.collection.name:  # noqa: ASYNC110 - a server has no event
            await asyncio.sleep(0.01)
    keeper.cancel()
    assert told == ["told to fail"]


async def test_migrating_again_moves_the_alias(stuck: tuple[Change, StuckAlias]) -> None:
    """E16: a second try finds that the new collection serves, and has only the alias left to move."""
    change, index = stuck
    index.refusals = 1
    await migrate(change.second())
    again = await migrate(change.second())
    assert (again.switched, again.is_pointed) == (False, True)
    assert await change.pointed() == again.collection.name


async def test_nothing_to_point_at(app: Application) -> None:
    """E16: before the first collection, and where the store keeps no pointer, there is nothing to repair."""
    ledger, index = SqlVectorLedger(app.store.engines, "float32"), StuckAlias()
    assert not await repair_pointer(ledger, index)
    assert await index.active(soon()) is None
    await index.close()
