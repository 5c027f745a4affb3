"""Fusion settings over a grid, each query scored by a setting that was chosen without it.

The queries of every set are dealt into folds. For each fold the setting with the best mean over sets on the
other folds is chosen, among those that are on no set below the better single arm by more than that
difference's interval; if there is none, the one that falls least. The fold is then scored with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Final

from eval.dataset import CUTOFF
from eval.fusing import Candidate, fused_names
from eval.inference import Comparison, bootstrap_mean, compare
from eval.measures import RECALL, RECALL_ALONE, mean, score_run
from eval.outputs import KeptSet
from eval.rankings import Hit
from service.core.fusion import FusionMethod, FusionSettings

FOLDS: Final = 5
_CHEAP: Final = 500  # resamples while choosing; the result has the full number
Column = Mapping[str, float]  # a measure's value by query
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SetScores:
    """One set: each single arm's values, the better of which is `single`, and every candidate's."""

    name: str
    single: Column
    lexical: Column
    vector: Column
    candidates: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class GridRow:
    """A candidate on all queries of every set: to be read, not to be chosen by."""

    label: str
    by_set: Mapping[str, float]
    mean: float
    gain: float  # over the better single arm, in the mean over sets
    worst: float  # the smallest gain on any set
    never_below: bool  # on no set below the better single arm by more than the interval


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A method whose setting was chosen on the other folds, against the better single arm of each set."""

    method: str
    chosen: Sequence[str]  # a fold each
    by_set: Mapping[str, Comparison]
    means: Mapping[str, float]


def grid(methods: Iterable[FusionMethod] = tuple(FusionMethod)) -> list[Candidate]:
    """The settings that a sweep tries."""
    made: list[Candidate] = []
    weights = ((1.0, 3.0), (1.0, 2.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0))
    for method in methods:
        match method:
            case FusionMethod.RRF:
                rrf = product((2, 5, 10, 20, 60), weights)
                made += [Candidate(method, FusionSettings(k, *pair)) for k, pair in rrf]
            case FusionMethod.COVERAGE_RRF:
                bent = product((5, 10, 20, 60), (1.0, 1.5, 2.0, 3.0), (1.0, 1.5, 2.0))
                made += [Candidate(method, FusionSettings(k, w, 1.0), power) for k, w, power in bent]
            case _:
                shares = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
                made += [Candidate(method, FusionSettings(60, s, round(1.0 - s, 1))) for s in shares]
    return made


def score_grid(
    sets: Sequence[KeptSet], candidates: Sequence[Candidate], progress: Progress | None = None
) -> list[SetScores]:
    """Recall@8 of every candidate on every query."""
    scored = []
    steps = len(sets) * len(candidates)
    for number, one in enumerate(sets):
        columns: dict[str, Column] = {}
        for done, candidate in enumerate(candidates, start=1):
            run = {query: fused_names(ranked, candidate)[:CUTOFF] for query, ranked in one.queries.items()}
            columns[candidate.label] = score_run(one.qrels, run, RECALL_ALONE)[RECALL]
            if progress is not None:
                progress(number * len(candidates) + done, steps)
        lexical = _arm(one, [(q, ranked.lexical) for q, ranked in one.queries.items()])
        vector = _arm(one, [(q, ranked.vector) for q, ranked in one.queries.items()])
        single = lexical if mean(lexical) >= mean(vector) else vector
        scored.append(SetScores(one.name, single, lexical, vector, columns))
    return scored


def _arm(one: KeptSet, rankings: Iterable[tuple[str, Sequence[Hit]]]) -> Column:
    run = {query: [hit.name for hit in hits[:CUTOFF]] for query, hits in rankings}
    return score_run(one.qrels, run, RECALL_ALONE)[RECALL]


def grid_rows(scores: Sequence[SetScores], seed: int) -> list[GridRow]:
    """Every candidate on everything, best mean first."""
    labels = list(scores[0].candidates) if scores else []
    rows = [_row(label, scores, seed) for label in labels]
    return sorted(rows, key=lambda row: (-row.mean, row.label))


def _row(label: str, scores: Sequence[SetScores], seed: int) -> GridRow:
    by_set = {one.name: mean(one.candidates[label]) for one in scores}
    gains = {one.name: by_set[one.name] - mean(one.single) for one in scores}
    return GridRow(
        label,
        by_set,
        sum(by_set.values()) / len(by_set),
        sum(gains.values()) / len(gains),
        min(gains.values()),
        all(_not_below(one.candidates[label], one.single, seed) for one in scores),
    )


def _not_below(column: Column, single: Column, seed: int) -> bool:
    """Whether the interval of the difference reaches 0 or lies above it."""
    differences = [column[query] - single[query] for query in column]
    return sum(differences) >= 0.0 or bootstrap_mean(differences, seed, _CHEAP).high >= 0.0


def held_out(
    scores: Sequence[SetScores], labels: Sequence[str], method: str, seed: int, folds: int = FOLDS
) -> HeldOut:
    """Score each fold with the label that the other folds choose."""
    chosen, values = [], {one.name: dict[str, float]() for one in scores}
    for fold in range(folds):
        rest = [_part(one, fold, seed, folds) for one in scores]
        label = choose(rest, labels, seed)
        chosen.append(label)
        for one in scores:
            column = one.candidates[label]
            values[one.name].update({q: v for q, v in column.items() if fold_of(q, seed, folds) == fold})
    by_set = {
        one.name: compare([values[one.name][q] for q in one.single], list(one.single.values()), seed)
        for one in scores
    }
    return HeldOut(method, chosen, by_set, {name: mean(column) for name, column in values.items()})


def choose(scores: Sequence[SetScores], labels: Sequence[str], seed: int) -> str:
    """The best mean over sets among labels that are nowhere below the better single arm, else the least fall."""
    rows = {label: _row(label, scores, seed) for label in labels}
    safe = [label for label in labels if rows[label].never_below]
    if safe:
        return max(safe, key=lambda label: rows[label].mean)
    return max(labels, key=lambda label: (rows[label].worst, rows[label].mean))


def fold_of(query_id: str, seed: int, folds: int) -> int:
    """The fold of a query: the same for the same seed, whatever the other queries are."""
    return int.from_bytes(sha256(f"{seed} {query_id}".encode()).digest()[:8], "big") % folds


def _part(one: SetScores, fold: int, seed: int, folds: int) -> SetScores:
    """A set without the queries of a fold."""

    def of(column: Column) -> Column:
        return {q: v for q, v in column.items() if fold_of(q, seed, folds) != fold}

    lexical, vector = of(one.lexical), of(one.vector)
    single = lexical if mean(lexical) >= mean(vector) else vector
    return SetScores(one.name, single, lexical, vector, {label: of(c) for label, c in one.candidates.items()})
