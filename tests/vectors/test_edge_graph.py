"""Building an HNSW graph beside a serving shard, and switching to it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from service.adapters.vectors.qdrant_edge import folders
from service.adapters.vectors.qdrant_edge.collection import ServedCollection
from service.adapters.vectors.qdrant_edge.graph import GraphKeeper, threshold
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings, GraphSettings, Quantization
from service.model import ContentType
from service.ports.vectors import VectorStorageFull, VectorStoreError
from tests.vectors.parts import COLLECTION, all_ids, exact, filled, nearest, points_of, soon, unit_rows
from tests.vectors.processes import appears, eventually, running, shard_folder, the_process

pytestmark = pytest.mark.anyio

COUNT = 3000  # beyond the threshold, and not so far that nobody waits for writers to settle
WIDE = 64


@pytest.fixture(params=list(Quantization))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EdgeVectorIndex]:
    """A store that wants a graph above 1000 points, but waits for an hour without writes."""
    graph = GraphSettings(quantization=request.param)
    settings = EdgeSettings(
        tmp_path, exact_points=1000, settle_seconds=3600.0, graph=graph, backoff_seconds=(0.02, 0.1)
    )
    opened = EdgeVectorIndex(settings)
    yield opened
    await opened.close()


def parts_of(store: EdgeVectorIndex) -> tuple[ServedCollection, GraphKeeper]:
    """What serves COLLECTION."""
    return store._store._open[COLLECTION]


async def recall(store: EdgeVectorIndex, content_type: ContentType | None = None) -> float:
    """The share of the exact fifty best that twenty searches find."""
    points, vectors = points_of(COUNT), unit_rows(COUNT, WIDE)
    found = 0
    for vector in unit_rows(20, WIDE, seed=9):
        query = nearest(vector, 50, content_type=content_type)
        expected = {hit.key for hit in exact(points, vectors, query)}
        found += len(expected & {hit.key for hit in await store.search(COLLECTION, query, soon())})
    return found / 1000


async def test_a_large_collection_is_searched_by_its_graph(store: EdgeVectorIndex) -> None:
    """C24: after the switch nothing is outside the graph, one process serves, and recall is kept."""
    await filled(store, COUNT, WIDE)
    before = await store.describe(COLLECTION, soon())
    served, keeper = parts_of(store)
    assert served.outside_graph == COUNT
    old = the_process().pid

    await keeper.build()

    assert served.outside_graph == 0
    assert the_process().pid != old
    assert await store.describe(COLLECTION, soon()) == before
    assert await recall(store) >= 0.95


async def test_a_large_part_of_a_collection_has_a_graph_of_its_own(tmp_path: Path) -> None:
    """C24: with every content type beyond the exact bound, a search of one keeps its recall."""
    store = EdgeVectorIndex(EdgeSettings(tmp_path, exact_points=100, settle_seconds=3600.0))
    await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    await keeper.build()
    for content_type in ContentType:
        assert await recall(store, content_type) >= 0.95
    await store.close()


async def test_a_graph_is_built_when_writes_have_settled(tmp_path: Path) -> None:
    """Beyond the threshold, and once no write came for a while, the graph is built unasked."""
    store = EdgeVectorIndex(EdgeSettings(tmp_path, exact_points=500, settle_seconds=0.1))
    await filled(store, 400, WIDE)
    assert not await appears("build_graph", patience=0.5)

    await filled(store, COUNT, WIDE)

    served, _ = parts_of(store)
    for _ in range(600):
        if served.outside_graph <= threshold(COUNT, 500):
            break
        await asyncio.sleep(0.05)
    assert served.outside_graph <= threshold(COUNT, 500)
    assert await store.count(COLLECTION, None, soon()) == COUNT
    await store.close()


async def test_writes_during_a_build_are_carried_over(store: EdgeVectorIndex) -> None:
    """C16: what is stored, replaced or removed while the graph is built is so after the switch, and
    searches are answered all the while.
    """
    vectors = await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    building = asyncio.create_task(keeper.build())
    points, gone = points_of(COUNT), set[uuid.UUID]()
    added: set[uuid.UUID] = set()
    step = 0
    while not building.done():
        fresh = points_of(7, prefix=f"new{step}")
        await store.upsert(COLLECTION, fresh, unit_rows(7, WIDE, seed=step), soon())
        added.update(point.id for point in fresh)
        victim = points[step % COUNT]
        await store.delete(COLLECTION, [victim.id], soon())
        gone.add(victim.id)
        await store.upsert(COLLECTION, [points[-1]], unit_rows(1, WIDE, seed=step), soon())
        assert await store.search(COLLECTION, nearest(vectors[-2], 3), soon())
        step += 1
    await building

    expected = ({point.id for point in points} - gone) | added
    assert step > 3
    assert await all_ids(store) == expected
    hits = await store.search(COLLECTION, nearest(unit_rows(1, WIDE, seed=step - 1)[0], 20), soon())
    assert points[-1].key in {hit.key for hit in hits if hit.score > 0.999}


async def test_a_killed_builder_changes_nothing(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """E16: a build that fails leaves the serving shard as it was and no folder behind."""
    vectors = await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    place, pid = shard_folder(tmp_path), the_process().pid
    building = asyncio.create_task(keeper.build())
    assert await appears("build_graph")
    the_process("build_graph").kill()

    with pytest.raises(VectorStoreError):
        await building

    assert (shard_folder(tmp_path), the_process().pid) == (place, pid)
    assert running("build_graph") == []
    assert (await store.search(COLLECTION, nearest(vectors[5], 1), soon()))[0].key == points_of(6)[5].key
    await keeper.build()
    assert await recall(store) >= 0.95


async def test_the_serving_process_killed_during_a_build(store: EdgeVectorIndex) -> None:
    """Whether the build then succeeds or fails, every acknowledged point is there afterwards."""
    await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    building = asyncio.create_task(keeper.build())
    assert await appears("build_graph")
    the_process().kill()
    await asyncio.gather(building, return_exceptions=True)

    assert await eventually(lambda: store.count(COLLECTION, None, soon())) == COUNT
    await eventually(keeper.build)
    assert await store.count(COLLECTION, None, soon()) == COUNT
    assert await recall(store) >= 0.95


async def test_closing_during_a_build_leaves_nothing_behind(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """A store closed in the middle of a build ends the builder, and the next one finds the points."""
    await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    building = asyncio.create_task(keeper.build())
    assert await appears("build_graph")
    building.cancel()
    await asyncio.gather(building, return_exceptions=True)
    await store.close()

    assert running("build_graph") == running() == []
    shard_folder(tmp_path)  # there is exactly one
    again = EdgeVectorIndex(EdgeSettings(tmp_path))
    assert await again.count(COLLECTION, None, soon()) == COUNT
    await again.close()


async def test_what_a_crash_left_of_a_build_is_removed(tmp_path: Path) -> None:
    """A shard folder that the description does not name is deleted when the collection is opened."""
    first = EdgeVectorIndex(EdgeSettings(tmp_path))
    await filled(first, 10)
    await first.close()
    (tmp_path / COLLECTION / "shard-left-over").mkdir()

    second = EdgeVectorIndex(EdgeSettings(tmp_path))
    assert await second.count(COLLECTION, None, soon()) == 10
    assert len(list((tmp_path / COLLECTION).glob("shard-*"))) == 1
    await second.close()


async def test_a_graph_survives_a_restart(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """The description names the folder with the graph, so the next process opens that one."""
    await filled(store, COUNT, WIDE)
    _, keeper = parts_of(store)
    await keeper.build()
    await store.close()
    meta = msgspec.json.decode((tmp_path / COLLECTION / "meta.json").read_bytes(), type=folders.Meta)
    assert meta.shard == shard_folder(tmp_path).name

    again = EdgeVectorIndex(EdgeSettings(tmp_path, exact_points=500))
    assert await again.count(COLLECTION, None, soon()) == COUNT
    served, _ = parts_of(again)
    assert served.outside_graph == 0
    assert await recall(again) >= 0.95
    await again.close()


async def test_no_graph_without_room(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """A build that might fill the disk is not begun."""
    await filled(store, COUNT, WIDE)
    served, _ = parts_of(store)
    greedy = EdgeSettings(tmp_path, reserve_bytes=1 << 60, settle_seconds=3600.0)
    keeper = GraphKeeper(served, greedy)

    with pytest.raises(VectorStorageFull):
        await keeper.build()

    assert running("build_graph") == []
    await keeper.close()


@pytest.mark.parametrize(
    ("points", "most"), [(0, 20_000), (99_999, 20_000), (200_000, 40_000), (10_000_000, 80_000)]
)
def test_the_threshold_grows_with_the_collection(points: int, most: int) -> None:
    """A fifth of the points, within one and four times the number that is always searched exactly."""
    assert threshold(points, 20_000) == most
