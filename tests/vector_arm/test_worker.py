"""The worker: behind, killed, poisoned, doubled."""

import time
from contextlib import suppress

import pytest

from service.ingest.migration import MigrationRefused, migrate
from service.ingest.reconcile import reconcile
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import CollectionRole, EncoderFailed
from service.ports.vectors import PointKey, VectorPoint, point_id
from service.search.degradation import Reason
from service.search.request import ArmState
from tests.builders import capture, ids, store
from tests.vector_arm.parts import KilledHere, Vectors, WordEncoder

pytestmark = pytest.mark.anyio


async def points(vectors: Vectors) -> set[str]:
    """The ids in the active collection."""
    (collection,) = [c for c in await vectors.ledger.collections() if c.role is CollectionRole.ACTIVE]
    found = await vectors.index.ids(collection.name, None, None, 10_000, time.monotonic() + 5)
    return {str(one) for one in found}


def expected(*names: tuple[str, int]) -> set[str]:
    """The ids of one-window passages."""
    return {str(point_id(DEFAULT_WORKSPACE, PointKey(ItemId(item), seq))) for item, seq in names}


async def test_the_index_follows_the_rows(vectors: Vectors) -> None:
    """C24: live scorable passages have points; a superseded item's are removed."""
    await store(vectors.app, capture("a", "one", "two", item_id="a1"), capture("b", "three", item_id="b1"))
    await vectors.sync()
    assert await points(vectors) == expected(("a1", 0), ("a1", 1), ("b1", 0))
    await store(vectors.app, capture("a", "new", version="2", item_id="a2"))
    await vectors.sync()
    assert await points(vectors) == expected(("a2", 0), ("b1", 0))


async def test_unchanged_text_is_never_encoded_again(vectors: Vectors) -> None:
    """C24: texts are encoded once a model, whatever becomes of their items and of the collection."""
    await store(vectors.app, capture("a", "one", "two", item_id="a1"))
    await vectors.sync()
    encoded = vectors.encoder.encoded
    await store(vectors.app, capture("a", "one", "two", "three", version="2", item_id="a2"))
    await vectors.sync()
    assert vectors.encoder.encoded == encoded + 1
    (collection,) = await vectors.ledger.collections()
    await vectors.index.drop(collection.name, time.monotonic() + 5)
    await vectors.sync()
    assert vectors.encoder.encoded == encoded + 1
    assert await points(vectors) == expected(("a2", 0), ("a2", 1), ("a2", 2))


@pytest.mark.parametrize("seed", range(20))
async def test_a_killed_worker_loses_and_doubles_nothing(vectors: Vectors, seed: int) -> None:
    """C24: killed between commit and upsert, or between upsert and progress, the next worker converges."""
    for number in range(seed % 5 + 1):
        await store(vectors.app, capture(f"s{number}", f"text {seed}", item_id=f"i{number}"))
    if seed % 4 == 3:
        await vectors.sync()
        await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("i0"))
        await store(vectors.app, capture("late", "late text", item_id="late"))
    vectors.index.crash_before_upsert = seed % 2 == 0
    vectors.index.crash_after_upsert = seed % 2 == 1
    with suppress(KilledHere):
        await vectors.worker("killed").step()
    vectors.index.crash_before_upsert = vectors.index.crash_after_upsert = False
    for collection in await vectors.ledger.collections():
        await vectors.ledger.release(f"vectors:{collection.name}", "killed")  # as its lease would run out
    await vectors.sync()
    live = [f"i{n}" for n in range(seed % 5 + 1) if not (seed % 4 == 3 and n == 0)]
    names = [(item, 0) for item in live] + ([("late", 0)] if seed % 4 == 3 else [])
    assert await points(vectors) == expected(*names)


