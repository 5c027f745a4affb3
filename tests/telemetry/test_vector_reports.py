"""What one process tells of vectors, and what another one shows of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.sql.vector_reports import SqlVectorReports
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.ingest.vector_reporting import report_of, reporting, this_place
from service.ingest.vector_runner import VectorRunner
from service.ingest.vector_status import VectorStatus, vector_status
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.embedding import CollectionRole, EncoderFailed, EncoderState, KnownCollection
from service.ports.vector_reports import (
    LOST_S,
    NotedComparison,
    VectorFault,
    WorkerDuty,
    WorkerReport,
)
from service.ports.vectors import CollectionName, VectorStorageFull
from service.settings import Settings
from tests.builders import capture, store
from tests.rollout.conftest import upgraded
from tests.rollout.parts import Float32Array, WordEncoder, eventually

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MAIN = CollectionName("passages-main-1")
WELL = WorkerReport("one", "host:1", "words", WorkerDuty.WORKING, None, None)
ILL = replace(WELL, fault=VectorFault.ENCODER, failure="out of memory")


@pytest.fixture
async def engines(settings: Settings) -> AsyncIterator[Engines]:
    """Each kind of database, upgraded."""
    async with upgraded(settings) as opened:
        yield opened


async def known(engines: Engines, name: CollectionName) -> None:
    """A collection that SQL knows."""
    collection = KnownCollection(name, "words-1", "words", 64, CollectionRole.ACTIVE, NOON)
    await SqlVectorLedger(engines, "float32").register(collection)


async def age(engines: Engines, by: timedelta) -> None:
    """Every worker's last word was that much earlier."""
    table = schema.vector_workers
    async with begin(engines.write) as connection:
        await connection.execute(update(table).values(seen_at=datetime.now(UTC) - by))


async def test_the_newest_comparison_is_kept(engines: Engines) -> None:
    """U19: whoever compared last counts, wherever it was; an older one that comes late changes nothing."""
    await known(engines, MAIN)
    reports = SqlVectorReports(engines)
    assert await reports.comparison(MAIN) is None
    first = NotedComparison(MAIN, NOON, 3, 1, "host:1")
    await reports.note_comparison(first)
    assert await SqlVectorReports(engines).comparison(MAIN) == first
    later = NotedComparison(MAIN, NOON + timedelta(hours=1), 0, 0, "host:2")
    await reports.note_comparison(later)
    await reports.note_comparison(first)
    assert await reports.comparison(MAIN) == later


async def test_comparisons_of_dropped_collections_go(engines: Engines) -> None:
    """E16: of a collection that was dropped nothing is kept, so that the table stays as small as the other."""
    await known(engines, MAIN)
    reports, gone = SqlVectorReports(engines), CollectionName("passages-gone-1")
    await reports.note_comparison(NotedComparison(gone, NOON, 3, 1, "host:1"))
    assert await reports.comparison(gone) is None


async def test_a_workers_last_failure_stays(engines: Engines) -> None:
    """U19: a worker that is well again still says what failed and when; before its first failure, nothing."""
    reports = SqlVectorReports(engines)
    await reports.report(WELL)
    (seen,) = await reports.workers()
    assert (seen.is_failing, seen.fault, seen.failed_at, seen.place) == (False, None, None, "host:1")
    before = datetime.now(UTC) - timedelta(minutes=1)
    await reports.report(ILL)
    await reports.report(WELL)
    (seen,) = await reports.workers()
    assert (seen.is_failing, seen.fault, seen.failure) == (False, VectorFault.ENCODER, "out of memory")
    assert seen.failed_at is not None
    assert seen.failed_at > before


async def test_silence_is_told_by_the_databases_clock(engines: Engines) -> None:
    """U19: a worker of which nothing is heard is lost after a while, and forgotten after a day."""
    reports = SqlVectorReports(engines)
    await reports.report(WELL)
    (seen,) = await reports.workers()
    assert not seen.is_lost
    await age(engines, timedelta(seconds=LOST_S + 60))
    (seen,) = await reports.workers()
    assert seen.is_lost
    await age(engines, timedelta(days=2))
    await reports.report(replace(WELL, owner="two", place="host:2"))
    assert [one.place for one in await reports.workers()] == ["host:2"]


async def test_a_worker_that_ends_in_order_leaves_nothing(engines: Engines) -> None:
    """U19: stopping a worker is no alarm."""
    reports = SqlVectorReports(engines)
    await reports.report(WELL)
    await reports.report(replace(WELL, owner="two"))
    await reports.withdraw("one")
    assert len(await reports.workers()) == 1


class FailingEncoder(WordEncoder):
    """Encodes until it is told not to."""

    def __init__(self) -> None:
        self.fails = False

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """As the plain one, or not at all."""
        if self.fails:
            raise EncoderFailed("out of memory")
        return await WordEncoder.encode_passages(self, texts)


class FullIndex(MemoryVectorIndex):
    """Has no room."""

    async def upsert(self, *_: object) -> None:
        """Refuses."""
        raise VectorStorageFull("no space left")


@dataclass(slots=True)
class Standalone:
    """A worker with connections of its own, as another process has them."""

    encoder: FailingEncoder
    index: MemoryVectorIndex
    runner: VectorRunner
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


