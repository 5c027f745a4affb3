"""Rounds: how far the index is asked, who is to blame for the deep ones, and what is counted."""

import pytest

from service.core.breaker import Breaker
from service.model import DEFAULT_WORKSPACE, ItemId, Workspace
from service.ports.vectors import MAX_HITS, Hit, PointKey, VectorStoreUnavailable
from service.search.degradation import Reason
from service.search.hybrid import FUSION_DEPTH
from service.search.nearest import ROUNDS, RoundCounters
from service.search.request import Arms, ArmState, VectorArm
from service.search.vector_arm import SPARE
from tests.builders import capture, ids, store
from tests.vector_arm.parts import GENEROUS_S, Vectors
from tests.vector_arm.test_read import bytes_of, furnished

pytestmark = pytest.mark.anyio
FIRST = FUSION_DEPTH + FUSION_DEPTH // SPARE
BUDGET_S = 1.0


def ghosts(count: int) -> list[Hit]:
    """Points of passages that never were, nearer than any real one."""
    return [Hit(PointKey(ItemId(f"ghost-{n}"), 0), 0.999) for n in range(count)]


async def many(vectors: Vectors, count: int) -> None:
    """A corpus of that many passages, each with its vector."""
    texts = [f"word{n}" for n in range(count)]
    await store(
        vectors.app, *[capture(f"m{n}", *texts[n : n + 50], item_id=f"m{n}") for n in range(0, count, 50)]
    )
    await vectors.sync()


async def test_a_point_that_comes_again_and_again_is_not_the_end(vectors: Vectors) -> None:
    """C15: an index that repeats one point fills the page all the same: it has ended when it returns too few
    points, not when they are of few passages.
    """
    await many(vectors, 300)
    vectors.index.extra = [Hit(PointKey(ItemId("m0"), 0), 0.999)] * FUSION_DEPTH
    answer = await vectors.ask("nowhere", limit=50, arms=Arms.VECTOR)
    assert len({hit.passage_id for hit in answer.results}) == 50
    assert answer.has_more
    assert vectors.index.limits == [FIRST, FIRST * 4]


async def test_rounds_end_with_the_index_and_at_the_bound(vectors: Vectors) -> None:
    """C15: an index with nothing but ghosts is asked as often as the bound allows, and no more."""
    await furnished(vectors)
    vectors.index.extra = ghosts(2 * MAX_HITS)
    await vectors.ask("sill", arms=Arms.VECTOR)
    assert len(vectors.index.limits) == ROUNDS
    assert vectors.index.limits[-1] == MAX_HITS


async def test_a_late_round_is_done_without(vectors: Vectors) -> None:
    """C27: when a further round runs out of time, what the first one brought is fused, and the store, which had
    answered in time, is blamed for nothing: other requests still have vectors.
    """
    await furnished(vectors)
    live = [Hit(PointKey(ItemId(name), 0), 0.9) for name in ("a", "b")]
    vectors.index.extra = [*live, *ghosts(FIRST)]
    vectors.index.delay, vectors.index.ill_beyond = 30.0, FIRST
    for _ in range(2):
        answer = await vectors.ask("sill", budget=BUDGET_S)
        assert answer.vector == VectorArm(ArmState.RAN, "ran")
        assert {"a", "b", "c"} == set(ids(answer))
    assert vectors.arm.breakers.store == Breaker()
    assert vectors.arm.counters.cut_short[Reason.STORE_TIMEOUT] == 2
    assert vectors.index.probes == []


async def test_a_late_round_that_was_the_only_hope(vectors: Vectors) -> None:
    """C27: where the first round brought nothing that lives, the answer is the lexical one and says why."""
    await furnished(vectors)
    vectors.index.extra = ghosts(FIRST)
    vectors.index.delay, vectors.index.ill_beyond = 30.0, FIRST
    answer = await vectors.ask("sill", budget=BUDGET_S)
    assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.STORE_TIMEOUT)
    assert bytes_of(answer) == bytes_of(await vectors.lexically("sill"))
    assert vectors.arm.breakers.store == Breaker()


async def test_a_failing_round_is_done_without(vectors: Vectors) -> None:
    """C27: a store that goes away between two rounds costs the second one; the next request finds out."""
    await furnished(vectors)
    vectors.index.extra = [Hit(PointKey(ItemId("a"), 0), 0.9), *ghosts(FIRST)]
    vectors.index.error, vectors.index.ill_beyond = VectorStoreUnavailable("down"), FIRST
    assert (await vectors.ask("sill")).vector.state is ArmState.RAN
    assert vectors.arm.counters.cut_short[Reason.STORE_UNAVAILABLE] == 1
    vectors.index.ill_beyond = 0
    assert (await vectors.ask("sill")).vector.reason == Reason.STORE_UNAVAILABLE
    assert vectors.arm.breakers.store.failures == 1


async def test_rounds_and_what_the_rows_do_not_confirm_are_counted(vectors: Vectors) -> None:
    """C15: over-fetching is counted: each round, and each stale, foreign or unknown passage that came."""
    await furnished(vectors)
    await store(vectors.app, capture("x", "their sill", item_id="x"), workspace=Workspace("other"))
    await vectors.ask("sill", budget=GENEROUS_S)
    assert vectors.arm.counters == RoundCounters(rounds={1: 1, 2: 0, 3: 0, 4: 0})
    await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("d"))
    vectors.index.extra = [*ghosts(FIRST), Hit(PointKey(ItemId("x"), 0), 0.9)]
    await vectors.ask("sill", arms=Arms.VECTOR)
    assert vectors.arm.counters.rounds == {1: 2, 2: 1, 3: 0, 4: 0}
    assert vectors.arm.counters.unconfirmed == FIRST + 2  # ghosts, the foreign one and the retired one
