"""A usable index of one workspace: the engine, its counts, and how far in which history they are."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from service.adapters.lexical.engine import Engine, EngineSearcher
from service.adapters.lexical.folder import Checkpoint
from service.adapters.lexical.statistics import Counts
from service.core.scoring import TermStatistics


@dataclass(slots=True, eq=False)
class Generation:
    """`leaving` are stale passages, each batch with the time from which it may be removed."""

    path: Path
    engine: Engine
    searcher: EngineSearcher
    counts: Counts
    applied: int
    nonce: int  # which history `applied` belongs to
    replay_until: int  # entries up to here may be in the index already
    leaving: deque[tuple[float, tuple[int, ...]]] = field(default_factory=deque)
    saved: bool = True
    wrote_at: float = float("-inf")  # `time.monotonic()`

    def leaving_keys(self) -> tuple[int, ...]:
        """Every stale passage that is still in the index."""
        return tuple(key for _, keys in self.leaving for key in keys)

    def checkpoint(self) -> Checkpoint:
        """What to remember of it, untouched by later changes."""
        return Checkpoint(self.applied, self.nonce, self.counts.copy(), self.leaving_keys())

    def capture(self, terms: Sequence[str]) -> "Capture":
        """The index as it stands."""
        return Capture(self.applied, self.nonce, self.searcher, self.counts.statistics(terms), self)


@dataclass(frozen=True, slots=True)
class Capture:
    """The searcher and the statistics of one sequence number, and the index that they are of.

    A searcher stays usable when its index is closed, merged or removed meanwhile: it holds the files open.
    """

    seq: int
    nonce: int
    searcher: EngineSearcher
    statistics: TermStatistics
    generation: Generation
