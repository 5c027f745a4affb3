"""The embedding cache: what leaves it, what halving it costs, and what other text rules make of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import resources

import numpy as np
import pytest

from embeddings.encoder import Encoder, encode_passages
from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import EncoderSettings
from embeddings.loader import load_encoder
from service.adapters.encoder import ServiceEncoder
from service.adapters.sql.ledger import SqlVectorLedger
from service.bootstrap import Application
from service.core.embedding_text import embedding_text
from service.ingest.reconcile import compare
from service.ingest.trimming import TextsInUse, trim_cache
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import CollectionRole, KnownCollection
from service.ports.vectors import collection_name
from tests.builders import capture, ids, store
from tests.rollout.parts import eventually
from tests.vector_arm.parts import Vectors

pytestmark = pytest.mark.anyio
PATIENCE_S = 120.0
LEAST_COSINE = 0.999999  # of a vector that was kept as float16 to the one that was encoded
SAMPLE = 300


async def the_collection(vectors: Vectors) -> KnownCollection:
    """The first there is."""
    return (await vectors.ledger.collections())[0]


async def cached(vectors: Vectors, fingerprint: str = "words-1") -> int:
    """How many texts of a model are kept."""
    return len(await vectors.ledger.cached_hashes(fingerprint, "", 10_000))


async def trimmed(vectors: Vectors, worker: VectorWorker, most: int = 5_000) -> int:
    """Compare, and trim as the reconciler does."""
    collection, in_use = await the_collection(vectors), TextsInUse()
    assert not (await compare(worker, collection, in_use=in_use)).differs
    return await trim_cache(vectors.ledger, collection.fingerprint, in_use, most)


async def test_superseded_and_retired_texts_leave_the_cache(vectors: Vectors) -> None:
    """C24: what no live passage says any more is kept no longer; what one still says stays."""
    await store(
        vectors.app, capture("a", "stays", "goes", item_id="a1"), capture("b", "goes too", item_id="b")
    )
    await vectors.sync()
    await store(vectors.app, capture("a", "stays", "new", version="2", item_id="a2"))
    await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("b"))
    worker = await vectors.sync()
    assert await cached(vectors) == 4
    assert await trimmed(vectors, worker) == 2
    assert await cached(vectors) == 2
    assert await trimmed(vectors, worker) == 0
    encoded = vectors.encoder.encoded
    await store(vectors.app, capture("c", "stays", title="A document", item_id="c"))
    await vectors.sync()
    assert vectors.encoder.encoded == encoded


async def test_what_the_worker_has_yet_to_see_stays(vectors: Vectors) -> None:
    """C24: texts of pending changes are left alone: of stale ones the windows must still be known."""
    await store(vectors.app, capture("a", "old", item_id="a1"))
    worker = await vectors.sync()
    await store(vectors.app, capture("a", "new", version="2", item_id="a2"))
    assert await trimmed(vectors, worker) == 0
    await vectors.sync()
    assert await trimmed(vectors, worker) == 1


async def test_a_turn_is_bounded(vectors: Vectors) -> None:
    """C24: however much is to go, a turn removes so much and no more."""
    await store(vectors.app, capture("a", *[f"text {n}" for n in range(7)], item_id="a1"))
    await vectors.sync()
    await store(vectors.app, capture("a", "new", version="2", item_id="a2"))
    worker = await vectors.sync()
    assert [await trimmed(vectors, worker, most=3) for _ in range(4)] == [3, 3, 1, 0]


async def test_texts_of_models_without_a_collection_leave_the_cache(vectors: Vectors) -> None:
    """C24: vectors of a model that nobody serves, builds or keeps are removed; those of a retired one stay."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    worker = await vectors.sync()
    row = np.ones((1, 4), np.float32)
    await vectors.ledger.cache("nobody's", {f"{n:064x}": row for n in range(3)})
    await vectors.ledger.cache("retired", {f"{n:064x}": row for n in range(2)})
    name = collection_name("retired")
    now = datetime.now(UTC)
    await vectors.ledger.register(KnownCollection(name, "retired", "old", 4, CollectionRole.RETIRED, now))
    assert await trimmed(vectors, worker, most=2) == 2
    assert await trimmed(vectors, worker) == 1
    assert await vectors.ledger.cached_fingerprints() == ["retired", "words-1"]
    await vectors.ledger.forget(name)
    assert await vectors.ledger.cached_fingerprints() == ["words-1"]


async def test_forgetting_one_of_two_keeps_their_models_vectors(vectors: Vectors) -> None:
    """C24: a model's vectors stay while any collection of it is known."""
    await store(vectors.app, capture("a", "one", item_id="a"))
    await vectors.sync()
    second = collection_name("words-1", 2)
    await vectors.ledger.register(
        KnownCollection(second, "words-1", "words", 64, CollectionRole.RETIRED, datetime.now(UTC))
    )
    await vectors.ledger.forget(second)
    assert await cached(vectors) == 1


