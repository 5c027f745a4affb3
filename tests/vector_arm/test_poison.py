"""Passages that cannot be embedded, and encoders that cannot encode, as the worker lives with them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import update

from service.adapters.sql import schema
from service.adapters.sql.engine import begin
from service.core.parking import FIRST_WAIT
from service.ingest.reconcile import compare, reconcile
from service.ingest.vector_runner import VectorRunner
from service.ingest.vector_status import vector_status
from service.ingest.vectors import RETRIED_AT_ONCE, VectorWorker, WorkerSettings
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import EncoderFailed, KnownCollection, Parked
from service.ports.vector_reports import VectorFault
from tests.builders import capture, ids, store
from tests.rollout.parts import DIMENSION, eventually
from tests.vector_arm.parts import Vectors, WordEncoder

pytestmark = pytest.mark.anyio
POISON = "arsenic"
INVISIBLE = "invisible"


class OddEncoder(WordEncoder):
    """Sees nothing in some texts, and raises what nobody expects when it is told to."""

    raises: Exception | None = None

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """No window for a text that says so."""
        if self.raises is not None:
            raise self.raises
        rows = await super().encode_passages(texts)
        nothing = np.empty((0, DIMENSION), np.float32)
        return [nothing if INVISIBLE in text else row for text, row in zip(texts, rows, strict=True)]


@asynccontextmanager
async def following(vectors: Vectors) -> AsyncIterator[VectorRunner]:
    """A runner at work, one log entry a step."""
    worker = VectorWorker(
        vectors.ledger, vectors.index, vectors.encoder, "words", WorkerSettings(changes=1), owner="w1"
    )
    runner = VectorRunner(worker, rest=0.01)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        runner.stop()
        await task


async def the_collection(vectors: Vectors) -> KnownCollection:
    """The only one there is."""
    (collection,) = await vectors.ledger.collections()
    return collection


async def parked(vectors: Vectors) -> dict[str, Parked]:
    """What is set aside, by item and number."""
    found = await vectors.ledger.parked((await the_collection(vectors)).name, 1_000)
    return {f"{one.item_id}/{one.seq}": one for one in found}


async def all_is_due(vectors: Vectors) -> None:
    """As if every wait were over."""
    async with begin(vectors.app.store.engines.write) as connection:
        long_ago = datetime.now(UTC) - timedelta(days=1)
        await connection.execute(update(schema.vector_parked).values(retry_at=long_ago))


async def points(vectors: Vectors) -> int:
    """How many there are."""
    return await vectors.index.count((await the_collection(vectors)).name, None, time.monotonic() + 5)


async def test_poison_does_not_stop_what_comes_after_it(vectors: Vectors) -> None:
    """C27: an item of nothing but poisonous passages is set aside, and later items are embedded."""
    vectors.encoder.poison = POISON
    await store(vectors.app, capture("bad", f"{POISON} one", f"{POISON} two", item_id="bad"))
    await store(vectors.app, capture("good", "fine", item_id="good"))
    worker = VectorWorker(vectors.ledger, vectors.index, vectors.encoder, "words", WorkerSettings(changes=1))
    while (await worker.step()).value == "worked":
        pass
    assert set(await parked(vectors)) == {"bad/0", "bad/1"}
    assert ids(await vectors.ask("fine"))[0] == "good"
    assert await points(vectors) == 1


async def test_an_outage_parks_no_single_passage(vectors: Vectors) -> None:
    """C27: captures of one passage each, made while the encoder is out, wait for it and are not blamed."""
    await store(vectors.app, capture("first", "first", item_id="first"))
    await vectors.sync()
    vectors.encoder.fails = True
    worker = vectors.worker()
    for number in range(3):
        await store(vectors.app, capture(f"s{number}", f"text {number}", item_id=f"i{number}"))
        with pytest.raises(EncoderFailed):
            await worker.step()
    assert await parked(vectors) == {}
    vectors.encoder.fails = False
    await vectors.sync()
    assert await points(vectors) == 4


async def test_every_parked_passage_gets_its_turn(vectors: Vectors) -> None:
    """C27: more poison than is retried at once keeps no passage behind it from being tried again."""
    vectors.encoder.poison = POISON
    texts = [f"{POISON} {number}" for number in range(RETRIED_AT_ONCE)]
    await store(vectors.app, capture("bad", *texts, item_id="bad"))
    await store(vectors.app, capture("late", f"healthy in the end, {POISON} now", item_id="late"))
    worker = await vectors.sync()
    assert len(await parked(vectors)) == RETRIED_AT_ONCE + 1
    await all_is_due(vectors)
    collection = await the_collection(vectors)
    vectors.encoder.poison = f"A document\n{POISON}"  # no longer the late one
    assert await worker.retry_due(collection) == 0
    assert await worker.retry_due(collection) == 1
    assert "late/0" not in await parked(vectors)
    assert await worker.retry_due(collection) == 0
    assert await points(vectors) == 1


async def test_waits_grow_with_the_attempts(vectors: Vectors) -> None:
    """C27: a parked passage is tried again when its wait is over and not before, and then waits longer."""
    vectors.encoder.poison = POISON
    await store(vectors.app, capture("bad", POISON, item_id="bad"))
    worker = await vectors.sync()
    collection = await the_collection(vectors)
    first = (await parked(vectors))["bad/0"]
    assert first.attempts == 1
    assert await vectors.ledger.due(collection.name, first.retry_at - timedelta(seconds=1), 10) == []
    assert await worker.retry_due(collection) == 0
    assert (await parked(vectors))["bad/0"] == first  # it was not even tried
    await all_is_due(vectors)
    before = datetime.now(UTC)
    assert await worker.retry_due(collection) == 0
    second = (await parked(vectors))["bad/0"]
    assert second.attempts == 2
    assert second.retry_at >= before + 2 * FIRST_WAIT


async def test_the_runner_retries_what_is_due(vectors: Vectors) -> None:
    """C27: a passage that can be embedded by now leaves the list without anybody's help."""
    vectors.encoder.poison = POISON
    await store(vectors.app, capture("bad", POISON, item_id="bad"))
    await (await vectors.sync()).release()
    vectors.encoder.poison = None
    await all_is_due(vectors)
    async with following(vectors) as runner:
        await eventually(lambda: runner.worker.counters.upserted == 1)
    assert await parked(vectors) == {}


