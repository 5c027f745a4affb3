"""Fusing the arms: the vector arm's candidates are checked against the rows like any others, then blended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.core.fusion import (
    Fused,
    FusionMethod,
    FusionSettings,
    Scored,
    blend_vector_scores,
    combine_convex,
    contribution,
    query_coverage,
    score_ceiling,
    weighted_by_coverage,
)
from service.core.fusion import (
    PassageKey as PassageName,
)
from service.core.order import rank_key
from service.core.scoring import Ranked
from service.ports.store import PassageKey, ReadSnapshot
from service.search.degradation import ArmDegraded, Reason
from service.search.lexical_ranking import LexicalRanking, Scope
from service.search.nearest import NamedHit, Nearest

FUSION_DEPTH = 200  # passages of each arm that are fused, whatever page is asked for
COVERAGE_HITS = 8  # best lexical passages whose words say how well the lexical arm understood the query


@dataclass(frozen=True, slots=True)
class HybridRanking:
    """A fused ranking with what explains it. `keys` holds every passage that the vector arm ranked.

    `settings` are those that this query was fused with: its lexical weight may follow the query.
    """

    ranked: Sequence[Ranked]
    fused: Mapping[PassageName, Fused]
    vector_scores: Mapping[PassageName, float]
    lexical_scores: Mapping[PassageName, float]
    keys: Mapping[PassageName, PassageKey]
    settings: FusionSettings
    ceiling: float
    name: str  # of the settings it was asked for with: a cursor holds for these only

    def fusion_of(self, key: PassageName) -> dict[str, float]:
        """The settings and each arm's contribution to a passage; they sum to its score."""
        fused, settings = self.fused[key], self.settings
        if settings.method is FusionMethod.CONVEX:
            share = self.lexical_scores.get(key, 0.0) / self.ceiling if self.ceiling > 0.0 else 0.0
            lexical = settings.lexical_weight * share
            vector = fused.score - lexical
        else:
            lexical = contribution(fused.lexical_rank, settings.lexical_weight, settings.k)
            vector = contribution(fused.vector_rank, settings.vector_weight, settings.k)
        return {
            "k": settings.k,
            "lexical_weight": settings.lexical_weight,
            "vector_weight": settings.vector_weight,
            "lexical_contribution": lexical,
            "vector_contribution": vector,
        }


async def fuse(
    snapshot: ReadSnapshot, lexical: LexicalRanking, nearest: Nearest, scope: Scope, settings: FusionSettings
) -> HybridRanking:
    """Blend the lexical ranking with the live ones among the nearest passages. Raises ArmDegraded."""
    live, keys = await _live_hits(snapshot, lexical, nearest, scope)
    top = lexical.ranked[:FUSION_DEPTH]
    name = settings_name(settings)
    if settings.method is FusionMethod.COVERAGE_RRF:
        best = [lexical.candidates[r.item_id, r.seq].passage for r in top[:COVERAGE_HITS]]
        settings = weighted_by_coverage(settings, query_coverage(best, lexical.terms), settings.power)
    ceiling = score_ceiling(lexical.terms)
    fused = _blended(top, live, settings, ceiling)
    return HybridRanking(
        ranked=[Ranked(passage.item_id, passage.seq, passage.score) for passage in fused],
        fused={(passage.item_id, passage.seq): passage for passage in fused},
        vector_scores={(hit.item_id, hit.seq): hit.score for hit in live},
        lexical_scores={(r.item_id, r.seq): r.score for r in top},
        keys=keys,
        settings=settings,
        ceiling=ceiling,
        name=name,
    )


def settings_name(settings: FusionSettings) -> str:
    """Fusion settings in one word."""
    weights = f"{settings.lexical_weight:g}-{settings.vector_weight:g}"
    return f"{settings.method.value}-{settings.k}-{weights}-{settings.power:g}"


def _blended(
    top: Sequence[Ranked], live: Sequence[NamedHit], settings: FusionSettings, ceiling: float
) -> list[Fused]:
    by_rank = blend_vector_scores(
        [(ranked.item_id, ranked.seq) for ranked in top], [(hit.item_id, hit.seq) for hit in live], settings
    )
    if settings.method is not FusionMethod.CONVEX:
        return by_rank
    lexical = [Scored(ranked.item_id, ranked.seq, ranked.score) for ranked in top]
    vector = [Scored(hit.item_id, hit.seq, hit.score) for hit in live]
    combined = {(c.item_id, c.seq): c.score for c in combine_convex(lexical, vector, settings, ceiling)}
    scored = [replace(passage, score=combined[passage.item_id, passage.seq]) for passage in by_rank]
    positive = [passage for passage in scored if passage.score > 0.0]
    return sorted(positive, key=lambda passage: rank_key(passage.score, passage.item_id, passage.seq))


async def _live_hits(
    snapshot: ReadSnapshot, lexical: LexicalRanking, nearest: Nearest, scope: Scope
) -> tuple[list[NamedHit], dict[PassageName, PassageKey]]:
    """The first FUSION_DEPTH hits that the rows confirm; the index is asked further while there are fewer.

    A further round that fails or has no time left is done without, unless there would be no hit at all. Passages
    that the lexical arm has loaded are known to be live, whatever rank they have there. Raises ArmDegraded.
    """
    if not nearest.hits:
        raise ArmDegraded(Reason.NO_VECTORS)
    keys = {name: candidate.key for name, candidate in lexical.candidates.items()}
    asked: set[PassageName] = set(keys)
    while True:
        new = [(hit.item_id, hit.seq) for hit in nearest.hits if (hit.item_id, hit.seq) not in asked]
        asked.update(new)
        keys.update(await snapshot.named_keys(scope.workspace, new, scope.content_type))
        live = [hit for hit in nearest.hits if (hit.item_id, hit.seq) in keys]
        if len(live) >= FUSION_DEPTH or not await nearest.ask_further():
            break
    nearest.confirmed(len(live))
    if not live and nearest.cut_short is not None:
        raise ArmDegraded(nearest.cut_short)
    return live[:FUSION_DEPTH], keys
