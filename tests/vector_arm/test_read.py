"""The read path with a vector arm that is well, behind, lying or dead."""

import asyncio
from dataclasses import replace

import anyio
import msgspec
import pytest

from service.core.fusion import FusionMethod, FusionSettings
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.embedding import EncoderState
from service.ports.vectors import (
    DimensionMismatch,
    Hit,
    MalformedAnswer,
    PointKey,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)
from service.search.degradation import Reason
from service.search.request import Answer, Arms, ArmState, VectorArm
from tests.builders import capture, ids, store
from tests.vector_arm.parts import GENEROUS_S, Vectors

pytestmark = pytest.mark.anyio
NOTHING_SAID = VectorArm(ArmState.OFF, "")


def bytes_of(answer: Answer) -> bytes:
    """Everything of an answer but what it says of the vector arm."""
    return msgspec.json.encode(replace(answer, vector=NOTHING_SAID))


async def furnished(vectors: Vectors) -> None:
    """A corpus in which the synonym of a word is the only way to some passages."""
    await store(
        vectors.app,
        capture("a", "threshold heights for doors", item_id="a"),
        capture("b", "maintenance of the threshold", item_id="b"),
        capture("c", "sill extrusion colours", item_id="c"),
        capture("d", "glass thickness", item_id="d"),
    )
    await vectors.sync()


async def test_a_synonym_is_found_by_the_vector_arm_alone(vectors: Vectors) -> None:
    """C24: a query's nearest passages join the answer though no word of theirs matches."""
    await furnished(vectors)
    assert ids(await vectors.lexically("sill")) == ["c"]
    answer = await vectors.ask("sill")
    assert set(ids(answer)) >= {"a", "b", "c"}
    assert answer.vector == VectorArm(ArmState.RAN, "ran")


async def test_scores_are_weighted_reciprocal_ranks(vectors: Vectors) -> None:
    """C26: each score is w_lex/(k + rank) + w_vec/(k + rank), and explain shows every part of it."""
    vectors.fusion = FusionSettings(k=7, lexical_weight=2.0, vector_weight=0.5)
    await furnished(vectors)
    answer = await vectors.ask("sill")
    assert answer.results[0].provenance.item_id == "c"
    for result in answer.results:
        assert result.explain is not None
        said = result.explain
        by_hand = (0.0 if said.lexical_rank is None else 2.0 / (7 + said.lexical_rank)) + (
            0.0 if said.vector_rank is None else 0.5 / (7 + said.vector_rank)
        )
        assert result.score == pytest.approx(by_hand)
        assert said.fusion["k"] == 7
        assert said.fusion["lexical_weight"] == 2.0
        assert said.fusion["vector_weight"] == 0.5
        parts = said.fusion["lexical_contribution"] + said.fusion["vector_contribution"]
        assert result.score == pytest.approx(parts)


async def test_the_lexical_weight_follows_the_query(vectors: Vectors) -> None:
    """C26: with coverage RRF the weight is the setting's times the share of the query found, and is echoed."""
    vectors.fusion = FusionSettings(k=5, lexical_weight=2.0, method=FusionMethod.COVERAGE_RRF, power=1.5)
    await furnished(vectors)
    whole = await vectors.ask("glass thickness")
    assert whole.results[0].explain is not None
    assert whole.results[0].explain.fusion["lexical_weight"] == pytest.approx(2.0)
    partly = await vectors.ask("sill zirconium")
    assert partly.results[0].explain is not None
    assert 0.0 < partly.results[0].explain.fusion["lexical_weight"] < 2.0


async def test_the_convex_combination_adds_normalised_scores(vectors: Vectors) -> None:
    """C26: behind a setting, scores are combined: contributions sum to the score, best first."""
    vectors.fusion = FusionSettings(lexical_weight=0.6, vector_weight=0.4, method=FusionMethod.CONVEX)
    await furnished(vectors)
    answer = await vectors.ask("sill threshold")
    scores = [result.score for result in answer.results]
    assert scores == sorted(scores, reverse=True)
    for result in answer.results:
        assert result.explain is not None
        said = result.explain.fusion
        assert result.score == pytest.approx(said["lexical_contribution"] + said["vector_contribution"])


async def test_a_cursor_of_other_fusion_settings_goes_on_by_rank(vectors: Vectors) -> None:
    """U7: a cursor is bound to the ranking settings; after a change the walk says so."""
    await furnished(vectors)
    first = await vectors.ask("sill threshold", limit=1)
    vectors.fusion = FusionSettings(k=9)
    assert (await vectors.ask("sill threshold", limit=1, cursor=first.next_cursor)).ranking_changed