async def test_two_workers_never_do_the_same_work(vectors: Vectors) -> None:
    """C24: while one worker holds the lease another stands by, and takes over when it is given back."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    first, second = vectors.worker("w1"), vectors.worker("w2")
    assert await first.step() is StepOutcome.WORKED
    await store(vectors.app, capture("b", "two", item_id="b"))
    assert await second.step() is StepOutcome.OTHER_WORKER
    await first.release()
    assert await second.step() is StepOutcome.WORKED


async def test_a_poisonous_passage_is_set_aside(vectors: Vectors) -> None:
    """C27: one passage that cannot be encoded is parked, the rest is embedded, and it can be tried again."""
    vectors.encoder.poison = "arsenic"
    await store(vectors.app, capture("a", "one", "arsenic", "two", item_id="a"))
    worker = await vectors.sync()
    (collection,) = await vectors.ledger.collections()
    assert [p.seq for p in await vectors.ledger.parked(collection.name, 10)] == [1]
    assert await points(vectors) == expected(("a", 0), ("a", 2))
    vectors.encoder.poison = None
    assert await worker.retry_parked(collection) == 1
    assert await points(vectors) == expected(("a", 0), ("a", 1), ("a", 2))


async def test_an_ill_encoder_parks_nobody(vectors: Vectors) -> None:
    """C27: when no text can be encoded the worker waits; nothing is parked and nothing is skipped."""
    await store(vectors.app, capture("a", "one", "two", item_id="a"))
    vectors.encoder.fails = True
    with pytest.raises(EncoderFailed):
        await vectors.worker().step()
    (collection,) = await vectors.ledger.collections()
    assert await vectors.ledger.parked(collection.name, 10) == []
    vectors.encoder.fails = False
    await vectors.sync()
    assert await points(vectors) == expected(("a", 0), ("a", 1))


async def test_reconcile_finds_and_repairs_by_exact_difference(vectors: Vectors) -> None:
    """C24: lost and invented points are counted exactly and repaired."""
    await store(vectors.app, capture("a", "one", "two", "three", item_id="a"))
    worker = await vectors.sync()
    (collection,) = await vectors.ledger.collections()
    lost = point_id(DEFAULT_WORKSPACE, PointKey(ItemId("a"), 1))
    ghost = VectorPoint(
        DEFAULT_WORKSPACE,
        (await worker.ledger.embeddable(None, None, 1))[0].content_type,
        PointKey(ItemId("ghost"), 0),
    )
    await vectors.index.delete(collection.name, [lost], time.monotonic() + 5)
    row = (await vectors.encoder.encode_passages(["ghost"]))[0]
    await vectors.index.upsert(collection.name, [ghost], row, time.monotonic() + 5)
    found = await reconcile(worker, collection, repair=False)
    assert (found.missing, found.orphans, found.repaired) == (1, 1, False)
    await reconcile(worker, collection, repair=True)
    again = await reconcile(worker, collection, repair=False)
    assert (again.passages, again.points, again.missing, again.orphans) == (3, 3, 0, 0)


async def test_rows_older_than_the_worker_are_caught(vectors: Vectors) -> None:
    """C24: rows written before there was any worker are embedded by the first one."""
    await store(vectors.app, *[capture(f"s{n}", f"text {n}", item_id=f"i{n}") for n in range(30)])
    await vectors.sync()
    assert len(await points(vectors)) == 30


def second(vectors: Vectors) -> VectorWorker:
    """A worker with another model on the same index."""
    return VectorWorker(vectors.ledger, vectors.index, WordEncoder("words-2"), "words two", owner="m")


async def test_the_old_model_serves_while_the_new_one_is_built(vectors: Vectors) -> None:
    """E16: the first collection answers until the second is complete; then readers switch."""
    await store(vectors.app, capture("a", "threshold", item_id="a"), capture("b", "sill", item_id="b"))
    await vectors.sync()
    assert (await vectors.ask("sill")).vector.state is ArmState.RAN
    done = await migrate(second(vectors))
    assert (done.switched, done.passages, done.points) == (True, 2, 2)
    assert done.recall == 1.0
    roles = [c.role for c in await vectors.ledger.collections()]
    assert roles == [CollectionRole.RETIRED, CollectionRole.ACTIVE]
    vectors.arm.switch(WordEncoder("words-2"))
    assert set(ids(await vectors.ask("sill"))) == {"a", "b"}
    assert (await vectors.ask("sill")).vector.state is ArmState.RAN


async def test_a_reader_with_the_old_model_goes_on_until_it_is_dropped(vectors: Vectors) -> None:
    """E16: after the switch the old collection is kept and followed, and searched by whoever has its model."""
    await store(vectors.app, capture("a", "threshold", item_id="a"))
    await vectors.sync()
    await migrate(second(vectors))
    await store(vectors.app, capture("b", "sill", item_id="b"))
    await vectors.sync()
    assert set(ids(await vectors.ask("threshold"))) == {"a", "b"}
    (old, _) = await vectors.ledger.collections()
    await vectors.index.drop(old.name, time.monotonic() + 5)
    await vectors.ledger.forget(old.name)
    vectors.arm.switch(vectors.encoder)
    assert (await vectors.ask("threshold")).vector.reason == Reason.FINGERPRINT_MISMATCH


async def test_a_failed_build_changes_nothing(vectors: Vectors) -> None:
    """E16: a build that dies or is refused leaves the first collection serving, and is taken up again."""
    await store(vectors.app, capture("a", "threshold", item_id="a"))
    await vectors.sync()
    vectors.index.crash_before_upsert = True
    with pytest.raises(KilledHere):
        await migrate(second(vectors))
    vectors.index.crash_before_upsert = False
    roles = {c.role for c in await vectors.ledger.collections()}
    assert roles == {CollectionRole.ACTIVE, CollectionRole.BUILDING}
    assert (await vectors.ask("sill")).vector.state is ArmState.RAN
    vectors.index.extra = []
    assert (await migrate(second(vectors))).switched


async def test_an_index_with_poor_recall_is_refused(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E16: a collection whose search misses the true neighbours never becomes the one that serves."""
    await store(vectors.app, *[capture(f"s{n}", f"word{n} text", item_id=f"i{n}") for n in range(20)])
    await vectors.sync()

    async def blind(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(type(vectors.index), "search", blind)
    with pytest.raises(MigrationRefused):
        await migrate(second(vectors))
    assert next(c.role for c in await vectors.ledger.collections()) is CollectionRole.ACTIVE
