"""The lexical score: numbers by hand, and the laws that callers may rely on."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.fusion import FusionSettings, blend_vector_scores
from service.core.scoring import (
    HEADING_BOOST,
    K1,
    MAX_TERMS,
    TITLE_BOOST,
    Ranked,
    ScorablePassage,
    TermStatistics,
    WeightedTerm,
    explain_passage,
    rank_passages,
    saturation,
    score_passage,
    weigh_terms,
)
from service.core.tokenize import QueryTerm, stored_tokens
from service.model import ItemId

SILL = WeightedTerm(QueryTerm("sill"), 1.0)


def passage(body: str, title: str = "", heading: str = "", item: str = "i", seq: int = 0) -> ScorablePassage:
    """A passage from plain texts."""
    stored, length = stored_tokens(body)
    return ScorablePassage(
        ItemId(item), seq, stored_tokens(title)[0], stored_tokens(heading)[0], stored, length
    )


def test_bm25_by_hand() -> None:
    """C20: two of five tokens, mean length four: 2 x 2.2 / (2 + 1.2 (0.25 + 0.75 x 5/4)) = 1.28467."""
    found = score_passage(passage("sill one sill two three"), (SILL,), 4.0)
    assert found == pytest.approx(2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 1.25)))
    assert found == pytest.approx(1.28467, abs=1e-5)


def test_idf_by_hand() -> None:
    """C20: of 10 passages 3 have the term: ln(1 + 7.5/3.5) = 1.14513."""
    assert TermStatistics(10, 1.0, {"t": 3}).idf("t") == pytest.approx(math.log(1 + 7.5 / 3.5))
    assert TermStatistics(10, 1.0, {"t": 10}).idf("t") > 0.0


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.floats(1.0, 1_000.0))
def test_no_body_count_outweighs_a_head_hit(count: int, length: int, mean: float) -> None:
    """C19: whatever the counts, one title or heading hit of a term scores more than its body hits."""
    assert saturation(count, max(count, length), mean) < K1 + 1.0 < min(TITLE_BOOST, HEADING_BOOST)


def test_a_heading_hit_beats_a_dump() -> None:
    """C19: a passage under a matching heading comes before one that repeats the word a thousand times."""
    dump, concise = (
        passage("sill " * 1_000, item="dump"),
        passage("about drainage", heading="Sill", item="concise"),
    )
    ranked = rank_passages([dump, concise], (SILL,), 500.0)
    assert [r.item_id for r in ranked] == ["concise", "dump"]


@given(st.integers(1, 500), st.integers(1, 5_000))
def test_more_hits_never_score_less_and_gain_less_each_time(count: int, length: int) -> None:
    """C20: term frequency saturates."""
    length = max(length, count + 2)
    one, two, three = (saturation(count + n, length, 100.0) for n in range(3))
    assert one < two < three
    assert three - two <= two - one + 1e-12


@given(st.integers(1, 50), st.integers(1, 1_000), st.integers(1, 1_000))
def test_a_longer_passage_needs_more_hits(count: int, length: int, more: int) -> None:
    """C20: at equal counts the shorter passage scores more, so volume does not bury a concise passage."""
    assert saturation(count, length, 100.0) > saturation(count, length + more, 100.0)


def test_only_what_matches_is_ranked() -> None:
    """C9: a passage without a hit is not in the ranking, and every score is above 0."""
    assert rank_passages([passage("glass")], (SILL,), 1.0) == []


def test_ties_are_broken_by_item_then_seq() -> None:
    """C12: equal scores stand by item id, then by seq."""
    passages = [passage("sill", item=i, seq=s) for i, s in (("b", 0), ("a", 9), ("a", 10), ("B", 1))]
    ranked = rank_passages(passages, (SILL,), 1.0)
    assert [(r.item_id, r.seq) for r in ranked] == [("B", 1), ("a", 9), ("a", 10), ("b", 0)]


def test_the_explanation_sums_to_the_score() -> None:
    """U8: the parts of the explanation are the score."""
    terms = (SILL, WeightedTerm(QueryTerm("rail"), 2.0))
    shown = passage("sill rail rail", title="sill", heading="rail")
    parts = explain_passage(shown, terms, 3.0)
    assert sum(part.score for part in parts) == pytest.approx(score_passage(shown, terms, 3.0))
    assert [(p.term, p.in_title, p.in_heading, p.body_count) for p in parts] == [
        ("sill", True, False, 1),
        ("rail", False, True, 2),
    ]


def test_a_long_query_keeps_its_rarest_terms() -> None:
    """C21: of ten thousand terms the rarest are used, always the same ones."""
    terms = [QueryTerm(f"t{n:05}") for n in range(10_000)]
    statistics = TermStatistics(20_000, 10.0, {term.text: n for n, term in enumerate(terms)})
    kept = weigh_terms(terms, statistics)
    assert len(kept) == MAX_TERMS
    assert {w.term.text for w in kept} == {f"t{n:05}" for n in range(MAX_TERMS)}
    assert weigh_terms(list(reversed(terms)), statistics) == kept


def test_reciprocal_rank_fusion_by_hand() -> None:
    """C26: w_lex/(k + lexical rank) + w_vec/(k + vector rank), ranks from 1; one arm alone counts alone."""
    a, b, c = (ItemId("a"), 0), (ItemId("b"), 0), (ItemId("c"), 0)
    fused = blend_vector_scores([a, b], [c, a], FusionSettings(k=60, lexical_weight=1.0, vector_weight=2.0))
    scores = {f.item_id: f.score for f in fused}
    assert scores == {
        "a": pytest.approx(1 / 61 + 2 / 62),
        "b": pytest.approx(1 / 62),
        "c": pytest.approx(2 / 61),
    }
    assert [f.item_id for f in fused] == ["a", "c", "b"]


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 6), st.integers(0, 6))
def test_fusion_lists_each_passage_once_in_the_total_order(
    lexical: list[int], vector: list[int], first: int, second: int
) -> None:
    """C26: every passage of either arm is there once, best first."""
    left = [(ItemId(f"i{n}"), 0) for n in lexical[:first]]
    right = [(ItemId(f"i{n}"), 0) for n in vector[:second]]
    fused = blend_vector_scores(left, right, FusionSettings())
    assert {(f.item_id, f.seq) for f in fused} == {*left, *right}
    assert len(fused) == len({*left, *right})
    keys = [(-f.score, f.item_id, f.seq) for f in fused]
    assert keys == sorted(keys)


def test_a_boost_lifts_and_never_lowers() -> None:
    """C23: an item's boost is added to each of its passages, lifts one above zero, and lowers none."""
    passages = [passage("sill", item="a"), passage("glass", item="b"), passage("sill", item="c")]
    plain = {r.item_id: r.score for r in rank_passages(passages, (SILL,), 1.0)}
    boosted = rank_passages(passages, (SILL,), 1.0, {ItemId("b"): 4.0, ItemId("c"): 4.0})
    assert [r.item_id for r in boosted] == ["c", "b", "a"]
    assert all(r.score >= plain.get(r.item_id, 0.0) for r in boosted)
    assert Ranked(ItemId("a"), 0, plain[ItemId("a")]) in boosted


