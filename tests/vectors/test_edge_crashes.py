"""The embedded store when its processes die, hang or outlive their parent."""

import asyncio
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.ports.vectors import (
    CollectionMissing,
    StoreReason,
    VectorStoreError,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)
from tests.vectors.parts import COLLECTION, DIMENSION, filled, nearest, points_of, soon, unit_rows
from tests.vectors.processes import appears, eventually, moment, running, stopped, the_process

pytestmark = pytest.mark.anyio

KILLS = 20
AT_ONCE = 10.0  # seconds, on a busy machine; the deadlines below are far longer


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[EdgeVectorIndex]:
    """A store that restarts its processes after short pauses and gives up on hanging ones early."""
    settings = EdgeSettings(
        tmp_path / "vectors", backoff_seconds=(0.02, 0.1), stall_seconds=0.5, calls_in_flight=64
    )
    store = EdgeVectorIndex(settings)
    yield store
    await store.close()


async def test_kill_in_mid_query(quick: EdgeVectorIndex) -> None:
    """C27: kill -9 at twenty seeded moments of searching: calls in flight fail at once as unavailable,
    and the arm recovers without a restart.
    """
    vectors = await filled(quick, 2000, 64)
    failed = 0
    for seed in range(KILLS):
        searches = [
            asyncio.create_task(quick.search(COLLECTION, nearest(vectors[number], 200), soon(60)))
            for number in range(60)
        ]
        await asyncio.sleep(moment(seed, 0.05))
        the_process().kill()
        killed = time.monotonic()
        answers = await asyncio.gather(*searches, return_exceptions=True)

        assert time.monotonic() - killed < AT_ONCE
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        assert all(type(failure) is VectorStoreUnavailable for failure in failures)
        failed += len(failures)
        hits = await eventually(lambda: quick.search(COLLECTION, nearest(vectors[7], 5), soon()))
        assert hits[0].key == points_of(8)[7].key
    assert failed > KILLS  # the kills did come in the middle
    assert await quick.count(COLLECTION, None, soon()) == 2000


async def test_kill_in_mid_upsert(quick: EdgeVectorIndex) -> None:
    """C16: kill -9 at twenty seeded moments of writing: no acknowledged point is lost, and writing the
    rest again completes the batch.
    """
    await quick.ensure(COLLECTION, 64, soon())
    acknowledged: set[uuid.UUID] = set()

    async def write(prefix: str) -> None:
        points, vectors = points_of(20, prefix=prefix), unit_rows(20, 64)
        await quick.upsert(COLLECTION, points, vectors, soon(60))
        acknowledged.update(point.id for point in points)

    failed = 0
    for seed in range(KILLS):
        names = [f"{seed}-{number}" for number in range(20)]
        writes = [asyncio.create_task(write(name)) for name in names]
        await asyncio.sleep(moment(seed, 0.08))
        the_process().kill()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)

        assert all(type(outcome) in (type(None), VectorStoreUnavailable) for outcome in outcomes)
        failed += sum(outcome is not None for outcome in outcomes)
        stored = await eventually(lambda: quick.ids(COLLECTION, None, None, 10_000, soon()))
        assert acknowledged <= set(stored)
    assert failed > KILLS  # the kills did come in the middle
    for name in [f"{seed}-{number}" for seed in range(KILLS) for number in range(20)]:
        await write(name)
    assert await quick.count(COLLECTION, None, soon()) == KILLS * 20 * 20 == len(acknowledged)


async def test_a_killed_process_does_not_start_the_collection_afresh(quick: EdgeVectorIndex) -> None:
    """Being killed, however often, says nothing about the shard: the incarnation and the points stay."""
    await filled(quick, 10)
    before = await quick.describe(COLLECTION, soon())
    for _ in range(5):
        the_process().kill()
        await asyncio.sleep(0.05)
        assert await eventually(lambda: quick.describe(COLLECTION, soon())) == before


async def test_a_hanging_process_is_a_timeout_and_then_replaced(quick: EdgeVectorIndex) -> None:
    """C27: a process that answers nothing costs each call its deadline, and is replaced after a while."""
    vectors = await filled(quick, 10)
    hanging = the_process()
    hanging.suspend()
    began = time.monotonic()

    with pytest.raises(VectorStoreTimeout) as late:
        await quick.search(COLLECTION, nearest(vectors[0], 1), soon(0.2))

    assert 0.15 < time.monotonic() - began < 0.2 + AT_ONCE
    assert late.value.reason is StoreReason.TIMEOUT
    await eventually(lambda: quick.search(COLLECTION, nearest(vectors[0], 1), soon(0.3)))
    assert the_process().pid != hanging.pid


