"""The parts' own figures as families of samples. What is unknown is left out, never shown as zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from service.adapters.flags.evaluated import FlagCounters
from service.adapters.tracing.timed import BOUNDS, StepReading
from service.ingest.vector_status import VectorStatus
from service.ingest.vectors import WorkerCounters
from service.search.nearest import RoundCounters
from service.search.shadow import ShadowCounters
from service.search.vector_arm import ArmBreakers
from service.surfaces.http.queue import Work
from service.surfaces.http.vector_families import status_families

if TYPE_CHECKING:  # it comes with the optional embeddings dependencies
    from embeddings.encoder_state import EncoderReading

SHOWN_WORKSPACES: Final = 200  # that get samples of their own; `citewell_index_workspaces` counts them all


@dataclass(frozen=True, slots=True)
class IndexReading:
    """One workspace's index. `lag` counts change-log entries; None where the store does not answer."""

    workspace: str
    documents: int
    rebuilds: int
    lag: int | None


class QueueReading(Protocol):
    """What the gate says of itself."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """Requests that it answered itself, by reason."""
        ...

    def lanes(self) -> Mapping[Work, tuple[int, int]]:
        """Requests that are worked on and requests that wait, for each kind of work."""
        ...


@dataclass(frozen=True, slots=True)
class VectorReadings:
    """The vector side. Each is None where this process does not have it."""

    status: VectorStatus | None
    worker: WorkerCounters | None
    encoder: EncoderReading | None
    breakers: ArmBreakers
    rounds: RoundCounters = field(default_factory=RoundCounters)


@dataclass(frozen=True, slots=True)
class Readings:
    """Every part at one moment."""

    indexes: Sequence[IndexReading]
    vectors: VectorReadings
    steps: Sequence[StepReading]
    flag: FlagCounters
    shadow: ShadowCounters
    queue: QueueReading | None


def families(readings: Readings) -> Iterator[Metric]:
    """Every family, in the order of the documentation."""
    yield _step_family(readings.steps)
    yield from _index_families(readings.indexes)
    yield from _vector_families(readings.vectors)
    yield _by_label(
        "citewell_flag_questions",
        "Questions to the flag's holder, by what became of them.",
        "outcome",
        _counts(readings.flag),
    )
    yield _by_label(
        "citewell_shadow_comparisons",
        "Comparisons of shadow mode, by what became of them.",
        "outcome",
        _counts(readings.shadow),
    )
    if readings.queue is not None:
        yield from _queue_families(readings.queue)


def _step_family(steps: Sequence[StepReading]) -> Metric:
    family = HistogramMetricFamily(
        "citewell_step_seconds", "How long the steps of reads and writes took.", labels=["step"]
    )
    for step in steps:
        buckets, total = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), step.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric([step.step.value], buckets, step.seconds)
    return family


def _index_families(indexes: Sequence[IndexReading]) -> Iterator[Metric]:
    """Workspaces are those that have an index in this process: none that a request merely named."""
    label = ["workspace"]
    documents = GaugeMetricFamily("citewell_index_documents", "Passages in the lexical index.", labels=label)
    lag = GaugeMetricFamily(
        "citewell_index_lag_changes", "Change-log entries not yet in the index.", labels=label
    )
    rebuilds = CounterMetricFamily(
        "citewell_index_rebuilds", "Lexical indexes built from the rows.", labels=label
    )
    for reading in indexes[:SHOWN_WORKSPACES]:
        documents.add_metric([reading.workspace], reading.documents)
        rebuilds.add_metric([reading.workspace], reading.rebuilds)
        if reading.lag is not None:
            lag.add_metric([reading.workspace], reading.lag)
    count = "Workspaces with an index in this process."
    yield from (documents, lag, rebuilds)
    yield GaugeMetricFamily("citewell_index_workspaces", count, value=len(indexes))


def _vector_families(readings: VectorReadings) -> Iterator[Metric]:
    breakers = GaugeMetricFamily(
        "citewell_breaker_open",
        "1 while calls are not even tried, but for a probe.",
        labels=["guards"],
    )
    breakers.add_metric(["store"], int(readings.breakers.store.is_open))
    breakers.add_metric(["encoder"], int(readings.breakers.encoder.is_open))
    yield breakers
    yield from _round_families(readings.rounds)
    if readings.status is not None:
        yield from status_families(readings.status)
    if readings.worker is not None:
        done = "Passages of the vector worker, by what was done."
        yield _by_label("citewell_vector_worker_passages", done, "done", _counts(readings.worker))
    if readings.encoder is not None:
        cache = {"hit": readings.encoder.cache_hits, "miss": readings.encoder.cache_misses}
        help_text = "Query vectors looked up in the cache."
        yield _by_label("citewell_query_vector_lookups", help_text, "outcome", cache)
        waiting = "Queries that wait for the encoder."
        yield GaugeMetricFamily("citewell_encoder_waiting", waiting, value=readings.encoder.waiting)


def _round_families(rounds: RoundCounters) -> Iterator[Metric]:
    yield _by_label(
        "citewell_vector_rounds",
        "Searches of the vector index, by their number within a read: a further one goes deeper.",
        "round",
        {str(number): count for number, count in rounds.rounds.items()},
    )
    yield CounterMetricFamily(
        "citewell_vector_unconfirmed_passages",
        "Passages that the vector index proposed and the rows did not have: stale, foreign or unknown.",
        value=rounds.unconfirmed,
    )
    yield _by_label(
        "citewell_vector_cut_short",
        "Reads that were fused without a further round, by why it came to nothing.",
        "reason",
        {reason.value: count for reason, count in rounds.cut_short.items()},
    )


def _queue_families(queue: QueueReading) -> Iterator[Metric]:
    working = GaugeMetricFamily("citewell_queue_working", "Requests that are worked on.", labels=["work"])
    waiting = GaugeMetricFamily(
        "citewell_queue_waiting", "Requests that wait for their turn.", labels=["work"]
    )
    for work, (now, later) in queue.lanes().items():
        working.add_metric([work.value], now)
        waiting.add_metric([work.value], later)
    yield from (working, waiting)
    yield _by_label(
        "citewell_queue_rejected",
        "Requests that were not worked on to their end, by reason.",
        "reason",
        queue.rejected,
    )


def _counts(counters: FlagCounters | ShadowCounters | WorkerCounters) -> dict[str, int]:
    return {field.name: getattr(counters, field.name) for field in fields(counters)}


def _by_label(name: str, documentation: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
