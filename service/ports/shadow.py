"""What shadow mode keeps: comparisons of what was served with what the hybrid would have served."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from service.model import Workspace


@dataclass(frozen=True, slots=True)
class RankMove:
    """A passage whose rank differs. Ranks count from 1; None is a place outside the compared top."""

    passage_id: str
    lexical_rank: int | None
    hybrid_rank: int | None


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """One request, ranked both ways. The query itself is never kept.

    `subject` is query, system or selection. `degraded` is the reason why the vector arm did not run; then
    there is no `overlap` (a share from 0 to 1) and no move. Times are in milliseconds.
    """

    workspace: Workspace
    at: datetime
    subject: str
    query_hash: str
    lexical_ms: float
    hybrid_ms: float
    degraded: str | None
    overlap: float | None
    moves: tuple[RankMove, ...]

    @property
    def added_ms(self) -> float:
        """What the vector arm adds to the request's time."""
        return self.hybrid_ms - self.lexical_ms


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: a workspace's newest `rows`, none older than `age`; a write removes at most `batch`."""

    rows: int = 10_000
    age: timedelta = timedelta(days=30)
    batch: int = 500


class ShadowLedger(Protocol):
    """Keeps comparisons, a bounded number of them."""

    async def add(self, comparisons: Sequence[ShadowComparison], retention: Retention) -> int:
        """Store them and remove what is over the bounds, oldest first; how many were removed.

        Raises StoreUnavailable, StorageFull.
        """
        ...

    async def comparisons(
        self, workspace: Workspace | None, since: datetime, after: int, limit: int
    ) -> tuple[Sequence[ShadowComparison], int | None]:
        """A page in the order of storing, and where the next one begins (None: there is none).

        `workspace` None means all; the first page begins after 0. Raises StoreUnavailable.
        """
        ...
