"""Fusing the arms: the vector arm's candidates are checked against the rows like any others, then blended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.core.fusion import Fused, FusionSettings, PassageKey, blend_vector_scores, contribution
from service.core.scoring import Ranked
from service.ports.store import Candidate, ReadSnapshot
from service.search.lexical_ranking import LexicalRanking, Scope
from service.search.vector_arm import ArmDegraded, NamedHit, Nearest, Reason

FUSION_DEPTH = 200  # passages of each arm that are fused, whatever page is asked for


@dataclass(frozen=True, slots=True)
class HybridRanking:
    """A fused ranking with what explains it. `candidates` holds every ranked passage."""

    ranked: Sequence[Ranked]
    fused: Mapping[PassageKey, Fused]
    vector_scores: Mapping[PassageKey, float]
    lexical_scores: Mapping[PassageKey, float]
    candidates: Mapping[PassageKey, Candidate]
    settings: FusionSettings

    def fusion_of(self, key: PassageKey) -> dict[str, float]:
        """The settings and each arm's contribution to a passage."""
        fused, settings = self.fused[key], self.settings
        return {
            "k": settings.k,
            "lexical_weight": settings.lexical_weight,
            "vector_weight": settings.vector_weight,
            "lexical_contribution": contribution(fused.lexical_rank, settings.lexical_weight, settings.k),
            "vector_contribution": contribution(fused.vector_rank, settings.vector_weight, settings.k),
        }


async def fuse(
    snapshot: ReadSnapshot, lexical: LexicalRanking, nearest: Nearest, scope: Scope, settings: FusionSettings
) -> HybridRanking:
    """Blend the lexical ranking with the live ones among the nearest passages. Raises ArmDegraded."""
    live, candidates = await _live_hits(snapshot, lexical, nearest, scope)
    top = [(ranked.item_id, ranked.seq) for ranked in lexical.ranked[:FUSION_DEPTH]]
    fused = blend_vector_scores(top, [(hit.item_id, hit.seq) for hit in live], settings)
    return HybridRanking(
        ranked=[Ranked(passage.item_id, passage.seq, passage.score) for passage in fused],
        fused={(passage.item_id, passage.seq): passage for passage in fused},
        vector_scores={(hit.item_id, hit.seq): hit.score for hit in live},
        lexical_scores={(r.item_id, r.seq): r.score for r in lexical.ranked[:FUSION_DEPTH]},
        candidates=candidates,
        settings=settings,
    )


async def _live_hits(
    snapshot: ReadSnapshot, lexical: LexicalRanking, nearest: Nearest, scope: Scope
) -> tuple[list[NamedHit], dict[PassageKey, Candidate]]:
    """The first FUSION_DEPTH hits that the rows confirm; the index is asked further while there are fewer."""
    if not nearest.hits:
        raise ArmDegraded(Reason.NO_VECTORS)
    candidates = dict(lexical.candidates)
    asked: set[PassageKey] = set(candidates)
    while True:
        new = [(hit.item_id, hit.seq) for hit in nearest.hits if (hit.item_id, hit.seq) not in asked]
        asked.update(new)
        if new:
            found = await snapshot.named_candidates(scope.workspace, new, scope.content_type)
            candidates.update({(c.passage.item_id, c.passage.seq): c for c in found})
        live = [hit for hit in nearest.hits if (hit.item_id, hit.seq) in candidates]
        if len(live) >= FUSION_DEPTH or not await nearest.ask_further():
            return live[:FUSION_DEPTH], candidates
