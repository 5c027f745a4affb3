"""The five measures, by ir_measures: nothing here computes one."""

from collections.abc import Mapping, Sequence
from typing import Final

import ir_measures
from ir_measures import RR, Qrel, R, ScoredDoc, Success, nDCG

from eval.dataset import Qrels
from eval.trec import once_each

RECALL: Final = "R@8"
MEASURES: Final[Mapping[str, ir_measures.Measure]] = {
    RECALL: R @ 8,
    "nDCG@10": nDCG @ 10,
    "RR@10": RR @ 10,
    "R@100": R @ 100,
    "Success@8": Success @ 8,
}
RECALL_ALONE: Final[Mapping[str, ir_measures.Measure]] = {RECALL: MEASURES[RECALL]}
Values = Mapping[str, Mapping[str, float]]  # by measure, then by query


def score_run(
    qrels: Qrels, run: Mapping[str, Sequence[str]], measures: Mapping[str, ir_measures.Measure] = MEASURES
) -> Values:
    """Per measure a value in [0, 1] for every judged query; a query without results has 0.

    Rankings are best first; a name that is repeated keeps its place and counts once.
    """
    judged = [Qrel(q, name, score) for q, scores in qrels.items() for name, score in scores.items()]
    docs = [
        ScoredDoc(query, name, float(-rank))
        for query in qrels
        for rank, name in enumerate(once_each(run.get(query, ())), start=1)
    ]
    names = {measure: name for name, measure in measures.items()}
    values = {name: dict.fromkeys(qrels, 0.0) for name in measures}
    if docs:
        for metric in ir_measures.iter_calc(list(measures.values()), judged, docs):
            values[names[metric.measure]][metric.query_id] = float(metric.value)
    return values


def mean(values: Mapping[str, float]) -> float:
    """The mean over queries; 0 of none."""
    return sum(values.values()) / len(values) if values else 0.0
