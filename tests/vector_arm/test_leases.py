"""The right to write a collection alone: how it is kept, lost, taken over, and what is never done twice."""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import update

from service.adapters.sql import leases, schema
from service.adapters.sql.engine import begin
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.sql.processes import is_dead, this_process
from service.bootstrap import Application, application
from service.errors import Unavailable
from service.ingest.migration import migrate
from service.ingest.reconcile import reconcile
from service.ingest.vectors import StepOutcome, VectorWorker, WorkerSettings, lease_name, new_collection
from service.ports.embedding import CollectionRole
from service.ports.vectors import CollectionName, CollectionState
from service.settings import Settings
from tests.builders import capture, store
from tests.vector_arm.parts import LyingIndex, Vectors, WordEncoder
from tests.vector_arm.two_workers import FORKSERVER, Bench, work_until_idle

pytestmark = pytest.mark.anyio
PATIENCE_S = 120.0
MINUTE = 60.0


class CountingLedger(SqlVectorLedger):
    """Counts what is asked of the leases."""

    asked = 0

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """As the real one."""
        self.asked += 1
        return await super().lease(name, owner, seconds)


@dataclass(slots=True)
class CountingIndex(LyingIndex):
    """Counts how often it must count its points."""

    counted: int = 0

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """As the real one."""
        self.counted += 1
        return await self.real.ensure(collection, dimension, deadline)


class RobbedEncoder(WordEncoder):
    """While it encodes the second batch, another worker takes the lease."""

    def __init__(self, app: Application) -> None:
        super().__init__()
        self._app = app
        self.batches: list[Sequence[str]] = []

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """One window a text."""
        self.batches.append(texts)
        if len(self.batches) == 2:
            await rob(self._app)
            await asyncio.sleep(PATIENCE_S)  # given up long before
        return await super().encode_passages(texts)


async def rob(app: Application) -> None:
    """Give every lease to another owner, for an hour."""
    hour = datetime.now(UTC) + timedelta(hours=1)
    async with begin(app.store.engines.write) as connection:
        await connection.execute(update(schema.leases).values(owner="robber", until=hour, process=None))


async def test_an_idle_worker_writes_and_counts_next_to_nothing(vectors: Vectors) -> None:
    """C24: idling costs reads of SQL; the lease is renewed at half of its life, points are counted rarely."""
    ledger = CountingLedger(vectors.app.store.engines, "float32")
    index = CountingIndex(vectors.index.real)
    bounds = WorkerSettings(look_every=MINUTE)
    worker = VectorWorker(ledger, index, vectors.encoder, "words", bounds)
    await store(vectors.app, capture("a", "one", item_id="a"))
    outcomes = [await worker.step() for _ in range(30)]
    assert outcomes == [StepOutcome.WORKED] + 29 * [StepOutcome.IDLE]
    assert (ledger.asked, index.counted) == (1, 1)


async def test_a_lost_collection_is_noticed(vectors: Vectors) -> None:
    """C24: an idle worker finds out, after `look_every` seconds at most, that its collection is gone."""
    bounds = WorkerSettings(look_every=0.0)
    worker = VectorWorker(vectors.ledger, vectors.index, vectors.encoder, "words", bounds)
    await store(vectors.app, capture("a", "one", item_id="a"))
    assert [await worker.step() for _ in range(2)] == [StepOutcome.WORKED, StepOutcome.IDLE]
    (collection,) = await vectors.ledger.collections()
    await vectors.index.drop(collection.name, time.monotonic() + 5)
    assert await worker.step() is StepOutcome.WORKED
    assert await vectors.index.count(collection.name, None, time.monotonic() + 5) == 1


async def test_a_worker_that_loses_its_lease_stops_at_once(vectors: Vectors) -> None:
    """C24: the loss is noticed in the middle of a batch that takes for ever; no point, no progress is written."""
    vectors.encoder = encoder = RobbedEncoder(vectors.app)
    bounds = WorkerSettings(batch=1, lease_seconds=1.0)
    worker = VectorWorker(vectors.ledger, vectors.index, encoder, "words", bounds)
    await store(vectors.app, capture("a", "one", "two", "three", item_id="a"))
    async with asyncio.timeout(PATIENCE_S / 2):
        assert await worker.step() is StepOutcome.OTHER_WORKER
    assert len(encoder.batches) == 2
    (collection,) = await vectors.ledger.collections()
    assert await vectors.index.count(collection.name, None, time.monotonic() + 5) == 0
    assert await vectors.ledger.progress(collection.name) is None
    assert await worker.step() is StepOutcome.OTHER_WORKER


