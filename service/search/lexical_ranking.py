"""The lexical ranking of one snapshot, exact down to the rank that is needed.

The index proposes and bounds, the rows decide, the pure scorer orders. The pool grows until the passage at
the rank needed scores above everything that was not proposed: from then on a larger pool could not change
the answer. So the ranking depends on the corpus and the request alone, not on the pool, the page or the index.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.core.order import rank_key
from service.core.scoring import Ranked, WeightedTerm, rank_passages, weigh_terms
from service.model import ContentType, ItemId, Workspace
from service.ports.lexical import LexicalView
from service.ports.store import Candidate, ReadSnapshot
from service.search.request import ResolvedQuery

FIRST_DEPTH = 64  # candidates of the first round
GROWTH = 4  # how much deeper each further round looks
MAX_DEPTH = 50_000  # candidates after which a ranking is cut off and says so
TAGGED_BOUND = 5_000  # passages of tagged items that join the pool
LOOP_BOUND = 2_000  # passages scored at once on the event loop; more are scored on a thread


@dataclass(slots=True)
class LexicalRanking:
    """Scored live passages, best first; complete and exact at least to the rank that was asked for."""

    terms: tuple[WeightedTerm, ...]
    mean_length: float
    ranked: list[Ranked] = field(default_factory=list)
    candidates: dict[tuple[ItemId, int], Candidate] = field(default_factory=dict)
    rounds: int = 0
    exhaustive: bool = True  # False when MAX_DEPTH cut the pool off before the order was certain

    def add(self, found: Sequence[Candidate], boosts: Mapping[ItemId, float]) -> None:
        """Score candidates that were not scored yet and put them in their places."""
        scored = rank_passages([c.passage for c in found], self.terms, self.mean_length, boosts)
        self.candidates.update({(c.passage.item_id, c.passage.seq): c for c in found})
        self.ranked = sorted([*self.ranked, *scored], key=lambda r: rank_key(r.score, r.item_id, r.seq))

    def is_certain(self, needed: int, ceiling: float) -> bool:
        """Whether no passage outside the pool can stand among the first `needed`."""
        if ceiling <= 0.0:
            return True
        return len(self.ranked) >= needed and self.ranked[needed - 1].score > ceiling

    def first_after(self, last: tuple[float, ItemId, int] | None) -> int:
        """The index of the first passage behind a place in the total order."""
        if last is None:
            return 0
        return bisect_right(self.ranked, last, key=lambda r: rank_key(r.score, r.item_id, r.seq))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a ranking is narrowed to."""

    workspace: Workspace
    content_type: ContentType | None


async def rank_lexical(
    snapshot: ReadSnapshot, view: LexicalView, query: ResolvedQuery, scope: Scope, needed: int
) -> LexicalRanking:
    """Rank the snapshot's live passages, exact down to rank `needed`. Raises ViewLost."""
    terms = weigh_terms(query.terms, view.statistics)
    ranking = LexicalRanking(terms, view.statistics.mean_length)
    seen: set[int] = set()
    if query.boosts:
        tagged = await _tagged_candidates(snapshot, query.boosts, scope)
        seen.update(candidate.key for candidate in tagged)
        await _add(ranking, tagged, query.boosts)
    depth = first_depth(needed)
    while terms:
        ranking.rounds += 1
        pool = await view.candidates(terms, scope.content_type, depth)
        new = [key for key in pool.keys if key not in seen]
        seen.update(new)
        await _add(ranking, await snapshot.candidates(scope.workspace, new, scope.content_type), query.boosts)
        if ranking.is_certain(needed, pool.ceiling):
            break
        if depth >= MAX_DEPTH:
            ranking.exhaustive = False
            break
        depth = min(depth * GROWTH, MAX_DEPTH)
    return ranking


def first_depth(needed: int) -> int:
    """How many candidates the first round asks for."""
    return max(FIRST_DEPTH, 2 * needed)


async def _tagged_candidates(
    snapshot: ReadSnapshot, boosts: Mapping[ItemId, float], scope: Scope
) -> Sequence[Candidate]:
    """The passages of items that tags lift: they may have no lexical hit, so no index proposes them."""
    most_first = sorted(boosts, key=lambda item_id: (-boosts[item_id], item_id))
    return await snapshot.item_candidates(scope.workspace, most_first, scope.content_type, TAGGED_BOUND)


async def _add(ranking: LexicalRanking, found: Sequence[Candidate], boosts: Mapping[ItemId, float]) -> None:
    if len(found) > LOOP_BOUND:
        await asyncio.to_thread(ranking.add, found, boosts)
    else:
        ranking.add(found, boosts)
