"""Weighted reciprocal rank fusion, the project's own and the only place where arms are combined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.core.order import rank_key
from service.model import ItemId

PassageKey = tuple[ItemId, int]


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Weights and k of ``w_lex/(k + lexical rank) + w_vec/(k + vector rank)``, ranks from 1."""

    k: int = 60
    lexical_weight: float = 1.0
    vector_weight: float = 1.0


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
    fused = [
        Fused(
            item_id=key[0],
            seq=key[1],
            score=contribution(lexical_ranks.get(key), settings.lexical_weight, settings.k)
            + contribution(vector_ranks.get(key), settings.vector_weight, settings.k),
            lexical_rank=lexical_ranks.get(key),
            vector_rank=vector_ranks.get(key),
        )
        for key in dict.fromkeys([*lexical, *vector])
    ]
    fused = [passage for passage in fused if passage.score > 0.0]
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
