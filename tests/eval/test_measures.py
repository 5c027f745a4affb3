"""The measures, against trec_eval's own figures and at their edges."""

from collections import defaultdict
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, R, Success, nDCG

from eval.measures import MEASURES, RECALL, mean, score_run
from eval.trec import read_qrels

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "trec_eval_reference"
ORACLE = {
    "recall_5": R @ 5,
    "recall_10": R @ 10,
    "recall_100": R @ 100,
    "ndcg_cut_10": nDCG @ 10,
    "recip_rank": RR,
    "success_5": Success @ 5,
    "success_10": Success @ 10,
}


def reference_run() -> dict[str, list[str]]:
    """trec_eval's run in its own order: by score, equal scores by name, last first."""
    by_query: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    docs = ir_measures.read_trec_run(str(REFERENCE / "results.test"))  # type: ignore[no-untyped-call]
    for doc in docs:
        by_query[doc.query_id].append((doc.score, doc.doc_id))
    return {query: [name for _, name in sorted(docs, reverse=True)] for query, docs in by_query.items()}


@pytest.mark.parametrize("name", ORACLE)
def test_trec_eval_agrees(name: str) -> None:
    """E6: every measure equals trec_eval's to four decimals, for each query and in the mean."""
    if not REFERENCE.is_dir():
        pytest.skip("trec_eval's reference figures are not beside this checkout")
    run = reference_run()
    judged = {q: scores for q, scores in read_qrels(REFERENCE / "qrels.test").items() if q in run}
    values = score_run(judged, run, {name: ORACLE[name]})[name]
    expected = {}
    for line in (REFERENCE / "out.test.aq").read_text().splitlines():
        measure, query, value = line.split()
        if measure == name:
            expected[query] = float(value)
    assert expected.keys() == {*values, "all"}
    assert {q: round(v, 4) for q, v in values.items()} == {q: v for q, v in expected.items() if q != "all"}
    assert round(mean(values), 4) == expected["all"]


def test_by_hand() -> None:
    """E6: one relevant of two at rank 2 gives recall 1/2, RR 1/2, success 1 and nDCG .6309/1.6309."""
    values = score_run({"q": {"a": 1, "b": 1}}, {"q": ["x", "a"]})
    assert values[RECALL]["q"] == 0.5
    assert values["RR@10"]["q"] == 0.5
    assert values["Success@8"]["q"] == 1.0
    assert values["nDCG@10"]["q"] == pytest.approx(0.63093 / 1.63093, abs=1e-5)


def test_the_cutoff_is_eight() -> None:
    """E6: rank 8 counts for recall@8 and success@8, rank 9 does not."""
    padding = [f"x{n}" for n in range(8)]
    for position, expected in ((7, 1.0), (8, 0.0)):
        values = score_run({"q": {"a": 1}}, {"q": [*padding[:position], "a"]})
        assert values[RECALL]["q"] == values["Success@8"]["q"] == expected


def test_no_result_counts_nothing() -> None:
    """E6: a judged query without results has 0 in every measure and stays in the mean."""
    values = score_run({"q": {"a": 1}, "silent": {"b": 1}}, {"q": ["a"]})
    for measure in MEASURES:
        assert values[measure] == {"q": 1.0, "silent": 0.0}
        assert mean(values[measure]) == 0.5
    assert score_run({"q": {"a": 1}}, {})[RECALL] == {"q": 0.0}


def test_duplicates_keep_their_places_and_count_once() -> None:
    """E6: a name that is repeated never counts twice, and what it pushed out of the top 8 is out."""
    values = score_run({"q": {"a": 1, "b": 1}}, {"q": ["a"] * 8 + ["b"]})
    assert values[RECALL]["q"] == 0.5
    assert values["R@100"]["q"] == 1.0
    assert values["nDCG@10"]["q"] <= 1.0


NAMES = st.sampled_from("abcdefghij")


@given(
    qrels=st.dictionaries(
        st.sampled_from(["q1", "q2", "q3"]), st.dictionaries(NAMES, st.integers(1, 3), min_size=1), min_size=1
    ),
    run=st.dictionaries(st.sampled_from(["q1", "q2", "q4"]), st.lists(NAMES, max_size=30)),
)
def test_values_are_shares(qrels: dict[str, dict[str, int]], run: dict[str, list[str]]) -> None:
    """E6: whatever the ranking repeats or leaves out, each judged query has a value in [0, 1]."""
    for values in score_run(qrels, run).values():
        assert values.keys() == qrels.keys()
        assert all(0.0 <= value <= 1.0 for value in values.values())