async def test_a_late_answer_is_dropped(edge: EdgeVectorIndex) -> None:
    """An answer that comes after its deadline is given to nobody, and the next call gets its own."""
    vectors = await filled(edge, 50)
    with stopped(the_process()):
        for number in range(10):
            with pytest.raises(VectorStoreTimeout):
                await edge.search(COLLECTION, nearest(vectors[number], 1), soon(0.02))
    for number in range(10, 50):
        hits = await edge.search(COLLECTION, nearest(vectors[number], 1), soon())
        assert hits[0].key == points_of(50)[number].key


async def test_a_write_that_timed_out_can_be_made_again(edge: EdgeVectorIndex) -> None:
    """A write whose deadline passed may or may not have happened; repeated, it has happened once."""
    await filled(edge, 5)
    more, vectors = points_of(5, prefix="more"), unit_rows(5)
    with stopped(the_process()), pytest.raises(VectorStoreTimeout):
        await edge.upsert(COLLECTION, more, vectors, soon(0.05))

    await edge.upsert(COLLECTION, more, vectors, soon())

    assert await edge.count(COLLECTION, None, soon()) == 10


async def test_too_many_calls_are_turned_away_at_once(quick: EdgeVectorIndex) -> None:
    """Calls beyond the bound fail as unavailable without waiting; those within it run to their deadline."""
    vectors = await filled(quick, 5)
    with stopped(the_process()):
        calls = [quick.search(COLLECTION, nearest(vectors[0], 1), soon(0.3)) for _ in range(100)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers].count(VectorStoreTimeout) == 64
    assert [type(answer) for answer in answers].count(VectorStoreUnavailable) == 36


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    """A closed store leaves no process behind; opened again it has the same points and incarnation."""
    first = EdgeVectorIndex(EdgeSettings(tmp_path))
    vectors = await filled(first, 100)
    before = await first.describe(COLLECTION, soon())
    await first.close()
    assert running() == []

    second = EdgeVectorIndex(EdgeSettings(tmp_path))
    hits = await second.search(COLLECTION, nearest(vectors[42], 1), soon())

    assert hits[0].key == points_of(100)[42].key
    assert await second.describe(COLLECTION, soon()) == before
    await second.close()


async def test_a_root_has_one_owner(tmp_path: Path) -> None:
    """A second store on the same root is unavailable until the first is closed; a closed one stays closed."""
    first, second = EdgeVectorIndex(EdgeSettings(tmp_path)), EdgeVectorIndex(EdgeSettings(tmp_path))
    await filled(first, 1)

    with pytest.raises(VectorStoreUnavailable):
        await second.health(soon())
    with pytest.raises(VectorStoreUnavailable):
        await second.ensure(COLLECTION, DIMENSION, soon())
    await first.close()
    assert (await second.describe(COLLECTION, soon())).points == 1
    with pytest.raises(VectorStoreUnavailable):
        await first.count(COLLECTION, None, soon())
    await second.close()


async def test_a_collection_that_was_never_made_is_missing(edge: EdgeVectorIndex) -> None:
    """Asking for an unknown collection starts no process and leaves nothing on disk."""
    with pytest.raises(CollectionMissing):
        await edge.count(COLLECTION, None, soon())
    assert running() == []
    assert await edge.collections(soon()) == ()


PARENT = """
import asyncio, sys
from pathlib import Path
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings, GraphSettings
from tests.vectors.parts import COLLECTION, points_of, soon, unit_rows

async def main():
    slow = GraphSettings(build_depth=2000, links=100)
    settings = EdgeSettings(Path(sys.argv[1]), exact_points=100, settle_seconds=0.0, graph=slow)
    store = EdgeVectorIndex(settings)
    await store.ensure(COLLECTION, 64, soon())
    await store.upsert(COLLECTION, points_of(8000), unit_rows(8000, 64), soon(60))
    print("stored", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_no_process_outlives_its_parent(tmp_path: Path, end: signal.Signals) -> None:
    """However the parent ends, in the middle of building a graph, its processes end with it."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    said = await parent.stdout.readuntil(b"stored\n")
    assert b"vector_shard_ready" in said
    assert await appears("build_graph", parent.pid)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert len(children) == 2

    parent.send_signal(end)
    await parent.communicate()

    _, alive = psutil.wait_procs(children, timeout=6)
    assert alive == []


async def test_a_failing_start_is_an_error_not_a_hang(tmp_path: Path) -> None:
    """A store whose folder cannot be used is unavailable, and says so before the deadline."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = EdgeVectorIndex(EdgeSettings(blocked / "vectors"))

    with pytest.raises(VectorStoreError) as refused:
        await store.ensure(COLLECTION, DIMENSION, soon())

    assert refused.value.reason is StoreReason.UNAVAILABLE
    assert str(tmp_path) not in refused.value.detail
    await store.close()