_STORED = st.lists(st.sampled_from(["sill", "threshold", "sl45  45  +45", "45", "x"]), max_size=12).map(
    lambda tokens: f" {'  '.join(tokens)} " if tokens else ""
)


@given(
    st.lists(st.tuples(_STORED, _STORED, _STORED, st.integers(1, 60)), max_size=8),
    st.lists(
        st.builds(
            WeightedTerm,
            st.builds(QueryTerm, st.sampled_from(["sill", "45", "sl45"]), st.booleans()),
            st.floats(0.01, 9.0),
        ),
        max_size=4,
    ),
    st.floats(0.0, 50.0),
)
def test_ranking_is_scoring_one_by_one(
    texts: list[tuple[str, str, str, int]], terms: list[WeightedTerm], mean: float
) -> None:
    """C20: a ranking's scores are those of its passages, to the last bit, and only matches are in it."""
    passages = [
        ScorablePassage(ItemId(f"i{n}"), 0, title, heading, body, length)
        for n, (title, heading, body, length) in enumerate(texts)
    ]
    one_by_one = {p.item_id: score_passage(p, terms, mean) for p in passages}
    ranked = rank_passages(passages, terms, mean)
    assert {r.item_id: r.score for r in ranked} == {i: s for i, s in one_by_one.items() if s > 0.0}
