"""Several databases whose vectors are on one Qdrant server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.qdrant_server.catalogue import ForeignCollection
from service.adapters.vectors.qdrant_server.index import ServerVectorIndex
from service.adapters.vectors.qdrant_server.settings import CollectionSettings
from service.bootstrap import Application, application
from service.ingest.reconcile import reconcile
from service.ingest.store_pointer import repair_pointer
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import KnownCollection
from service.settings import Settings
from service.vector_parts import collection_settings, deployment_of
from tests.builders import capture, store
from tests.rollout.parts import WordEncoder
from tests.vectors.parts import DIMENSION, nearest, soon, unit_rows

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]
FORMERLY = CollectionSettings()  # one prefix for everybody, and nobody named as owner


@dataclass(frozen=True, slots=True)
class Deployed:
    """A database of its own, on a server that others use too."""

    app: Application
    settings: Settings
    client: AsyncQdrantClient

    @property
    def ledger(self) -> SqlVectorLedger:
        """The SQL side."""
        return SqlVectorLedger(self.app.store.engines, "float32")

    async def index(self) -> ServerVectorIndex:
        """The store as a process opens it now."""
        deployment = await deployment_of(self.settings, self.app.store.engines)
        assert deployment is not None
        return ServerVectorIndex(self.client, collection_settings(self.settings, deployment))

    async def worker(self) -> VectorWorker:
        """A worker of a process that has just started."""
        return VectorWorker(self.ledger, await self.index(), WordEncoder(), "words")

    async def formerly(self) -> VectorWorker:
        """A worker of the version that had one prefix for everybody."""
        return VectorWorker(self.ledger, ServerVectorIndex(self.client, FORMERLY), WordEncoder(), "words")


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Deployed, Deployed]]:
    """Two empty databases and one empty server."""
    client = AsyncQdrantClient(":memory:")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        made = []
        for name in ("one", "two"):
            settings = Settings(data_dir=tmp_path / name, qdrant_url="http://qdrant.example")
            app = await stack.enter_async_context(application(settings))
            made.append(Deployed(app, settings, client))
        yield made[0], made[1]


async def caught_up(worker: VectorWorker) -> KnownCollection:
    """Follow the log to its end; the collection."""
    while await worker.step() is StepOutcome.WORKED:
        pass
    await worker.release()
    collection = await worker.collection()
    assert collection is not None
    return collection


async def is_whole(worker: VectorWorker, passages: int) -> bool:
    """Whether the collection has exactly the points of this database's rows."""
    collection = await worker.collection()
    assert collection is not None
    found = await reconcile(worker, collection, repair=False)
    return (found.passages, found.points, found.missing, found.orphans) == (passages, passages, 0, 0)


async def test_two_databases_on_one_server_never_touch_each_other(two: tuple[Deployed, Deployed]) -> None:
    """C24: with one model, each database has points of its own; repairs, rebuilds and drops leave the other's."""
    one, other = two
    await store(one.app, capture("a", "sill", "door", item_id="a"))
    await store(other.app, capture("b", "glass", "noise", "lock", item_id="b"))
    first, second = await one.worker(), await other.worker()
    mine, theirs = await caught_up(first), await caught_up(second)
    assert mine.name == theirs.name  # one model: SQL calls them alike
    assert await is_whole(first, 2)
    assert await is_whole(second, 3)
    for worker, collection in ((first, mine), (second, theirs)):
        await reconcile(worker, collection, repair=True)
        await repair_pointer(worker.ledger, worker.index)
        await worker.release()
    assert await is_whole(first, 2)
    assert await is_whole(second, 3)
    for worker in (first, second):
        assert await worker.index.collections(soon()) == (mine.name,)
    await first.index.drop(mine.name, soon())
    assert await first.index.collections(soon()) == ()
    assert await is_whole(second, 3)
    aliases = {one.alias_name for one in (await one.client.get_aliases()).aliases}
    assert len(aliases) == 1  # the dropped one's went with it


async def test_a_collection_with_the_former_name_goes_on(two: tuple[Deployed, Deployed]) -> None:
    """C24: what a database filled under the former prefix serves on as it is; a newcomer makes its own."""
    one, other = two
    await store(one.app, capture("a", "sill", "door", item_id="a"))
    await store(other.app, capture("b", "glass", item_id="b"))
    collection = await caught_up(await one.formerly())
    newcomer = await other.worker()
    await caught_up(newcomer)
    worker = await one.worker()
    assert await is_whole(worker, 2)
    assert await worker.step() is StepOutcome.IDLE
    assert worker.counters.upserted == 0
    await store(one.app, capture("c", "lock", item_id="c"))
    await caught_up(worker)
    assert await is_whole(worker, 3)
    assert await is_whole(newcomer, 1)
    there = {found.name for found in (await one.client.get_collections()).collections}
    assert f"citewell-{collection.name}" in there
    assert len(there) == 2
    assert await worker.index.collections(soon()) == (collection.name,)
    await repair_pointer(worker.ledger, worker.index)
    assert isinstance(worker.index, ServerVectorIndex)
    assert await worker.index.active(soon()) == collection.name


async def test_who_shared_a_collection_shares_it_no_more(two: tuple[Deployed, Deployed]) -> None:
    """C24: of two databases that filled one collection the first to write keeps it, the other makes its own."""
    one, other = two
    await store(one.app, capture("a", "sill", item_id="a"))
    await store(other.app, capture("b", "glass", "lock", item_id="b"))
    await caught_up(await one.formerly())
    await caught_up(await other.formerly())
    first, second = await one.worker(), await other.worker()
    for worker in (first, second, first, second):
        collection = await caught_up(worker)
        await reconcile(worker, collection, repair=True)
        await worker.release()
    assert await is_whole(first, 1)
    assert await is_whole(second, 2)
    assert len((await one.client.get_collections()).collections) == 2


async def test_one_prefix_for_two_databases_is_refused(two: tuple[Deployed, Deployed]) -> None:
    """C24: a prefix that another database has is an error before a point is read, written or removed."""
    one, other = (
        Deployed(each.app, each.settings.model_copy(update={"qdrant_prefix": "shop-"}), each.client)
        for each in two
    )
    await store(one.app, capture("a", "sill", item_id="a"))
    first, intruder = await one.worker(), await other.worker()
    collection = await caught_up(first)
    with pytest.raises(ForeignCollection):
        await intruder.step()
    with pytest.raises(ForeignCollection):
        await intruder.index.search(collection.name, nearest(unit_rows(1, DIMENSION)[0], 1), soon())
    with pytest.raises(ForeignCollection):
        await intruder.index.drop(collection.name, soon())
    assert await is_whole(first, 1)


async def test_another_databases_retired_item_stays_unknown(two: tuple[Deployed, Deployed]) -> None:
    """C24: equal item ids in two databases are two points; retiring one leaves the other."""
    one, other = two
    for each in two:
        await store(each.app, capture("a", "sill", item_id="a"))
    first, second = await one.worker(), await other.worker()
    await caught_up(first)
    await caught_up(second)
    await one.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("a"))
    await caught_up(first)
    assert await is_whole(first, 0)
    assert await is_whole(second, 1)