async def test_a_repair_needs_the_lease(vectors: Vectors) -> None:
    """C24: points are repaired by the worker that has the collection, or by nobody beside it."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    await vectors.sync()
    (collection,) = await vectors.ledger.collections()
    other = vectors.worker("w2")
    with pytest.raises(Unavailable, match="another worker has"):
        await reconcile(other, collection, repair=True)
    assert not (await reconcile(other, collection, repair=False)).repaired


async def test_one_process_builds_the_next_collection(vectors: Vectors) -> None:
    """E16: while one process builds, another one that was told the same encodes nothing and says why."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    await vectors.sync()
    encoder = WordEncoder("words-2")
    building = new_collection(encoder, "second", generation=1, role=CollectionRole.BUILDING)
    await vectors.ledger.register(building)
    assert await vectors.ledger.lease(lease_name(building), "other", MINUTE)
    second = VectorWorker(vectors.ledger, vectors.index, encoder, "second")
    with pytest.raises(Unavailable, match="another process"):
        await migrate(second)
    assert encoder.encoded == 0
    await vectors.ledger.release(lease_name(building), "other")
    assert (await migrate(second)).switched


async def test_only_the_databases_clock_counts(vectors: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    """C24: on PostgreSQL a machine whose clock is an hour fast cannot take what is not its own."""
    if vectors.app.store.engines.write.dialect.name != "postgresql":
        pytest.skip("on SQLite all processes have one clock")

    class Fast(datetime):
        """An hour ahead."""

        @classmethod
        def now(cls, tz: object = None) -> "Fast":
            """The time, and an hour."""
            return cls.fromtimestamp(time.time() + 3_600.0, UTC)

    assert await vectors.ledger.lease("work", "first", MINUTE)
    monkeypatch.setattr(leases, "datetime", Fast)
    assert not await vectors.ledger.lease("work", "second", MINUTE)
    assert await vectors.ledger.lease("work", "first", 0.05)
    await asyncio.sleep(0.2)
    assert await vectors.ledger.lease("work", "second", MINUTE)


async def test_a_dead_holder_of_this_system_is_no_holder(vectors: Vectors) -> None:
    """C24: a lease whose process is known to have ended is taken over at once; any other one runs out first."""
    command = [sys.executable, "-c", "from service.adapters.sql.processes import *; print(this_process())"]
    dead = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: ASYNC221
    assert is_dead(dead)
    elsewhere = dead.replace("pid:[", "pid:[9", 1)
    for process, is_taken in ((dead, True), (elsewhere, False), (None, False), (this_process(), False)):
        name = f"work of {process}"
        assert await vectors.ledger.lease(name, "first", MINUTE)
        table = schema.leases
        async with begin(vectors.app.store.engines.write) as connection:
            await connection.execute(update(table).where(table.c.name == name).values(process=process))
        assert await vectors.ledger.lease(name, "second", MINUTE) is is_taken


@pytest.mark.parametrize("said", [None, "", "nonsense", "a b", "\u0301"])
def test_of_an_unknown_process_nothing_is_known(said: str | None) -> None:
    """C24: what names no process of this system is not called dead."""
    assert not is_dead(said)


def test_a_number_that_was_given_again_is_another_process() -> None:
    """C24: a process is told from a later one of the same number by when it began."""
    mine = this_process()
    assert mine is not None
    place, _, started = mine.rpartition(" ")
    assert not is_dead(mine)
    assert is_dead(f"{place} {int(started) - 1}")
    assert place.endswith(f" {os.getpid()}")


async def stored(settings: Settings, texts: Collection[str]) -> None:
    """One item with a passage a text."""
    async with application(settings) as app:
        await store(app, capture("a", *texts, item_id="a"))


def bench_on(settings: Settings, tmp_path: Path, texts: Collection[str]) -> Bench:
    """A bench with texts to encode, a third of them a batch, each batch longer than the lease."""
    asyncio.run(stored(settings, texts))
    return Bench(settings, tmp_path / "encoded", len(texts) // 3, batch_seconds=5.0, lease_seconds=4.0)


def test_two_processes_encode_nothing_twice(settings: Settings, tmp_path: Path) -> None:
    """C24: of two worker processes one works and the other stands by, although a batch outlasts the lease."""
    texts = [f"text {number}" for number in range(24)]
    bench = bench_on(settings, tmp_path, texts)
    working = [FORKSERVER.Process(target=work_until_idle, args=(bench,)) for _ in range(2)]
    for process in working:
        process.start()
    for process in working:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in working] == [0, 0]
    assert Counter(bench.encoded()) == Counter(texts)


def test_a_killed_process_is_relieved_at_once(settings: Settings, tmp_path: Path) -> None:
    """C24: after a kill -9 the next process neither waits for the lease nor encodes what was cached."""
    texts = [f"text {number}" for number in range(24)]
    bench = replace(bench_on(settings, tmp_path, texts), lease_seconds=3_600.0, batch_seconds=1.0)
    killed = FORKSERVER.Process(target=work_until_idle, args=(bench,))
    killed.start()
    until = time.monotonic() + PATIENCE_S
    while len(bench.encoded()) < 2 * bench.batch and time.monotonic() < until:
        time.sleep(0.01)
    killed.kill()
    killed.join()
    begun = bench.encoded()
    assert len(begun) == 2 * bench.batch  # the first batch is cached, the second was in hand
    relief = FORKSERVER.Process(target=work_until_idle, args=(bench,))
    relief.start()
    relief.join(PATIENCE_S)
    assert relief.exitcode == 0
    assert Counter(bench.encoded()) == Counter(texts) + Counter(begun[bench.batch :])
