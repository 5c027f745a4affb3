"""The lexical ranking of one snapshot, exact down to the rank that is needed.

The index proposes and bounds, the rows decide, the pure scorer orders. The pool grows until the passage at
the rank needed scores above everything that was not proposed: from then on a larger pool could not change
the answer. So the ranking depends on the corpus and the request alone, not on the pool, the page or the index.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from service.core.order import rank_key
from service.core.scoring import Ranked, WeightedTerm, place_of, rank_passages, weigh_terms
from service.model import ContentType, ItemId, Workspace
from service.ports.lexical import CandidatePool, LexicalView
from service.ports.store import Candidate, ReadSnapshot
from service.search.request import ResolvedQuery

FIRST_DEPTH = 64  # candidates of the first round
GROWTH = 4  # how much deeper the index is asked once all that it proposed is loaded
MAX_DEPTH = 50_000  # candidates after which a ranking is cut off and no longer `exhaustive`
TAGGED_BOUND = 5_000  # passages of tagged items that join the pool in the first round
LOOP_BOUND = 2_000  # passages scored at once on the event loop; more are scored on a thread


Place: TypeAlias = tuple[float, ItemId, int]  # in the total order, as `rank_key` writes it


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
        self.ranked = sorted([*self.ranked, *scored], key=place_of) if self.ranked else scored

    def is_certain(self, needed: int, ceiling: float, lifted_to: Place | None = None) -> bool:
        """Whether nothing that was not scored can stand among the first `needed`.

        What was not scored has a lexical score of at most `ceiling` and no boost; or, where tagged items'
        passages were loaded only down to the place `lifted_to`, no higher boost than that place has.
        """
        if lifted_to is None and ceiling <= 0.0:
            return True
        if len(self.ranked) < needed:
            return False
        last = self.ranked[needed - 1]
        if lifted_to is None:
            return last.score > ceiling
        if ceiling <= 0.0:  # no hit was missed: what was not loaded stands in its order behind what was
            return rank_key(last.score, last.item_id, last.seq) <= lifted_to
        return last.score > ceiling - lifted_to[0]

    def first_after(self, last: Place | None) -> int:
        """The index of the first passage behind a place in the total order."""
        if last is None:
            return 0
        return bisect_right(self.ranked, last, key=lambda r: rank_key(r.score, r.item_id, r.seq))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a ranking is narrowed to."""

    workspace: Workspace
    content_type: ContentType | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How far down a ranking must be exact: to a rank, and to so many passages behind a place.

    A cursor's place may by now stand far below the rank that it had when its page was made.
    """

    rank: int
    place: Place | None = None
    behind: int = 0

    def needed(self, ranking: LexicalRanking) -> int:
        """The rank, in the ranking as far as it is known."""
        if self.place is None:
            return self.rank
        return max(self.rank, ranking.first_after(self.place) + self.behind)


async def rank_lexical(
    snapshot: ReadSnapshot, view: LexicalView, query: ResolvedQuery, scope: Scope, reach: Reach
) -> LexicalRanking:
    """Rank the snapshot's live passages, exact as far as `reach`. Raises ViewLost."""
    terms = weigh_terms(query.terms, view.statistics)
    ranking = LexicalRanking(terms, view.statistics.mean_length)
    lifted = _Lifted(snapshot, scope, query.boosts, TAGGED_BOUND)
    proposed = _Proposed(snapshot, scope, view, terms, first_depth(reach.rank), first_share(reach.rank))
    seen: set[int] = set()
    growing = True
    while growing:
        ranking.rounds += 1
        for found in (await lifted.load(), await proposed.load(seen)):
            new = [candidate for candidate in found if candidate.key not in seen]
            seen.update(candidate.key for candidate in new)
            await _add(ranking, new, query.boosts)
        needed = reach.needed(ranking)
        if ranking.is_certain(needed, proposed.ceiling, lifted.to):
            return ranking
        growing = lifted.grow() if ranking.is_certain(needed, proposed.ceiling) else proposed.grow()
    ranking.exhaustive = False
    return ranking


