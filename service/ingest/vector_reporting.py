"""Telling the other processes how a worker is and what its last comparison found, and reading what they told.

It runs beside the worker and touches nothing of its work: a worker that encodes for minutes is heard of, and
a database that takes no reports costs the reports.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from service.errors import CitewellError
from service.ingest.reconcile import Comparison
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import StepOutcome
from service.ports.embedding import EncoderState
from service.ports.vector_reports import (
    NotedComparison,
    SeenWorker,
    VectorFault,
    VectorReports,
    WorkerDuty,
    WorkerReport,
)

HEARTBEAT_S = 20.0  # a worker is lost after LOST_S: it may miss three
LOOK_S = 1.0  # how soon a change is told

_DUTIES: dict[StepOutcome | None, WorkerDuty] = {
    None: WorkerDuty.STARTING,
    StepOutcome.NO_MODEL: WorkerDuty.NO_MODEL,
    StepOutcome.OTHER_MODEL: WorkerDuty.OTHER_MODEL,
    StepOutcome.OTHER_WORKER: WorkerDuty.STANDBY,
}


def this_place() -> str:
    """What tells a process from all others that share its database: host and number."""
    return f"{socket.gethostname()}:{os.getpid()}"


def noted(comparison: Comparison) -> NotedComparison:
    """A comparison that this process made."""
    return NotedComparison(
        comparison.collection, comparison.at, comparison.missing, comparison.orphan, this_place()
    )


@dataclass(slots=True)
class Reporter:
    """Tells of one runner: at once when something changes, and now and then that it is still there."""

    runner: VectorRunner
    reports: VectorReports
    look: float = LOOK_S
    heartbeat: float = HEARTBEAT_S
    _told: WorkerReport | None = None
    _told_at: float = field(default=float("-inf"))
    _noted: Comparison | None = None

    async def run(self) -> None:
        """Until cancelled. What cannot be told now is told later."""
        while True:
            with suppress(CitewellError):
                await self.turn()
            await asyncio.sleep(self.look)

    async def turn(self) -> None:
        """Tell what there is to tell. Raises StoreUnavailable, StorageFull."""
        comparison = self.runner.comparison
        if comparison is not None and comparison is not self._noted:
            await self.reports.note_comparison(noted(comparison))
            self._noted = comparison
        report = report_of(self.runner)
        if report != self._told or time.monotonic() - self._told_at >= self.heartbeat:
            await self.reports.report(report)
            self._told, self._told_at = report, time.monotonic()


@asynccontextmanager
async def reporting(runner: VectorRunner, reports: VectorReports) -> AsyncIterator[None]:
    """Tell of a runner for as long as the block lasts. A block that ends in order leaves no lost worker."""
    reporter = Reporter(runner, reports)
    task = asyncio.create_task(reporter.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        with suppress(CitewellError):
            await reporter.turn()
            await reports.withdraw(runner.worker.owner)


def report_of(runner: VectorRunner) -> WorkerReport:
    """How a runner is now. One whose model cannot be had is not well, although it raises nothing."""
    encoder = runner.worker.encoder
    fault, failure = runner.fault, runner.failure
    if fault is None and encoder.state is EncoderState.FAILED:
        fault, failure = VectorFault.ENCODER, encoder.failure
    return WorkerReport(
        owner=runner.worker.owner,
        place=this_place(),
        model=runner.worker.model,
        duty=_DUTIES.get(runner.outcome, WorkerDuty.WORKING),
        fault=fault,
        failure=failure,
    )


def reported_faults(workers: Sequence[SeenWorker]) -> tuple[VectorFault | None, str | None]:
    """What is wrong with the workers of other processes, and what was said of it; nothing where all is well.

    One that stands by does no harm. Where none was ever heard of, or all have ended in order, nothing is
    known: then `pending` tells.
    """
    heard = [one for one in workers if not one.is_lost]
    failing = next((one for one in heard if one.is_failing and one.duty is not WorkerDuty.STANDBY), None)
    if failing is not None:
        return failing.fault, failing.failure
    if workers and not heard:
        last = workers[0]
        return (
            VectorFault.WORKER_LOST,
            f"the worker {last.place} was heard of {last.silent_seconds:.0f} s ago for the last time",
        )
    return None, None
