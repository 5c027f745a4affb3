"""What an operator watches: requests, how reads were answered, and how far the index is behind the store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.ingest.vector_runner import VectorStatus
from service.search.request import Answer

LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
UNMATCHED: Final = "unmatched"  # the route of a path that leads nowhere: paths themselves would be unbounded
_METHODS: Final = frozenset({"GET", "POST", "PUT", "OPTIONS", "HEAD", "DELETE", "PATCH"})


@dataclass(frozen=True, slots=True)
class IndexReading:
    """One workspace's index. `lag` counts change-log entries; None where the store does not answer."""

    workspace: str
    documents: int
    rebuilds: int
    lag: int | None


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "citewell_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "citewell_http_request_seconds",
            "From the request's first byte to the answer's last.",
            ("route",),
            buckets=LATENCY_BUCKETS,
            registry=self._registry,
        )
        self.in_flight = Gauge("citewell_http_in_flight", "Requests being answered.", registry=self._registry)
        self._lexical = Counter(
            "citewell_lexical_reads",
            "Retrievals by where their lexical candidates came from.",
            ("source",),
            registry=self._registry,
        )
        self._vector = Counter(
            "citewell_vector_reads",
            "Retrievals by what became of the vector arm, and why.",
            ("state", "reason"),
            registry=self._registry,
        )
        self._indexes = _IndexCollector()
        self._registry.register(self._indexes)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def retrieved(self, answer: Answer) -> None:
        """Count a retrieval by how its arms ran."""
        self._lexical.labels(answer.lexical.source).inc()
        self._vector.labels(answer.vector.state.value, answer.vector.reason).inc()

    def page(self, indexes: Sequence[IndexReading], vectors: VectorStatus | None) -> bytes:
        """Everything in Prometheus' text format, with the indexes as they are now."""
        self._indexes.readings = tuple(indexes)
        self._indexes.vectors = vectors
        return generate_latest(self._registry)


class _IndexCollector(Collector):
    """The last readings of the indexes: they are counted elsewhere and only shown here."""

    def __init__(self) -> None:
        self.readings: tuple[IndexReading, ...] = ()
        self.vectors: VectorStatus | None = None

    def collect(self) -> Iterator[Metric]:
        """Three families with a sample a workspace, and the vector index's."""
        documents = GaugeMetricFamily(
            "citewell_index_documents", "Passages in the lexical index.", labels=["workspace"]
        )
        lag = GaugeMetricFamily(
            "citewell_index_lag_changes", "Change-log entries not yet in the index.", labels=["workspace"]
        )
        rebuilds = CounterMetricFamily(
            "citewell_index_rebuilds", "Lexical indexes built from the rows.", labels=["workspace"]
        )
        for reading in self.readings:
            documents.add_metric([reading.workspace], reading.documents)
            rebuilds.add_metric([reading.workspace], reading.rebuilds)
            if reading.lag is not None:
                lag.add_metric([reading.workspace], reading.lag)
        yield from (documents, lag, rebuilds)
        if self.vectors is not None:
            yield from _vector_families(self.vectors)


def _vector_families(status: VectorStatus) -> Iterator[Metric]:
    """How far the vector index is behind; what is unknown is left out."""
    for name, help_text, value in (
        (
            "citewell_vector_pending_changes",
            "Change-log entries not yet in the vector index.",
            status.pending,
        ),
        ("citewell_vector_lag_seconds", "Age of the oldest of them.", status.lag_seconds),
        ("citewell_vector_points", "Points in the collection that serves.", status.points),
        ("citewell_vector_parked", "Passages set aside because they could not be embedded.", status.parked),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, help_text, value=value)
