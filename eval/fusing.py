"""Fusing kept rankings again with the service's own functions: no second retrieval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eval.rankings import Hit, QueryRankings
from service.core.fusion import (
    FusionMethod,
    FusionSettings,
    PassageKey,
    Scored,
    blend_vector_scores,
    combine_convex,
    combine_min_max,
    weighted_by_coverage,
)

BEST_HITS: Final = 8  # lexical hits whose coverage of the query counts


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to fuse. `power` bends the coverage, where the method uses it; `k` counts for RRF alone."""

    method: FusionMethod
    settings: FusionSettings
    power: float = 1.0

    @property
    def label(self) -> str:
        """The setting as a person writes it."""
        weights = f"{self.settings.lexical_weight:g}:{self.settings.vector_weight:g}"
        match self.method:
            case FusionMethod.RRF:
                return f"rrf k={self.settings.k} {weights}"
            case FusionMethod.COVERAGE_RRF:
                return f"coverage-rrf k={self.settings.k} {weights} ^{self.power:g}"
            case _:
                return f"{self.method.value} {weights}"


def fused_names(ranked: QueryRankings, candidate: Candidate) -> list[str]:
    """The names of the fused ranking, best first, as the read path would order them."""
    names: Mapping[PassageKey, str] = {
        (hit.item_id, hit.seq): hit.name for hit in (*ranked.vector, *ranked.lexical)
    }
    return [names[key] for key in _fused_keys(ranked, candidate)]


def coverage_of(ranked: QueryRankings) -> float:
    """What `service.core.fusion.query_coverage` says of the best lexical hits, from kept idf masses."""
    held = max((hit.covered for hit in ranked.lexical[:BEST_HITS]), default=0.0)
    return min(1.0, held / ranked.terms.mass) if ranked.terms.mass > 0.0 else 0.0


def _fused_keys(ranked: QueryRankings, candidate: Candidate) -> Sequence[PassageKey]:
    settings = candidate.settings
    match candidate.method:
        case FusionMethod.CONVEX:
            fused = combine_convex(
                _scored(ranked.lexical), _scored(ranked.vector), settings, ranked.terms.ceiling
            )
            return [(hit.item_id, hit.seq) for hit in fused]
        case FusionMethod.MIN_MAX:
            fused = combine_min_max(_scored(ranked.lexical), _scored(ranked.vector), settings)
            return [(hit.item_id, hit.seq) for hit in fused]
        case FusionMethod.COVERAGE_RRF:
            settings = weighted_by_coverage(settings, coverage_of(ranked), candidate.power)
    blended = blend_vector_scores(_keys(ranked.lexical), _keys(ranked.vector), settings)
    return [(hit.item_id, hit.seq) for hit in blended]


def _keys(hits: Sequence[Hit]) -> list[PassageKey]:
    return [(hit.item_id, hit.seq) for hit in hits]


def _scored(hits: Sequence[Hit]) -> list[Scored]:
    return [Scored(hit.item_id, hit.seq, hit.score) for hit in hits]
