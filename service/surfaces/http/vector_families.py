"""How far vectors are and how their workers are, as families of samples. What is unknown is left out."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import GaugeMetricFamily, Metric

from service.ingest.vector_status import VectorStatus
from service.ports.vector_reports import SeenWorker, VectorFault, WorkerDuty


class WorkerHealth(StrEnum):
    """How a worker is, as a label: one of them each."""

    WORKING = "working"
    STANDBY = "standby"
    IDLE = "idle"  # without its model, or beside another model's collection
    FAILING = "failing"
    LOST = "lost"


def status_families(status: VectorStatus) -> Iterator[Metric]:
    """Figures of the collection that serves, wherever the worker is."""
    compared_at = None if status.compared_at is None else status.compared_at.timestamp()
    for name, help_text, value in (
        (
            "citewell_vector_pending_changes",
            "Change-log entries not yet in the vector index.",
            status.pending,
        ),
        ("citewell_vector_lag_seconds", "Age of the oldest of them.", status.lag_seconds),
        ("citewell_vector_points", "Points in the collection that serves.", status.points),
        ("citewell_vector_parked", "Passages set aside because they could not be embedded.", status.parked),
        (
            "citewell_vector_missing",
            "Passages without all their points, at the last comparison of ids, whoever made it.",
            status.missing,
        ),
        ("citewell_vector_orphan", "Points without a passage, at the last comparison.", status.orphan),
        (
            "citewell_vector_compared_timestamp_seconds",
            "When that comparison began, in seconds since 1970.",
            compared_at,
        ),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, help_text, value=value)
    yield _workers(status)
    yield _faults(status)


def health_of(worker: SeenWorker) -> WorkerHealth:
    """How a worker is; silence says more than its last word."""
    if worker.is_lost:
        return WorkerHealth.LOST
    if worker.is_failing:
        return WorkerHealth.FAILING
    if worker.duty in (WorkerDuty.WORKING, WorkerDuty.STANDBY):
        return WorkerHealth(worker.duty.value)
    return WorkerHealth.IDLE


def _workers(status: VectorStatus) -> Metric:
    family = GaugeMetricFamily(
        "citewell_vector_workers",
        "Vector workers of every process that reported within a day, by how they are.",
        labels=["health"],
    )
    counts = Counter(health_of(worker) for worker in status.workers)
    for health in WorkerHealth:
        family.add_metric([health.value], counts[health])
    return family


def _faults(status: VectorStatus) -> Metric:
    family = GaugeMetricFamily(
        "citewell_vector_fault",
        "1 for the part that keeps vectors from following the rows; all are 0 while they follow.",
        labels=["part"],
    )
    for fault in VectorFault:
        family.add_metric([fault.value], int(status.fault is fault))
    return family
