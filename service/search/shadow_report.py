"""What the vector arm would have changed, over everything that shadow mode has kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from statistics import fmean, median

from service.model import Workspace
from service.ports.shadow import ShadowComparison, ShadowLedger
from service.search.rank_moves import MoveKind, kind_of

PAGE = 500  # comparisons read at a time, so that nothing else has to wait for a long report


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds; percentiles by nearest rank."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """A workspace's comparisons since a moment (`workspace` None: of all workspaces).

    `requests` splits into `compared` and, by reason, `degraded`. Everything else is of the compared ones and
    None where there are none: overlaps are shares of the top 8 from 0 to 1, `identical` the share of requests
    whose top 8 is the same in the same order, `moves` counts passages, latencies are in milliseconds and
    `added` is hybrid less lexical.
    """

    workspace: Workspace | None
    since: datetime
    requests: int
    compared: int
    mean_overlap: float | None
    median_overlap: float | None
    identical: float | None
    moves: Mapping[MoveKind, int]
    lexical: Latency | None
    hybrid: Latency | None
    added: Latency | None
    degraded: Mapping[str, int]
    subjects: Mapping[str, int]


@dataclass(slots=True)
class _Tally:
    """What has been read so far."""

    overlaps: list[float] = field(default_factory=list)
    identical: int = 0
    moves: Counter[MoveKind] = field(default_factory=Counter)
    lexical: list[float] = field(default_factory=list)
    hybrid: list[float] = field(default_factory=list)
    added: list[float] = field(default_factory=list)
    degraded: Counter[str] = field(default_factory=Counter)
    subjects: Counter[str] = field(default_factory=Counter)

    def add(self, comparison: ShadowComparison) -> None:
        """Count one in."""
        self.subjects[comparison.subject] += 1
        if comparison.overlap is None:
            self.degraded[comparison.degraded or "unknown"] += 1
            return
        self.overlaps.append(comparison.overlap)
        self.identical += not comparison.moves
        self.moves.update(kind_of(move) for move in comparison.moves)
        self.lexical.append(comparison.lexical_ms)
        self.hybrid.append(comparison.hybrid_ms)
        self.added.append(comparison.added_ms)


async def shadow_report(ledger: ShadowLedger, workspace: Workspace | None, since: datetime) -> ShadowReport:
    """The report on what is kept. Raises StoreUnavailable."""
    tally = _Tally()
    after: int | None = 0
    while after is not None:
        page, after = await ledger.comparisons(workspace, since, after, PAGE)
        for comparison in page:
            tally.add(comparison)
    compared = len(tally.overlaps)
    return ShadowReport(
        workspace=workspace,
        since=since,
        requests=tally.subjects.total(),
        compared=compared,
        mean_overlap=fmean(tally.overlaps) if compared else None,
        median_overlap=median(tally.overlaps) if compared else None,
        identical=tally.identical / compared if compared else None,
        moves={kind: tally.moves[kind] for kind in MoveKind},
        lexical=_latency(tally.lexical),
        hybrid=_latency(tally.hybrid),
        added=_latency(tally.added),
        degraded=dict(tally.degraded.most_common()),
        subjects=dict(sorted(tally.subjects.items())),
    )


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed. Not empty, sorted upwards."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _latency(values: Sequence[float]) -> Latency | None:
    if not values:
        return None
    ordered = sorted(values)
    return Latency(nearest_rank(ordered, 0.5), nearest_rank(ordered, 0.95))
