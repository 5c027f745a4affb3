"""A query's nearest passages, asked for in rounds, and what is counted of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from service.model import ContentType, ItemId, Workspace
from service.ports.embedding import KnownCollection
from service.ports.tracing import UNTRACED, Step, Tracer
from service.ports.vectors import MAX_HITS, VectorQuery
from service.search.degradation import STORE_REASONS, ArmDegraded, Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from service.core.drill import Drill
    from service.ports.vectors import Float32Array, Hit

ROUND_GROWTH = 4
ROUNDS = 4  # until MAX_HITS is reached from the depth that is fused
FAIR_SHARE_S = 0.05  # a part that had less than this before the deadline is not blamed for missing it


@dataclass(frozen=True, slots=True)
class NamedHit:
    """A passage that the index proposes, by its best window."""

    item_id: ItemId
    seq: int
    score: float


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """What to look for, and until when (`time.monotonic()` seconds).

    `budget` is how many seconds requests have that leave it to the flag: what is slower than that is of no use to
    them, whatever this one may wait for.
    """

    text: str
    workspace: Workspace
    content_type: ContentType | None
    deadline: float
    budget: float
    drill: Drill | None = None
    tracer: Tracer = UNTRACED

    def blames(self, reason: Reason, began: float) -> bool:
        """Whether a failure says something of the part that was asked at `began`: not where it had no time left,
        and never in a drill.
        """
        if self.drill is not None:
            return False
        return not reason.is_timeout or self.deadline - began >= FAIR_SHARE_S


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """A request with its vector, (dim,) float32, and the collection that has vectors like it."""

    request: VectorRequest
    collection: KnownCollection
    vector: Float32Array

    def nearest(self, limit: int) -> VectorQuery:
        """As the index is asked for that many points."""
        return VectorQuery(self.vector, self.request.workspace, self.request.content_type, limit)


@dataclass(slots=True)
class RoundCounters:
    """What became of rounds since the start.

    `rounds` counts searches by their number within a read. `unconfirmed` are passages that the index proposed and
    the rows did not have: stale, foreign or unknown. `cut_short` are reads that went on without a further round.
    """

    rounds: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(1, ROUNDS + 1), 0))
    unconfirmed: int = 0
    cut_short: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(STORE_REASONS, 0))

    def cut(self, reason: Reason) -> None:
        """A read goes on without a further round."""
        self.cut_short[reason] = self.cut_short.get(reason, 0) + 1


class Searcher(Protocol):
    """What answers the rounds."""

    @property
    def counters(self) -> RoundCounters:
        """Where they are counted."""
        ...

    async def search(self, query: EncodedQuery, limit: int) -> Sequence[Hit]:
        """The nearest points, behind the circuit; the store is blamed for failing. Raises ArmDegraded."""
        ...

    async def search_further(self, query: EncodedQuery, limit: int) -> Sequence[Hit]:
        """The same in what is left of the request's time: a failure is nobody's fault. Raises ArmDegraded."""
        ...


class Nearest:
    """A query's distinct passages, nearest first, asked for in growing rounds.

    `hits` are those of the deepest round that came to its end; `cut_short` says why the next one did not.
    """

    def __init__(self, searcher: Searcher, query: EncodedQuery) -> None:
        self._searcher = searcher
        self._query = query
        self._limit = 0
        self.rounds = 0
        self.hits: Sequence[NamedHit] = ()
        self.exhausted = False
        self.cut_short: Reason | None = None

    async def ask(self, limit: int) -> None:
        """The first round: the nearest `limit` points. Raises ArmDegraded."""
        await self._take(self._searcher.search(self._query, limit), limit)

    async def ask_further(self) -> bool:
        """Another round, deeper; False when the index has no more, the bound is reached or it came to nothing."""
        if self.exhausted or self._limit >= MAX_HITS or self.cut_short is not None:
            return False
        limit = min(self._limit * ROUND_GROWTH, MAX_HITS)
        try:
            await self._take(self._searcher.search_further(self._query, limit), limit)
        except ArmDegraded as degraded:
            self.cut_short = degraded.reason
            self._searcher.counters.cut(degraded.reason)
            return False
        return True

    def confirmed(self, count: int) -> None:
        """So many of `hits` the rows have; the others are counted. Said once, when there are no more rounds."""
        self._searcher.counters.unconfirmed += len(self.hits) - count

    async def _take(self, search: Awaitable[Sequence[Hit]], limit: int) -> None:
        """A round. Points are counted as they came: several of one passage, or one twice, are no end."""
        self.rounds += 1
        self._searcher.counters.rounds[min(self.rounds, ROUNDS)] += 1
        with self._query.request.tracer.span(Step.VECTOR_SEARCH) as span:
            found = await search
            span.note("hits", len(found))
        self._limit = limit
        self.exhausted = len(found) < limit
        self.hits = distinct_passages(found)


def distinct_passages(hits: Sequence[Hit]) -> Sequence[NamedHit]:
    """Each passage once, by its best window; best first, equal scores by item id and seq."""
    best: dict[tuple[ItemId, int], float] = {}
    for hit in hits:
        name = (hit.key.item_id, hit.key.seq)
        best[name] = max(hit.score, best.get(name, float("-inf")))
    ordered = sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))
    return [NamedHit(item_id, seq, score) for (item_id, seq), score in ordered]
