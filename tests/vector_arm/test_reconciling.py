"""Comparing rows and points beside the worker: what is counted, what is explained, and what is repaired."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from service.ingest.reconcile import Comparison, compare
from service.ingest.vector_runner import VectorRunner
from service.ingest.vector_status import vector_status
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ContentType, ItemId, Workspace
from service.ports.embedding import KnownCollection
from service.ports.vectors import CollectionName, PointKey, VectorPoint, VectorStoreUnavailable, point_id
from tests.builders import capture, store
from tests.rollout.parts import eventually
from tests.vector_arm.parts import LyingIndex, Vectors

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class ListedIndex(LyingIndex):
    """Something happens whenever its ids are asked for."""

    meanwhile: Callable[[], Awaitable[None]] | None = None
    listed: int = 0

    async def ids(
        self,
        collection: CollectionName,
        workspace: Workspace | None,
        after: uuid.UUID | None,
        limit: int,
        deadline: float,
    ) -> tuple[uuid.UUID, ...]:
        """The ids as they were before it happened."""
        found = await self.real.ids(collection, workspace, after, limit, deadline)
        self.listed += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        return found


@dataclass(frozen=True, slots=True)
class Following:
    """A runner at work, what it told of, and the index it writes to."""

    runner: VectorRunner
    worker: VectorWorker
    index: ListedIndex
    told: list[Comparison] = field(default_factory=list)

    async def until_compared(self, since: datetime) -> Comparison:
        """The next comparison that begins after a moment."""
        await eventually(lambda: self.runner.comparison is not None and self.runner.comparison.at > since)
        assert self.runner.comparison is not None
        return self.runner.comparison


@asynccontextmanager
async def following(
    vectors: Vectors, index: ListedIndex, reconcile_every: float = 3_600.0
) -> AsyncIterator[Following]:
    """A runner in the background."""
    worker = VectorWorker(vectors.ledger, index, vectors.encoder, "words")
    told: list[Comparison] = []
    runner = VectorRunner(worker, rest=0.01, reconcile_every=reconcile_every, tell=told.append)
    task = asyncio.create_task(runner.run())
    try:
        yield Following(runner, worker, index, told)
    finally:
        runner.stop()
        await task
        await worker.release()


async def the_collection(vectors: Vectors) -> KnownCollection:
    """The only one there is."""
    (collection,) = await vectors.ledger.collections()
    return collection


async def damage(vectors: Vectors) -> None:
    """Take a passage's point away, and put one there that no passage has."""
    collection = await the_collection(vectors)
    lost = point_id(DEFAULT_WORKSPACE, PointKey(ItemId("a"), 1))
    ghost = VectorPoint(DEFAULT_WORKSPACE, ContentType.TECH_DOC, PointKey(ItemId("ghost"), 0))
    row = (await vectors.encoder.encode_passages(["ghost"]))[0]
    await vectors.index.delete(collection.name, [lost], time.monotonic() + 5)
    await vectors.index.upsert(collection.name, [ghost], row, time.monotonic() + 5)


async def test_the_runner_finds_and_repairs_a_difference(vectors: Vectors) -> None:
    """C24: what differs without a reason is counted, told, repaired, and compared anew to prove it."""
    index = ListedIndex(vectors.index.real)
    await store(vectors.app, capture("a", "one", "two", item_id="a"))
    await (await vectors.sync()).release()
    await damage(vectors)
    before = datetime.now(UTC)
    async with following(vectors, index) as at_work:
        await eventually(lambda: len(at_work.told) == 1)
        assert (at_work.told[0].missing, at_work.told[0].orphan) == (1, 1)
        await eventually(lambda: (last := at_work.runner.comparison) is not None and not last.differs)
        status = await vector_status(at_work.worker, at_work.runner)
        assert (status.missing, status.orphan, status.points) == (0, 0, 2)
        assert status.compared_at is not None
        assert status.compared_at > before
    assert len(at_work.told) == 1


