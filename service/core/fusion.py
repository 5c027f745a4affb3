"""Weighted reciprocal rank fusion, the project's own and the only place where arms are combined."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from service.core.order import rank_key
from service.core.scoring import HEADING_BOOST, K1, TITLE_BOOST, ScorablePassage, WeightedTerm
from service.core.tokenize import count_term
from service.model import ItemId

PassageKey = tuple[ItemId, int]


class FusionMethod(StrEnum):
    """How two rankings become one. RRF is the product's; what it is weighed by can follow the query."""

    RRF = "rrf"
    COVERAGE_RRF = "coverage-rrf"
    MIN_MAX = "min-max"
    CONVEX = "convex"


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Weights and k of ``w_lex/(k + lexical rank) + w_vec/(k + vector rank)``, ranks from 1.

    `power` bends the coverage where `method` weighs the lexical arm by it.
    """

    k: int = 60
    lexical_weight: float = 1.0
    vector_weight: float = 1.0
    method: FusionMethod = FusionMethod.RRF
    power: float = 1.0


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage in the fused ranking with the ranks it had; None where an arm did not return it."""

    item_id: ItemId
    seq: int
    score: float
    lexical_rank: int | None
    vector_rank: int | None


def blend_vector_scores(
    lexical: Sequence[PassageKey], vector: Sequence[PassageKey], settings: FusionSettings
) -> list[Fused]:
    """Fuse two rankings (best first, no repeats) by weighted RRF.

    Source: Cormack, Clarke and Buettcher 2009, Reciprocal Rank Fusion outperforms Condorcet and individual
    Rank Learning Methods; the weights are the usual generalisation. A passage that only one arm returned
    scores on that arm alone.
    """
    lexical_ranks = _ranks(lexical)
    vector_ranks = _ranks(vector)
    fused = []
    for key in dict.fromkeys([*lexical, *vector]):
        lexical_rank, vector_rank = lexical_ranks.get(key), vector_ranks.get(key)
        score = contribution(lexical_rank, settings.lexical_weight, settings.k) + contribution(
            vector_rank, settings.vector_weight, settings.k
        )
        if score > 0.0:
            fused.append(Fused(*key, score, lexical_rank, vector_rank))
    fused.sort(key=lambda passage: rank_key(passage.score, passage.item_id, passage.seq))
    return fused


def contribution(rank: int | None, weight: float, k: int) -> float:
    """What one arm adds to a passage: ``weight/(k + rank)``, or 0 where the arm did not return it."""
    return 0.0 if rank is None else weight / (k + rank)


def _ranks(ranking: Sequence[PassageKey]) -> Mapping[PassageKey, int]:
    ranks: dict[PassageKey, int] = {}
    for rank, key in enumerate(ranking, start=1):
        ranks.setdefault(key, rank)
    return ranks


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage with an arm's own score."""

    item_id: ItemId
    seq: int
    score: float


def query_coverage(passages: Iterable[ScorablePassage], terms: Sequence[WeightedTerm]) -> float:
    """The largest share of the query's idf mass that one of these passages holds, from 0 to 1.

    `passages` are the best lexical hits. A code counts once: its parts are looked for in its stead, not in
    addition. 0 without terms. After the query performance predictors of Cronen-Townsend et al. 2002 and the
    coordination level of SMART: a low share says that the lexical arm found other words than were meant.
    """
    asked = [weighted for weighted in terms if not weighted.term.standalone]
    mass = sum(weighted.idf for weighted in asked)
    if mass <= 0.0:
        return 0.0
    held = (sum(weighted.idf for weighted in asked if _holds(passage, weighted)) for passage in passages)
    return min(1.0, max(held, default=0.0) / mass)


def _holds(passage: ScorablePassage, weighted: WeightedTerm) -> bool:
    fields = (passage.title, passage.heading, passage.body)
    return any(field and count_term(field, weighted.term) for field in fields)


def weighted_by_coverage(settings: FusionSettings, coverage: float, power: float = 1.0) -> FusionSettings:
    """The settings with the lexical weight times ``coverage**power``: full where the words are found."""
    return replace(settings, lexical_weight=settings.lexical_weight * min(1.0, max(0.0, coverage)) ** power)


def combine_convex(
    lexical: Sequence[Scored], vector: Sequence[Scored], settings: FusionSettings, ceiling: float
) -> list[Scored]:
    """Weighted sum of scores under theoretical normalisation, best first.

    A lexical score is divided by `ceiling`, the most that this query could score; a cosine stays as it is.
    A passage that the vector arm did not return counts with the lowest cosine that it did return, which is
    the most it can have; one that the lexical arm did not return counts with 0.
    Source: Bruch, Gai and Ingber 2023, An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 42(1).
    """
    floor = min((hit.score for hit in vector), default=0.0)
    shares = {key: score / ceiling for key, score in _scores(lexical).items()} if ceiling > 0.0 else {}
    return _summed(shares, _scores(vector), settings, floor)


def combine_min_max(
    lexical: Sequence[Scored], vector: Sequence[Scored], settings: FusionSettings
) -> list[Scored]:
    """Weighted sum of scores stretched to 0 … 1 within each list, best first; absent counts 0."""
    return _summed(_stretched(_scores(lexical)), _stretched(_scores(vector)), settings, 0.0)


def score_ceiling(terms: Sequence[WeightedTerm]) -> float:
    """The most that a passage could score on these terms: every one in title, heading and a saturated body."""
    return sum(weighted.idf for weighted in terms) * (TITLE_BOOST + HEADING_BOOST + K1 + 1.0)


def _scores(hits: Sequence[Scored]) -> dict[PassageKey, float]:
    return {(hit.item_id, hit.seq): hit.score for hit in hits}


def _stretched(scores: Mapping[PassageKey, float]) -> dict[PassageKey, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    return {key: (score - low) / (high - low) if high > low else 1.0 for key, score in scores.items()}


def _summed(
    lexical: Mapping[PassageKey, float],
    vector: Mapping[PassageKey, float],
    settings: FusionSettings,
    floor: float,
) -> list[Scored]:
    combined = [
        Scored(
            item_id,
            seq,
            settings.lexical_weight * lexical.get((item_id, seq), 0.0)
            + settings.vector_weight * vector.get((item_id, seq), floor),
        )
        for item_id, seq in dict.fromkeys([*lexical, *vector])
    ]
    combined.sort(key=lambda hit: rank_key(hit.score, hit.item_id, hit.seq))
    return combined