async def test_limit_is_a_prefix_and_pages_are_the_list(vectors: Vectors) -> None:
    """C13: with the vector arm on, limit n is a prefix of limit m, and pages walk the same list."""
    await furnished(vectors)
    whole = ids(await vectors.ask("sill threshold", limit=50))
    assert ids(await vectors.ask("sill threshold", limit=2)) == whole[:2]
    walked: list[str] = []
    cursor: str | None = None
    while True:
        page = await vectors.ask("sill threshold", limit=1, cursor=cursor)
        walked += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert walked == whole


async def test_a_stale_point_never_surfaces(vectors: Vectors) -> None:
    """C14: a retired passage whose vector is still in the index does not come back."""
    await furnished(vectors)
    await vectors.app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("a"))
    assert "a" not in ids(await vectors.ask("sill"))
    assert "a" not in ids(await vectors.ask("sill", arms=Arms.VECTOR))


async def test_ghosts_and_stale_points_do_not_shorten_a_page(vectors: Vectors) -> None:
    """C15: two thousand stale and invented points in front cost a deeper round, never a live passage."""
    await furnished(vectors)
    vectors.index.extra = [Hit(PointKey(ItemId(f"ghost-{n}"), 0), 0.999) for n in range(2_000)]
    answer = await vectors.ask("sill", arms=Arms.VECTOR)
    assert set(ids(answer)) >= {"a", "b", "c"}
    assert len(vectors.index.limits) > 1
    assert max(vectors.index.limits) <= 10_000


async def test_another_workspaces_ids_are_not_served(vectors: Vectors) -> None:
    """C14: an index that returns ids of another workspace cannot show them."""
    await furnished(vectors)
    from service.model import Workspace  # noqa: PLC0415 - only here

    await store(vectors.app, capture("x", "secret sill", item_id="theirs"), workspace=Workspace("other"))
    vectors.index.extra = [Hit(PointKey(ItemId("theirs"), 0), 0.999)]
    assert "theirs" not in ids(await vectors.ask("sill"))


async def test_duplicate_hits_count_once(vectors: Vectors) -> None:
    """C26: a passage that the index returns twice has one rank and stands once in the answer."""
    await furnished(vectors)
    vectors.index.extra = [Hit(PointKey(ItemId("a"), 0, window), 0.9) for window in range(5)]
    found = ids(await vectors.ask("sill"))
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (VectorStoreUnavailable("down"), Reason.STORE_UNAVAILABLE),
        (VectorStoreTimeout("late"), Reason.STORE_TIMEOUT),
        (MalformedAnswer("NaN"), Reason.STORE_ERROR),
        (DimensionMismatch("768"), Reason.FINGERPRINT_MISMATCH),
    ],
)
async def test_a_failing_store_costs_the_vectors_and_nothing_else(
    vectors: Vectors, error: VectorStoreUnavailable, reason: Reason
) -> None:
    """C27: whatever the store does, the answer is the lexical one to the byte, and says why."""
    await furnished(vectors)
    vectors.index.error = error
    answer = await vectors.ask("sill threshold")
    assert answer.vector == VectorArm(ArmState.DEGRADED, reason)
    assert bytes_of(answer) == bytes_of(await vectors.lexically("sill threshold"))


async def test_a_failing_encoder_costs_the_vectors_and_nothing_else(vectors: Vectors) -> None:
    """C27: an encoder that raises gives the lexical answer with encode_error."""
    await furnished(vectors)
    vectors.encoder.fails = True
    answer = await vectors.ask("sill")
    assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.ENCODE_ERROR)
    assert bytes_of(answer) == bytes_of(await vectors.lexically("sill"))


async def test_a_hanging_encoder_and_a_slow_store_meet_the_deadline(vectors: Vectors) -> None:
    """C27: past the deadline the answer is the lexical one: encode_timeout, store_timeout."""
    await furnished(vectors)
    vectors.encoder.hangs = True
    assert (await vectors.ask("sill", budget=0.05)).vector.reason == Reason.ENCODE_TIMEOUT
    vectors.encoder.hangs = False
    await recovered(vectors)
    vectors.index.delay = 30.0
    answer = await vectors.ask("sill", budget=1.0)
    assert answer.vector.reason == Reason.STORE_TIMEOUT
    assert bytes_of(answer) == bytes_of(await vectors.lexically("sill"))