async def test_before_the_first_comparison_nothing_is_said(vectors: Vectors) -> None:
    """U19: counts that nobody made are absent, not zero."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    worker = await vectors.sync()
    status = await vector_status(worker, VectorRunner(worker))
    assert (status.missing, status.orphan, status.compared_at) == (None, None, None)


async def test_pending_changes_explain_their_differences(vectors: Vectors) -> None:
    """C24: what the log still speaks of differs for a reason: new, superseded and retired items count nowhere."""
    await store(vectors.app, capture("a", "one", "two", item_id="a"), capture("b", "three", item_id="b"))
    await store(vectors.app, capture("stays", "four", item_id="stays"))
    worker = await vectors.sync()
    await store(
        vectors.app, capture("a", "new", version="2", item_id="a2"), capture("c", "five", item_id="c")
    )
    await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("b"))
    collection = await the_collection(vectors)
    found = await compare(worker, collection)
    assert (found.missing, found.orphan) == (0, 0)
    await vectors.index.delete(
        collection.name,
        [point_id(DEFAULT_WORKSPACE, PointKey(ItemId("stays"), 0))],
        time.monotonic() + 5,
    )
    assert (await compare(worker, collection)).missing == 1


async def test_changes_during_a_comparison_are_no_difference(vectors: Vectors) -> None:
    """C24: items that come and go, and are embedded, between reading points and reading rows count nowhere."""
    index = ListedIndex(vectors.index.real)
    await store(vectors.app, capture("a", "one", "two", item_id="a"), capture("b", "three", item_id="b"))
    worker = await vectors.sync()

    async def meanwhile() -> None:
        index.meanwhile = None
        await store(vectors.app, capture("a", "new", version="2", item_id="a2"))
        await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("b"))
        await worker.step()
        await store(vectors.app, capture("late", "not embedded yet", item_id="late"))

    index.meanwhile = meanwhile
    found = await compare(
        VectorWorker(vectors.ledger, index, vectors.encoder, "words"), await the_collection(vectors)
    )
    assert (found.missing, found.orphan, index.listed) == (0, 0, 1)


async def test_parked_passages_are_not_missing(vectors: Vectors) -> None:
    """C27: a passage that was set aside is counted as parked, and no repair is begun for it."""
    vectors.encoder.poison = "arsenic"
    await store(vectors.app, capture("a", "one", "arsenic", item_id="a"))
    worker = await vectors.sync()
    found = await compare(worker, await the_collection(vectors))
    assert (found.missing, found.orphan) == (0, 0)
    assert (await vector_status(worker, None, found)).parked == 1


async def test_a_repair_leaves_parked_passages_alone(vectors: Vectors) -> None:
    """C27: passages that cannot be embedded do not keep the rest from being repaired."""
    vectors.encoder.poison = "arsenic"
    await store(vectors.app, capture("a", "one", "two", "arsenic", "more arsenic", item_id="a"))
    await (await vectors.sync()).release()
    await damage(vectors)
    async with following(vectors, ListedIndex(vectors.index.real)) as at_work:
        await eventually(lambda: len(at_work.told) == 1)
        await eventually(lambda: (last := at_work.runner.comparison) is not None and not last.differs)
        assert (await vector_status(at_work.worker, at_work.runner)).parked == 2


async def test_comparing_does_not_hold_up_the_worker(vectors: Vectors) -> None:
    """C24: while a comparison waits for the index the worker goes on following the log."""
    gate = asyncio.Event()

    async def stays() -> None:
        await gate.wait()

    index = ListedIndex(vectors.index.real, meanwhile=stays)
    await store(vectors.app, capture("a", "one", item_id="a"))
    async with following(vectors, index) as at_work:
        await eventually(lambda: index.listed == 1)
        await store(vectors.app, capture("b", "two", item_id="b"))
        await eventually(lambda: at_work.worker.counters.upserted == 2)
        assert at_work.runner.comparison is None
        gate.set()
        found = await at_work.until_compared(datetime.min.replace(tzinfo=UTC))
        assert (found.missing, found.orphan) == (0, 0)
    assert at_work.told == []


async def test_comparisons_are_made_again_and_again(vectors: Vectors) -> None:
    """C24: damage that happens later is found by a later comparison."""
    index = ListedIndex(vectors.index.real)
    await store(vectors.app, capture("a", "one", "two", item_id="a"))
    async with following(vectors, index, reconcile_every=0.05) as at_work:
        await at_work.until_compared(datetime.min.replace(tzinfo=UTC))
        assert at_work.told == []
        await damage(vectors)
        await eventually(lambda: len(at_work.told) == 1)
        since = datetime.now(UTC)
        await eventually(lambda: index.listed > 0)
        assert not (await at_work.until_compared(since)).differs
        assert await vectors.index.count(at_work.told[0].collection, None, time.monotonic() + 5) == 2


async def test_a_worker_that_stands_by_compares_nothing(vectors: Vectors) -> None:
    """C24: only the worker that holds the lease compares, and so only one repairs."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    working = vectors.worker("w1")
    assert await working.step() is StepOutcome.WORKED
    index = ListedIndex(vectors.index.real)
    async with following(vectors, index) as at_work:
        await eventually(lambda: at_work.runner.outcome is StepOutcome.OTHER_WORKER)
        await asyncio.sleep(0.1)
        assert index.listed == 0
        await working.release()
        await eventually(lambda: at_work.runner.comparison is not None)


async def test_a_comparison_that_fails_stops_nothing(vectors: Vectors) -> None:
    """C27: while the ids cannot be listed the worker follows the log, and no counts are invented."""

    async def fails() -> None:
        raise VectorStoreUnavailable("told to fail")

    index = ListedIndex(vectors.index.real, meanwhile=fails)
    await store(vectors.app, capture("a", "one", item_id="a"))
    async with following(vectors, index, reconcile_every=0.01) as at_work:
        await eventually(lambda: index.listed > 2)
        await store(vectors.app, capture("b", "two", item_id="b"))
        await eventually(lambda: at_work.worker.counters.upserted == 2)
        assert at_work.runner.comparison is None
        index.meanwhile = None
        await eventually(lambda: at_work.runner.comparison is not None)
        await eventually(lambda: at_work.runner.failure is None)


async def test_a_stopped_runner_leaves_no_comparison_behind(vectors: Vectors) -> None:
    """C24: stopping ends a comparison in hand."""

    async def for_ever() -> None:
        await asyncio.Event().wait()

    index = ListedIndex(vectors.index.real, meanwhile=for_ever)
    await store(vectors.app, capture("a", "one", item_id="a"))
    tasks = len(asyncio.all_tasks())
    async with following(vectors, index):
        await eventually(lambda: index.listed == 1)
    assert len(asyncio.all_tasks()) == tasks


async def test_a_fresh_database_is_empty_and_not_ill(vectors: Vectors) -> None:
    """C27: before there is any collection, and while it is only known by name, nothing has failed."""
    worker = vectors.worker()
    fresh = await vector_status(worker, VectorRunner(worker))
    assert (fresh.collection, fresh.points, fresh.failure) == (None, None, None)
    await store(vectors.app, capture("a", "one", item_id="a"))
    named = await worker.collection()
    assert named is not None
    begun = await vector_status(worker, VectorRunner(worker))
    assert (begun.collection, begun.points, begun.failure) == (named, 0, None)
    assert begun.pending == await vectors.ledger.head()
    await vectors.sync()
    done = await vector_status(worker, VectorRunner(worker))
    assert (done.points, done.pending, done.failure) == (1, 0, None)
