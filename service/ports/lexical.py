"""The lexical arm as the read path needs it: candidates with a promise, and exact statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from service.core.scoring import TermStatistics, WeightedTerm
from service.model import ContentType, Workspace
from service.ports.store import ReadSnapshot


class CandidateSource(StrEnum):
    """Where candidates came from."""

    INDEX = "index"
    SCAN = "scan"  # every row was read, because the index was not usable


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Passage keys to be checked and scored, and what is known of all the others.

    No live passage outside `keys` has a lexical score above `ceiling`, as the pure scorer counts with the
    view's statistics. A ceiling of 0 means that every matching passage is in the pool. Where there are `bounds`,
    none outside the first n keys scores above the bound of the n-th, so that not all need to be loaded.
    """

    keys: Sequence[int]
    ceiling: float
    bounds: Sequence[float] = ()


class LexicalView(Protocol):
    """The index as it was at one sequence number."""

    @property
    def seq(self) -> int:
        """The change-log sequence the view shows."""
        ...

    @property
    def nonce(self) -> int:
        """Which history that sequence number belongs to; see `service.ports.store.LogStretch`."""
        ...

    @property
    def statistics(self) -> TermStatistics:
        """Exact counts of the workspace at `seq`, for the terms the view was asked for."""
        ...

    @property
    def source(self) -> CandidateSource:
        """Where candidates come from."""
        ...

    async def candidates(
        self, terms: Sequence[WeightedTerm], content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """At least the best `depth` candidates by the index's own reckoning, if there are so many."""
        ...


class LexicalIndex(Protocol):
    """A derived index that follows the change log."""

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """The index at `snapshot.seq` or, if it had already moved on, later. Raises LexicalIndexUnavailable."""
        ...

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """The index as it stands, at once; None where there is none to read."""
        ...

    async def catch_up(self, workspace: Workspace) -> None:
        """Apply what has been committed so far. Never raises for the index's own troubles: it repairs itself."""
        ...


class ViewLost(Exception):
    """The index turned out to be damaged while it was read; a new view will not use it."""