async def test_the_breaker_opens_and_closes_by_itself(vectors: Vectors) -> None:
    """C27: after three failures no request asks a dead store; a probe finds it when it is back."""
    await furnished(vectors)
    vectors.index.error = VectorStoreUnavailable("down")
    for _ in range(3):
        await vectors.ask("sill")
    asked = len(vectors.index.limits)
    for _ in range(20):
        assert (await vectors.ask("sill")).vector.reason == Reason.STORE_UNAVAILABLE
    assert vectors.index.limits[asked:] == []
    vectors.index.error = None
    await recovered(vectors)


async def test_a_deadline_is_paid_once(vectors: Vectors) -> None:
    """C27: after one call that ran out of time no other waits for the store; nobody's request is the probe."""
    await furnished(vectors)
    vectors.index.delay = 30.0
    assert (await vectors.ask("sill", budget=0.2)).vector.reason == Reason.STORE_TIMEOUT
    asked, encoded = len(vectors.index.limits), vectors.encoder.queries
    for _ in range(20):
        answer = await vectors.ask("sill")
        assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.STORE_TIMEOUT)
    assert vectors.index.limits[asked:] == []
    assert vectors.encoder.queries == encoded  # nothing is encoded for a store that is not asked
    vectors.index.delay = 0.0
    await recovered(vectors)


async def test_a_restless_encoder_is_left_alone(vectors: Vectors) -> None:
    """C27: an encoder that always fails is not asked by requests either, and is back by itself."""
    await furnished(vectors)
    vectors.encoder.fails = True
    for _ in range(3):
        await vectors.ask("sill")
    searches = vectors.index.searches
    for _ in range(20):
        assert (await vectors.ask("sill")).vector.reason == Reason.ENCODE_ERROR
    assert vectors.index.searches == searches
    vectors.encoder.fails = False
    await recovered(vectors)


async def test_no_snapshot_waits_for_the_encoder(vectors: Vectors) -> None:
    """U20: more requests than the database has connections for readers can wait for one slow encoder."""
    await furnished(vectors)
    vectors.encoder.hangs = True
    waiting = [asyncio.create_task(vectors.ask("sill", budget=GENEROUS_S)) for _ in range(40)]
    await asyncio.sleep(0.2)
    assert ids(await vectors.lexically("sill"))
    vectors.encoder.hangs = False
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def recovered(vectors: Vectors) -> None:
    """Wait until vectors take part again."""
    with anyio.fail_after(GENEROUS_S):
        while (await vectors.ask("sill")).vector.state is not ArmState.RAN:  # noqa: ASYNC110 - the arm tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("state", "reason"),
    [(EncoderState.LOADING, Reason.MODEL_LOADING), (EncoderState.FAILED, Reason.NO_MODEL)],
)
async def test_no_model_is_no_failure(vectors: Vectors, state: EncoderState, reason: Reason) -> None:
    """C27: while the model loads, or cannot be had, the answer is the lexical one."""
    await furnished(vectors)
    vectors.encoder.state = state
    assert (await vectors.ask("sill")).vector == VectorArm(ArmState.DEGRADED, reason)


async def test_an_empty_index_says_no_vectors(vectors: Vectors) -> None:
    """C27: before the first vector is stored the answer is the lexical one with no_vectors."""
    await store(vectors.app, capture("a", "sill", item_id="a"))
    answer = await vectors.ask("sill")
    assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.NO_VECTORS)
    assert ids(answer) == ["a"]


async def test_another_models_collection_is_never_searched(vectors: Vectors) -> None:
    """C24: with another fingerprint the collection is left alone, and the answer says fingerprint_mismatch."""
    await furnished(vectors)
    vectors.encoder.fingerprint = "words-2"
    searches = vectors.index.searches
    answer = await vectors.ask("sill")
    assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.FINGERPRINT_MISMATCH)
    assert vectors.index.searches == searches


async def test_a_hybrid_walk_goes_on_by_rank_when_the_arm_fails(vectors: Vectors) -> None:
    """C27: the second page of a hybrid walk is answered without vectors too, and says that the ranking changed."""
    await furnished(vectors)
    first = await vectors.ask("sill threshold", limit=1)
    vectors.index.error = VectorStoreUnavailable("down")
    second = await vectors.ask("sill threshold", limit=1, cursor=first.next_cursor)
    assert second.ranking_changed
    assert second.vector.state is ArmState.DEGRADED
    assert len(second.results) == 1