@asynccontextmanager
async def standalone(settings: Settings, index: MemoryVectorIndex) -> AsyncIterator[Standalone]:
    """`citewell vectors worker` beside a service, with an encoder that fits on a page."""
    async with upgraded(settings) as engines:
        encoder = FailingEncoder()
        worker = VectorWorker(SqlVectorLedger(engines, "float32"), index, encoder, "words")
        runner = VectorRunner(worker, rest=0.01)
        task = asyncio.create_task(runner.run())
        async with reporting(runner, SqlVectorReports(engines)):
            yield Standalone(encoder, index, runner)
            runner.stop()
            await task
        await worker.release()


async def seen_by(app: Application, index: MemoryVectorIndex) -> VectorStatus:
    """The status in a process that follows no log itself."""
    engines = app.store.engines
    reader = VectorWorker(SqlVectorLedger(engines, "float32"), index, WordEncoder(), "words")
    return await vector_status(reader, None, reports=SqlVectorReports(engines))


async def until_seen(
    app: Application, index: MemoryVectorIndex, holds: Callable[[VectorStatus], bool]
) -> VectorStatus:
    """Ask for the status until something holds."""
    for _ in range(600):
        status = await seen_by(app, index)
        if holds(status):
            return status
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never came to hold: {status}")


async def test_others_see_what_a_standalone_worker_compared(app: Application, settings: Settings) -> None:
    """U19: a process without a worker knows missing and orphan points, when they were counted and by whom."""
    index = MemoryVectorIndex()
    before = datetime.now(UTC)
    await store(app, capture("a", "one", item_id="a"))
    async with standalone(settings, index):
        status = await until_seen(app, index, lambda found: found.compared_at is not None)
        assert (status.missing, status.orphan, status.compared_by) == (0, 0, this_place())
        assert status.compared_at is not None
        assert status.compared_at > before
        status = await until_seen(
            app, index, lambda found: [one.duty for one in found.workers] == [WorkerDuty.WORKING]
        )
        assert (status.fault, status.failure) == (None, None)
    status = await seen_by(app, index)
    assert status.workers == []
    assert status.missing == 0, "what was compared is known without a worker"
    await index.close()


async def test_others_see_that_a_standalone_worker_fails(app: Application, settings: Settings) -> None:
    """U19: a failing encoder of another process is shown by its own name while it lasts, and remembered."""
    index = MemoryVectorIndex()
    await store(app, capture("a", "one", item_id="a"))
    async with standalone(settings, index) as other:
        await eventually(lambda: other.runner.outcome is StepOutcome.IDLE)
        other.encoder.fails = True
        await store(app, capture("b", "two", "three", item_id="b"))
        status = await until_seen(app, index, lambda found: found.fault is not None)
        assert status.fault is VectorFault.ENCODER
        assert status.failure is not None
        other.encoder.fails = False
        status = await until_seen(app, index, lambda found: found.fault is None)
        assert [one.fault for one in status.workers] == [VectorFault.ENCODER]
    await index.close()


async def test_a_full_store_is_named(app: Application, settings: Settings) -> None:
    """U19: a store without space is neither silent nor the encoder's fault."""
    index = FullIndex()
    await store(app, capture("a", "one", item_id="a"))
    async with standalone(settings, index):
        status = await until_seen(app, index, lambda found: found.fault is not None)
        assert status.fault is VectorFault.STORE_FULL
    await index.close()


async def test_a_lost_worker_is_told(app: Application) -> None:
    """U19: that every worker fell silent without a goodbye is what is wrong; one that stands by is enough."""
    engines, index = app.store.engines, MemoryVectorIndex()
    reports = SqlVectorReports(engines)
    await reports.report(WELL)
    await age(engines, timedelta(seconds=LOST_S + 60))
    status = await seen_by(app, index)
    assert status.fault is VectorFault.WORKER_LOST
    await reports.report(replace(WELL, owner="two", duty=WorkerDuty.STANDBY))
    assert (await seen_by(app, index)).fault is None
    await index.close()


async def test_one_that_stands_by_harms_nobody(app: Application) -> None:
    """U19: what fails one that stands by, or one of another model, is no fault of the vectors that serve."""
    engines, index = app.store.engines, MemoryVectorIndex()
    await known(engines, MAIN)
    reports = SqlVectorReports(engines)
    await reports.report(WELL)
    await reports.report(replace(ILL, owner="two", duty=WorkerDuty.STANDBY))
    await reports.report(replace(ILL, owner="three", model="another"))
    status = await seen_by(app, index)
    assert (status.fault, len(status.workers)) == (None, 3)
    await reports.report(ILL)
    assert (await seen_by(app, index)).fault is VectorFault.ENCODER
    await index.close()


async def test_a_model_that_cannot_be_had_is_reported(app: Application) -> None:
    """U19: a worker without its model raises nothing, and yet says what is wrong."""
    encoder = FailingEncoder()
    encoder.state, encoder.failure = EncoderState.FAILED, "no such folder"  # type: ignore[assignment] # the class has none
    worker = VectorWorker(
        SqlVectorLedger(app.store.engines, "float32"), MemoryVectorIndex(), encoder, "words"
    )
    report = report_of(VectorRunner(worker, outcome=StepOutcome.NO_MODEL))
    assert (report.duty, report.fault, report.failure) == (
        WorkerDuty.NO_MODEL,
        VectorFault.ENCODER,
        "no such folder",
    )