def first_depth(needed: int) -> int:
    """How many candidates the first round asks for."""
    return min(max(FIRST_DEPTH, 2 * needed), MAX_DEPTH)


def first_share(needed: int) -> int:
    """How many of them are loaded in the first round: most rankings are certain with so many."""
    return min(max(FIRST_DEPTH, needed + needed // 4), MAX_DEPTH)


@dataclass(slots=True)
class _Proposed:
    """What the index proposes, loaded from its best on; nothing that is not loaded has a lexical score above
    `ceiling`.
    """

    snapshot: ReadSnapshot
    scope: Scope
    view: LexicalView
    terms: tuple[WeightedTerm, ...]
    depth: int
    wanted: int  # proposals to have loaded after the next round
    ceiling: float = 0.0
    pool: CandidatePool | None = None
    loaded: int = 0  # of the pool's keys

    async def load(self, seen: AbstractSet[int]) -> Sequence[Candidate]:
        """The live ones among the next proposals that were not seen yet."""
        if not self.terms or self.loaded >= self.wanted:
            return ()
        if self.pool is None or (self.wanted > len(self.pool.keys) and self.pool.ceiling > 0.0):
            self.pool = await self.view.candidates(self.terms, self.scope.content_type, self.depth)
            self.loaded = 0
        pool = self.pool
        end = min(self.wanted, len(pool.keys)) if pool.bounds else len(pool.keys)
        new = [key for key in dict.fromkeys(pool.keys[self.loaded : end]) if key not in seen]
        self.loaded = end
        self.ceiling = pool.bounds[end - 1] if end < len(pool.keys) else pool.ceiling
        return await self.snapshot.candidates(self.scope.workspace, new, self.scope.content_type)

    def grow(self) -> bool:
        """Look deeper next time; False at the end of what is looked at."""
        at_the_end = self.pool is not None and self.loaded >= len(self.pool.keys)
        if self.loaded >= MAX_DEPTH or (self.depth >= MAX_DEPTH and at_the_end):
            return False
        self.wanted = min(self.loaded + max(self.loaded // 2, FIRST_DEPTH), MAX_DEPTH)
        if self.pool is not None and self.wanted > len(self.pool.keys):
            self.depth = min(max(self.depth * GROWTH, self.wanted), MAX_DEPTH)
        return True


@dataclass(slots=True)
class _Lifted:
    """Passages of the items that tags lift: they may have no lexical hit, so no index proposes them.

    The most lifted come first. `to` is the place of the last one loaded, None once all are.
    """

    snapshot: ReadSnapshot
    scope: Scope
    boosts: Mapping[ItemId, float]
    bound: int
    to: Place | None = None
    loaded: int = 0

    async def load(self) -> Sequence[Candidate]:
        """The passages within the bound."""
        if not self.boosts or self.loaded == self.bound:
            return ()
        most_first = sorted(self.boosts, key=lambda item_id: (-self.boosts[item_id], item_id))
        found = await self.snapshot.item_candidates(
            self.scope.workspace, most_first, self.scope.content_type, self.bound
        )
        self.to, self.loaded = None, self.bound
        if len(found) == self.bound:
            last = found[-1].passage
            self.to = rank_key(self.boosts[last.item_id], last.item_id, last.seq)
        return found

    def grow(self) -> bool:
        """Load more next time; False at the end of what is looked at."""
        more = min(self.bound * GROWTH, MAX_DEPTH)
        grown, self.bound = more > self.bound, more
        return grown


async def _add(ranking: LexicalRanking, found: Sequence[Candidate], boosts: Mapping[ItemId, float]) -> None:
    if len(found) > LOOP_BOUND:
        await asyncio.to_thread(ranking.add, found, boosts)
    else:
        ranking.add(found, boosts)
