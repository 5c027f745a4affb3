"""What shadow mode sees, as Prometheus reads it: how far the vector arm would have changed answers, and the cost.

Every label comes from a closed list: neither queries, passages nor workspaces are among them.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.ports.shadow import RankMove, ShadowComparison
from service.search.degradation import Reason
from service.search.rank_moves import CUTOFF, MoveKind, kind_of

RAN: Final = "ran"
OVERLAP_BUCKETS: Final = tuple(share / CUTOFF for share in range(CUTOFF + 1))
PLACE_BUCKETS: Final = tuple(float(places) for places in range(1, CUTOFF + 1))
ADDED_BUCKETS: Final = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DIRECTIONS: Final = {
    MoveKind.ENTERED: "entered",
    MoveKind.UP_FAR: "up",
    MoveKind.UP: "up",
    MoveKind.DOWN: "down",
    MoveKind.DOWN_FAR: "down",
    MoveKind.LEFT: "left",
}
_BY_FLAG: Final = frozenset({Reason.OFF, Reason.SHADOW, Reason.NOT_IN_ROLLOUT})  # the flag is not asked again


class ShadowMetrics:
    """Histograms and a counter of comparisons; each begins at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._overlap = Histogram(
            "citewell_shadow_overlap_ratio",
            f"Share of the top {CUTOFF} that the lexical and the hybrid answer have in common.",
            buckets=OVERLAP_BUCKETS,
            registry=registry,
        )
        self._moves = Histogram(
            "citewell_shadow_rank_move_places",
            f"Places by which a passage of the top {CUTOFF} would have moved; beyond the top counts as its end.",
            ("direction",),
            buckets=PLACE_BUCKETS,
            registry=registry,
        )
        self._added = Histogram(
            "citewell_shadow_added_seconds",
            "Time that the vector arm added to a request; one that was no slower added none.",
            buckets=ADDED_BUCKETS,
            registry=registry,
        )
        self._reasons = Counter(
            "citewell_shadow_reasons",
            "Comparisons by what became of the vector arm.",
            ("reason",),
            registry=registry,
        )
        for direction in _DIRECTIONS.values():
            self._moves.labels(direction)
        for reason in (RAN, *(reason.value for reason in Reason if reason not in _BY_FLAG)):
            self._reasons.labels(reason)

    def observe(self, comparison: ShadowComparison) -> None:
        """Count a comparison in; one whose vector arm did not run counts by its reason alone."""
        self._reasons.labels(RAN if comparison.degraded is None else comparison.degraded).inc()
        if comparison.overlap is None:
            return
        self._overlap.observe(comparison.overlap)
        self._added.observe(max(0.0, comparison.added_ms) / 1_000)
        for move in comparison.moves:
            self._moves.labels(_DIRECTIONS[kind_of(move)]).observe(_places(move))


def _places(move: RankMove) -> int:
    """At least how many places a passage moved: behind the top all are at one place."""
    behind = CUTOFF + 1
    return abs((move.lexical_rank or behind) - (move.hybrid_rank or behind))
