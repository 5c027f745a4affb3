"""A database that is put back to an earlier state under vectors that know the history that was lost."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable

import pytest

from service.ingest.vectors import StepOutcome
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.vectors import PointKey, point_id
from tests.builders import capture, store
from tests.lexical.parts import backup_of, put_back
from tests.vector_arm.parts import Vectors
from tests.vector_arm.test_reconciling import ListedIndex, following, the_collection

pytestmark = pytest.mark.anyio


def points(*item_ids: str) -> set[uuid.UUID]:
    """The points of items of one passage."""
    return {point_id(DEFAULT_WORKSPACE, PointKey(ItemId(name), 0)) for name in item_ids}


async def stored_points(vectors: Vectors) -> set[uuid.UUID]:
    """Every point that there is."""
    name = (await the_collection(vectors)).name
    return set(await vectors.index.real.ids(name, None, None, 1_000, time.monotonic() + 5))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("after", [(), ("n1",), ("n1", "n2", "n3"), ("n1", "n2", "n3", "n4", "n5")])
async def test_a_worker_that_runs_meanwhile(vectors: Vectors, after: tuple[str, ...]) -> None:
    """C24: a running worker notices, and at once rows and points are made equal by exact difference of ids."""
    await store(vectors.app, capture("a", "one", item_id="a"), capture("b", "two", item_id="b"))
    await (await vectors.sync()).release()
    index = ListedIndex(vectors.index.real)
    async with following(vectors, index) as at_work:

        async def holds(*item_ids: str) -> bool:
            return await stored_points(vectors) == points(*item_ids)

        await until(lambda: holds("a", "b"))
        await until(lambda: _compared(at_work.runner.comparison))
        backup = await backup_of(vectors.app)
        await store(vectors.app, capture("a", "one again", item_id="a2"), capture("c", "three", item_id="c"))
        await until(lambda: holds("a2", "b", "c"))
        await put_back(vectors.app, backup)
        await store(vectors.app, *(capture(name, f"new {name}", item_id=name) for name in after))
        await until(lambda: holds("a", "b", *after))
        await store(vectors.app, capture("d", "after it", item_id="d"))
        await until(lambda: holds("a", "b", *after, "d"))


async def test_progress_of_a_lost_history(vectors: Vectors) -> None:
    """C24: a batch that was read before a restore and recorded after it hides no change of the new history."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    worker = await vectors.sync()
    collection = await the_collection(vectors)
    progress = await vectors.ledger.progress(collection.name)
    assert progress is not None
    backup = await backup_of(vectors.app)
    await store(vectors.app, capture("b", "two", item_id="b"), capture("c", "three", item_id="c"))
    _, last = await vectors.ledger.item_changes(progress.seq, 10)
    await put_back(vectors.app, backup)
    await store(vectors.app, *(capture(f"n{n}", "new", item_id=f"n{n}") for n in range(3)))
    await vectors.ledger.save_progress(collection.name, progress.incarnation, last)
    while await worker.step() is StepOutcome.WORKED:
        pass
    assert await stored_points(vectors) == points("a", "n0", "n1", "n2")


async def _compared(comparison: object) -> bool:
    return comparison is not None
