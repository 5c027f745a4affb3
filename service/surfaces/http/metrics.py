"""What an operator watches: requests, how reads were answered, and how every part is, as Prometheus reads it."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from service.core.rollout import RolloutDecision
from service.ports.lexical import CandidateSource
from service.search.degradation import Reason
from service.search.request import Answer, ArmState
from service.surfaces.http.metric_families import Readings, families
from service.surfaces.http.shadow_metrics import RAN, ShadowMetrics

LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
UNMATCHED: Final = "unmatched"  # the route of a path that leads nowhere: paths themselves would be unbounded
_METHODS: Final = frozenset({"GET", "POST", "PUT", "OPTIONS", "HEAD", "DELETE", "PATCH"})
_NOT_ASKED: Final = frozenset({Reason.OFF, Reason.SHADOW, Reason.NOT_IN_ROLLOUT})  # the flag's own words
_TOO_MANY: Final = 429


class Metrics:
    """The metrics of one application, in a registry of their own. Whatever can be counted begins at zero."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = self._counter(
            "citewell_http_requests", "Requests answered.", "method", "route", "status"
        )
        self._seconds = Histogram(
            "citewell_http_request_seconds",
            "From the request's first byte to the answer's last.",
            ("route",),
            buckets=LATENCY_BUCKETS,
            registry=self._registry,
        )
        self.in_flight = Gauge("citewell_http_in_flight", "Requests being answered.", registry=self._registry)
        self._rate_limited = self._counter(
            "citewell_rate_limited_requests", "Requests refused because their key had used up its rate."
        )
        self._lexical = self._counter(
            "citewell_lexical_reads", "Retrievals by where their lexical candidates came from.", "source"
        )
        self._vector = self._counter(
            "citewell_vector_reads",
            "Retrievals by what became of the vector arm, and why.",
            "state",
            "reason",
        )
        self._decisions = self._counter(
            "citewell_flag_decisions", "Retrievals by what the rollout flag said.", "decision"
        )
        self.shadow = ShadowMetrics(self._registry)
        self._begin_at_zero()
        about = "1, with the version that runs."
        build = Gauge("citewell_build_info", about, ("version",), registry=self._registry)
        build.labels(version("citewell")).set(1)
        ProcessCollector(registry=self._registry)
        self._parts = _PartsCollector()
        self._registry.register(self._parts)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if status == _TOO_MANY:
            self._rate_limited.inc()

    def retrieved(self, answer: Answer) -> None:
        """Count a retrieval by how its arms ran."""
        self._lexical.labels(answer.lexical.source).inc()
        self._vector.labels(answer.vector.state.value, answer.vector.reason).inc()
        self._decisions.labels(_decision(answer)).inc()

    def page(self, readings: Readings) -> bytes:
        """Everything in Prometheus' text format, with the parts as they are now."""
        self._parts.readings = readings
        return generate_latest(self._registry)

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self._registry)

    def _begin_at_zero(self) -> None:
        """A rate needs two points: a reason that first shows up with 1 would show no rate at all."""
        for source in CandidateSource:
            self._lexical.labels(source.value)
        for state, reason in vector_outcomes():
            self._vector.labels(state, reason)
        for decision in RolloutDecision:
            self._decisions.labels(decision.value)


def vector_outcomes() -> Iterator[tuple[str, str]]:
    """Every state of the vector arm with every reason that it can have."""
    yield ArmState.RAN.value, RAN
    for reason in Reason:
        state = ArmState.OFF if reason in _NOT_ASKED else ArmState.DEGRADED
        yield state.value, reason.value


def _decision(answer: Answer) -> str:
    """What the flag said: an arm that is off gives the flag's word as its reason."""
    return answer.vector.reason if answer.vector.state is ArmState.OFF else RolloutDecision.RUN.value


class _PartsCollector(Collector):
    """The last readings of the parts: they count for themselves and are only shown here."""

    def __init__(self) -> None:
        self.readings: Readings | None = None

    def collect(self) -> Iterator[Metric]:
        """Nothing before the first page is asked for."""
        if self.readings is not None:
            yield from families(self.readings)
