"""One set's rankings to its figures. Pure: the same rankings give the same figures."""

from collections.abc import Mapping, Sequence
from typing import Final

from eval.dataset import CUTOFF, Dataset
from eval.inference import bootstrap_mean, compare
from eval.measures import MEASURES, RECALL, score_run
from eval.rankings import ARMS, Hit, QueryRankings, Rankings
from eval.report import (
    Against,
    Discordant,
    FindingsOut,
    PassageOut,
    PerQuery,
    Place,
    SetReport,
    Slice,
    Violation,
)
from service.model import passage_id
from service.search.request import Arms

COMPARED: Final = (RECALL, "nDCG@10")
SINGLE: Final = (Arms.LEXICAL, Arms.VECTOR)
SHOWN_ARMS: Final = (Arms.LEXICAL, Arms.HYBRID)


def score_set(dataset: Dataset, rankings: Rankings, stale: frozenset[str], seed: int) -> SetReport:
    """A set's report. `stale` are item ids of which nothing may be shown."""
    per_query: PerQuery = {arm.value: _plain(dataset, rankings, arm) for arm in ARMS}
    better = max(SINGLE, key=lambda arm: _mean(per_query, arm, RECALL))
    discordant = _discordant(dataset, rankings, per_query)
    needed = {
        place.passage_id for one in discordant for ranking in one.rankings.values() for place in ranking
    }
    return SetReport(
        name=dataset.name,
        dataset_hash=dataset.digest,
        corpus=dataset.corpus.name,
        queries=len(dataset.qrels),
        better_single_arm=better.value,
        arms={
            arm: {name: bootstrap_mean(list(values.values()), seed) for name, values in measures.items()}
            for arm, measures in per_query.items()
        },
        comparisons=[_against(per_query, arm, name, seed) for name in COMPARED for arm in SINGLE],
        slices=_slices(dataset, per_query, seed),
        per_query=per_query,
        first_relevant={arm.value: _first_relevant(dataset, rankings, arm) for arm in ARMS},
        discordant=discordant,
        passages={
            name: PassageOut(one.title, one.heading, one.text)
            for name, one in sorted(rankings.shown.items())
            if name in needed
        },
        look_alikes=[one for arm in ARMS for one in _look_alikes(dataset, rankings, arm)],
        stale=[one for arm in ARMS for one in _stale(dataset, rankings, arm, stale)],
        findings=FindingsOut(
            list(dataset.findings.duplicate_judgements),
            list(dataset.findings.unknown_queries),
            list(dataset.findings.unjudged_queries),
            list(dataset.findings.unknown_passages),
        ),
    )


def run_of(rankings: Rankings, arm: Arms) -> dict[str, list[str]]:
    """An arm's run: the names of its passages, by query, best first."""
    return {query: [hit.name for hit in ranked.of(arm)] for query, ranked in rankings.queries.items()}


def _plain(dataset: Dataset, rankings: Rankings, arm: Arms) -> dict[str, dict[str, float]]:
    values = score_run(dataset.qrels, run_of(rankings, arm), MEASURES)
    return {name: dict(of_query) for name, of_query in values.items()}


def _mean(per_query: PerQuery, arm: Arms, measure: str) -> float:
    values = per_query[arm.value][measure].values()
    return sum(values) / len(values)


def _against(per_query: PerQuery, arm: Arms, measure: str, seed: int) -> Against:
    hybrid, other = per_query[Arms.HYBRID.value][measure], per_query[arm.value][measure]
    result = compare(list(hybrid.values()), [other[query] for query in hybrid], seed)
    return Against(arm.value, measure, result)


def _slices(dataset: Dataset, per_query: PerQuery, seed: int) -> list[Slice]:
    tagged: dict[str, list[str]] = {}
    for query in dataset.qrels:
        for tag in dataset.tags.get(query, ()):
            tagged.setdefault(tag, []).append(query)
    slices = []
    for tag, queries in sorted(tagged.items()):
        of_arm = {arm.value: [per_query[arm.value][RECALL][query] for query in queries] for arm in ARMS}
        arms = {arm: bootstrap_mean(values, seed) for arm, values in of_arm.items()}
        against = compare(of_arm[Arms.HYBRID.value], of_arm[Arms.LEXICAL.value], seed)
        slices.append(Slice(tag, len(queries), arms, against))
    return slices


def _first_relevant(dataset: Dataset, rankings: Rankings, arm: Arms) -> dict[str, int | None]:
    ranks: dict[str, int | None] = {}
    for query, ranked in rankings.queries.items():
        relevant = dataset.relevant(query)
        found = (rank for rank, hit in enumerate(ranked.of(arm), start=1) if hit.name in relevant)
        ranks[query] = next(found, None)
    return ranks


def _discordant(dataset: Dataset, rankings: Rankings, per_query: PerQuery) -> list[Discordant]:
    """The queries with a difference, the largest first."""
    recall = {arm.value: per_query[arm.value][RECALL] for arm in ARMS}
    hybrid, lexical = recall[Arms.HYBRID.value], recall[Arms.LEXICAL.value]
    differing = [query for query in dataset.qrels if hybrid[query] != lexical[query]]
    differing.sort(key=lambda query: (-abs(hybrid[query] - lexical[query]), query))
    return [
        Discordant(
            query,
            dataset.queries[query],
            {arm: values[query] for arm, values in recall.items()},
            {arm.value: _places(dataset, query, rankings.queries[query], arm) for arm in SHOWN_ARMS},
        )
        for query in differing
    ]


def _places(dataset: Dataset, query: str, ranked: QueryRankings, arm: Arms) -> list[Place]:
    relevant = dataset.relevant(query)
    return [
        Place(passage_id(hit.item_id, hit.seq), hit.name, hit.name in relevant)
        for hit in ranked.of(arm)[:CUTOFF]
    ]


def _look_alikes(dataset: Dataset, rankings: Rankings, arm: Arms) -> list[Violation]:
    found = []
    for query, names in dataset.must_not_match.items():
        if query in rankings.queries:
            top = rankings.queries[query].of(arm)[:CUTOFF]
            last = _last_relevant(top, dataset.relevant(query))
            found += [
                Violation(query, arm.value, hit.name, rank, rank < last)
                for rank, hit in enumerate(top, start=1)
                if hit.name in names
            ]
    return found


def _last_relevant(top: Sequence[Hit], relevant: frozenset[str]) -> int:
    return max((rank for rank, hit in enumerate(top, start=1) if hit.name in relevant), default=0)


def _stale(dataset: Dataset, rankings: Rankings, arm: Arms, stale: frozenset[str]) -> list[Violation]:
    """Stale passages anywhere in a ranking, by what the rows say and by what the set says."""
    forbidden: Mapping[str, frozenset[str]] = dataset.must_not_appear
    return [
        Violation(query, arm.value, hit.name, rank, above_relevant=False)
        for query, ranked in rankings.queries.items()
        for rank, hit in enumerate(ranked.of(arm), start=1)
        if hit.item_id in stale or hit.name in forbidden.get(query, frozenset())
    ]