async def test_passages_of_one_poisonous_text_are_all_set_aside(vectors: Vectors) -> None:
    """C27: where several passages say the same, none of them counts as missing for ever."""
    vectors.encoder.poison = POISON
    await store(vectors.app, capture("a", POISON, item_id="a"), capture("b", POISON, item_id="b"))
    worker = await vectors.sync()
    assert set(await parked(vectors)) == {"a/0", "b/0"}
    assert (await compare(worker, await the_collection(vectors))).missing == 0


async def test_a_stale_passage_is_set_aside_no_longer(vectors: Vectors) -> None:
    """C27: what was retired needs no vector, and is not counted as parked."""
    vectors.encoder.poison = POISON
    await store(vectors.app, capture("bad", POISON, item_id="bad"))
    await vectors.sync()
    await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("bad"))
    await vectors.sync()
    assert await parked(vectors) == {}


async def test_a_text_without_tokens_is_complete(vectors: Vectors) -> None:
    """C27: a passage in which the model sees nothing has no point, lacks none, and stops nobody."""
    vectors.encoder = OddEncoder()
    await store(vectors.app, capture("odd", INVISIBLE, item_id="odd"))
    worker = await vectors.sync()
    await store(vectors.app, capture("good", "fine", item_id="good"))
    async with following(vectors) as runner:
        await eventually(lambda: runner.worker.counters.upserted == 1)
        await eventually(lambda: runner.comparison is not None)
        assert runner.comparison is not None
        assert not runner.comparison.differs
        assert runner.failure is None
    collection = await the_collection(vectors)
    assert (await reconcile(worker, collection, repair=False)).missing == 0
    await vectors.index.drop(collection.name, time.monotonic() + 5)
    await vectors.sync()  # now from the cache
    assert await points(vectors) == 1
    assert await parked(vectors) == {}


async def test_a_damaged_cache_row_is_encoded_again(vectors: Vectors) -> None:
    """C24: cached vectors that are cut off, not finite or of length zero are never stored as points."""
    await store(vectors.app, capture("a", "one", "two", "three", item_id="a"))
    await vectors.sync()
    collection = await the_collection(vectors)
    hashes = await vectors.ledger.cached_hashes(collection.fingerprint, "", 10)
    damage = (b"cut", np.full(DIMENSION, np.nan, np.float32).tobytes(), bytes(4 * DIMENSION))
    async with begin(vectors.app.store.engines.write) as connection:
        for text_hash, kept in zip(hashes, damage, strict=True):
            table = schema.embedding_cache
            await connection.execute(update(table).where(table.c.text_hash == text_hash).values(vectors=kept))
    await vectors.index.drop(collection.name, time.monotonic() + 5)
    encoded = vectors.encoder.encoded
    await vectors.sync()
    assert vectors.encoder.encoded == encoded + 3
    assert len(await vectors.ledger.cached(collection.fingerprint, hashes)) == 3
    assert await points(vectors) == 3


async def test_the_runner_outlives_whatever_is_raised(
    vectors: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    """C27: an error that nobody foresaw is logged once with its stack, shown, and over when it is over."""
    vectors.encoder = encoder = OddEncoder()
    encoder.raises = ZeroDivisionError("a text of the corpus")
    await store(vectors.app, capture("a", "one", item_id="a"))
    with caplog.at_level(logging.INFO, "service.ingest.vector_runner"):
        async with following(vectors) as runner:
            await eventually(lambda: runner.failure is not None)
            status = await vector_status(runner.worker, runner)
            assert (status.failure, status.fault) == ("unexpected ZeroDivisionError", VectorFault.DEFECT)
            await asyncio.sleep(1.2)  # two tries or more
            encoder.raises = None
            await eventually(lambda: runner.failure is None)
            await eventually(lambda: runner.worker.counters.upserted == 1)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]
    assert caplog.records[0].exc_info is not None


async def test_a_failing_part_is_logged_when_it_changes(
    vectors: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    """C27: what the worker waits for stands in the log once, and so does that it goes on."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    vectors.encoder.fails = True
    with caplog.at_level(logging.INFO, "service.ingest.vector_runner"):
        async with following(vectors) as runner:
            await eventually(lambda: runner.failure == "told to fail")
            assert runner.fault is VectorFault.ENCODER
            await asyncio.sleep(1.2)
            vectors.encoder.fails = False
            await eventually(lambda: runner.failure is None)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["vector worker waits: told to fail", "vector worker goes on"]


async def test_stopping_an_ill_runner_raises_nothing(vectors: Vectors) -> None:
    """C27: a process ends in order whatever its worker was waiting for."""
    vectors.encoder = encoder = OddEncoder()
    encoder.raises = LookupError("odd")
    await store(vectors.app, capture("a", "one", item_id="a"))
    async with following(vectors) as runner:
        await eventually(lambda: runner.failure is not None)
    assert runner.failure == "unexpected LookupError"
