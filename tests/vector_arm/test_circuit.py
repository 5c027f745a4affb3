"""What opens the arm's circuits, what does not, and that nothing keeps them open."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from service.adapters.vectors.deadlines import remaining
from service.core.drill import Drill, DrillKind
from service.ingest.migration import migrate
from service.ingest.vectors import VectorWorker
from service.model import ItemId, Workspace
from service.ports.embedding import EncoderFailed
from service.ports.vectors import (
    CollectionName,
    Hit,
    MalformedAnswer,
    PointKey,
    VectorQuery,
    VectorStoreUnavailable,
)
from service.search.degradation import Reason
from service.search.request import ArmState
from tests.builders import capture, ids, store
from tests.vector_arm.parts import GENEROUS_S, LyingIndex, Vectors, WordEncoder
from tests.vector_arm.test_read import furnished, recovered

pytestmark = pytest.mark.anyio
Search = Callable[[CollectionName, VectorQuery, float], Awaitable[tuple[Hit, ...]]]


@pytest.mark.parametrize("key", [("a", 2**31), ("a", 2**70), ("a", -1), ("a\x00b", 0), ("a\ud800", 0)])
async def test_an_index_may_invent_any_name(vectors: Vectors, key: tuple[str, int]) -> None:
    """C15: names that no database can hold are ghosts like any others, on both databases."""
    await furnished(vectors)
    vectors.index.extra = [Hit(PointKey(ItemId(key[0]), key[1], 0), 0.99)]
    answer = await vectors.ask("sill")
    assert answer.vector.state is ArmState.RAN
    assert set(ids(answer)) <= {"a", "b", "c", "d"}


async def test_the_collection_that_serves_is_probed(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: when another collection has taken the damaged one's place, the arm is back."""
    await furnished(vectors)
    worker = vectors.worker()
    serving = await worker.collection()
    assert serving is not None
    damaged = serving.name
    search: Search = vectors.index.search

    async def damaged_search(
        self: LyingIndex, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        if collection == damaged:
            raise MalformedAnswer("damaged")
        return await search(collection, query, deadline)

    monkeypatch.setattr(LyingIndex, "search", damaged_search)
    for _ in range(3):
        assert (await vectors.ask("sill")).vector.reason == Reason.STORE_ERROR
    await worker.release()
    encoder = WordEncoder("words-2")
    await migrate(VectorWorker(vectors.ledger, vectors.index, encoder, "words-2", owner="another"))
    vectors.arm.switch(encoder)
    await recovered(vectors)


async def test_a_defect_in_a_probe(vectors: Vectors) -> None:
    """C27: nothing that a probe raises keeps the circuit open for ever."""
    await furnished(vectors)
    vectors.index.error = VectorStoreUnavailable("down")
    for _ in range(3):
        await vectors.ask("sill")
    vectors.index.error = RuntimeError("a defect")  # type: ignore[assignment] # what no adapter may raise
    await asyncio.sleep(1.0)  # the prober meets it
    vectors.index.error = None
    await recovered(vectors)


async def test_a_drill_blames_nobody(vectors: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    """E14: a drill that uses up its own request's time opens no circuit for others."""
    await furnished(vectors)
    encode = WordEncoder.encode_query

    async def slow(self: WordEncoder, text: str, workspace: Workspace) -> NDArray[np.float32]:
        await asyncio.sleep(0.3)
        return await encode(self, text, workspace)

    monkeypatch.setattr(WordEncoder, "encode_query", slow)
    drilled = await vectors.ask("sill", budget=0.4, drill=Drill(DrillKind.SLOW, 0.2))
    assert drilled.vector.reason == Reason.ENCODE_TIMEOUT
    assert (await vectors.ask("sill", budget=GENEROUS_S)).vector.state is ArmState.RAN


async def test_time_that_was_spent_before_blames_nobody(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: a store that had no time left to answer is not taken for one that does not answer."""
    await furnished(vectors)
    encode, search = WordEncoder.encode_query, LyingIndex.search

    async def slow(self: WordEncoder, text: str, workspace: Workspace) -> NDArray[np.float32]:
        vector = await encode(self, text, workspace)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop is busy, as under load
        return vector

    async def strict(
        self: LyingIndex, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        remaining(deadline)  # as both engines begin
        return await search(self, collection, query, deadline)

    with monkeypatch.context() as patched:
        patched.setattr(WordEncoder, "encode_query", slow)
        patched.setattr(LyingIndex, "search", strict)
        late = await vectors.ask("sill", budget=0.25)
    assert late.vector.reason == Reason.STORE_TIMEOUT
    assert (await vectors.ask("sill", budget=GENEROUS_S)).vector.state is ArmState.RAN


async def test_a_walk_without_terms_says_that_its_ranking_is_gone(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U7: a walk that only the vector arm can go on with does not end in silence when the arm fails."""
    await store(vectors.app, *[capture(f"u{n}", f"threshold {n}", item_id=f"i{n}") for n in range(6)])
    await vectors.sync()
    encode = WordEncoder.encode_query

    async def about_thresholds(self: WordEncoder, text: str, workspace: Workspace) -> NDArray[np.float32]:
        if self.fails:
            raise EncoderFailed("told to fail")
        return await encode(self, "threshold", workspace)

    monkeypatch.setattr(WordEncoder, "encode_query", about_thresholds)
    first = await vectors.ask("???", limit=2)
    assert first.next_cursor
    vectors.encoder.fails = True
    second = await vectors.ask("???", limit=2, cursor=first.next_cursor)
    assert second.ranking_changed


async def test_a_circuit_is_logged_when_it_turns(vectors: Vectors, caplog: pytest.LogCaptureFixture) -> None:
    """C27: an operator reads once in the log that the arm is out and why, and once that it is back."""
    await furnished(vectors)
    vectors.index.error = VectorStoreUnavailable("gone")
    for _ in range(20):
        await vectors.ask("sill")
    vectors.index.error = None
    await recovered(vectors)
    turns = [message for message in caplog.messages if message.startswith("vector circuit ")]
    assert turns == [
        "vector circuit opened: store_unavailable",
        "vector circuit closed: store_unavailable",
    ]