async def test_the_runner_trims_by_itself(vectors: Vectors) -> None:
    """C24: a comparison that finds nothing to repair is followed by trimming."""
    await store(vectors.app, capture("a", "old", item_id="a1"))
    await (await vectors.sync()).release()
    await store(vectors.app, capture("a", "new", version="2", item_id="a2"))
    runner = VectorRunner(vectors.worker("w2"), rest=0.01, reconcile_every=0.05)
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(PATIENCE_S):
        while await cached(vectors) != 1:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(0.02)
    runner.stop()
    await task
    assert ids(await vectors.ask("new")) == ["a2"]


async def test_other_text_rules_refill_the_collection(vectors: Vectors) -> None:
    """C24: after a change of what is embedded everything is followed again, while the collection serves."""
    await store(vectors.app, capture("a", "one", "two", item_id="a"))
    await vectors.sync()
    later = SqlVectorLedger(vectors.app.store.engines, "float32", text_rules=2)
    worker = VectorWorker(later, vectors.index, vectors.encoder, "words", owner="w1")
    assert (await worker.step(), await worker.step()) == (StepOutcome.WORKED, StepOutcome.IDLE)
    assert worker.counters.upserted == 2
    again = VectorWorker(later, vectors.index, vectors.encoder, "words", owner="w1")
    assert await again.step() is StepOutcome.IDLE
    collection = await the_collection(vectors)
    before = await vectors.ledger.progress(collection.name)
    after = await later.progress(collection.name)
    assert before is not None
    assert after is not None
    assert (before.seq, after.seq) == (0, await later.head())
    assert before.incarnation == after.incarnation


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    """all-MiniLM-L6-v2, loaded."""
    return load_encoder(EncoderSettings(model="minilm"))


@asynccontextmanager
async def serving(encoder: Encoder) -> AsyncIterator[ServiceEncoder]:
    """The service's own encoder around a loaded model."""
    service = EncoderService(lambda: encoder)
    service.start()
    await service.wait_ready(PATIENCE_S)
    yield ServiceEncoder(service)
    await service.close()


@pytest.mark.model
async def test_what_float16_costs(sqlite_app: Application, minilm: Encoder) -> None:
    """C24: the real model's vectors, kept as float16, come back at a cosine of 0.999999 or more, in half the room.

    Their order is kept too: of the ten nearest neighbours among the sample, on average less than one in a
    hundred is another.
    """
    corpus = resources.files("service.shipped.doc2dial").joinpath("corpus.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in corpus.splitlines()[:SAMPLE]]
    texts = [embedding_text(row["title"], None, row["text"]) for row in rows]
    vectors = {f"{n:064x}": rows for n, rows in enumerate(encode_passages(minilm, texts))}
    kept = {}
    for dtype in ("float32", "float16"):
        ledger = SqlVectorLedger(sqlite_app.store.engines, dtype)
        await ledger.cache(dtype, vectors)
        found = await ledger.cached(dtype, list(vectors))
        kept[dtype] = np.concatenate([found[key] for key in vectors]).astype(np.float64)
    exact = np.concatenate(list(vectors.values())).astype(np.float64)
    assert np.abs(kept["float32"] - exact).max() < 1e-6
    cosines = np.einsum("ij,ij->i", kept["float16"], exact)
    assert cosines.min() >= LEAST_COSINE
    near = [np.argsort(-(exact @ rows.T), axis=1)[:, :10] for rows in (exact, kept["float16"])]
    same = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])
    assert same > 0.99


@pytest.mark.model
async def test_the_real_model_sees_nothing_in_an_accent(vectors: Vectors, minilm: Encoder) -> None:
    """C27: an accepted capture of a lone accent stops no worker, and counts as complete."""
    await store(vectors.app, capture("bad", "\u0301", title="\u0301", item_id="bad"))
    async with serving(minilm) as encoder:
        worker = VectorWorker(vectors.ledger, vectors.index, encoder, "minilm")
        runner = VectorRunner(worker, rest=0.01)
        task = asyncio.create_task(runner.run())
        await eventually(lambda: runner.outcome is StepOutcome.IDLE)
        await store(vectors.app, capture("good", "a sill", item_id="good"))
        await eventually(lambda: worker.counters.upserted == 1)
        await eventually(lambda: runner.comparison is not None)
        assert runner.comparison is not None
        assert (runner.comparison.missing, runner.failure) == (0, None)
        runner.stop()
        await task
