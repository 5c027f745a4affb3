"""The worker's loop: step while there is work, rest while there is none, back off while something is down.

Once it has caught up, rows and points are compared now and then, and repaired when they differ.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from service.ingest.lease import LeaseLost
from service.ingest.reconcile import Comparison
from service.ingest.reconciling import RECONCILE_EVERY_S, Reconciler, unheard
from service.ingest.vector_faults import fault_of
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.vector_reports import VectorFault

_log = logging.getLogger(__name__)
REST_S = 0.5
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LOOK_FOR_DUE_EVERY_S = 5.0  # parked passages; each has its own time


@dataclass(slots=True)
class VectorRunner:
    """Runs one worker until it is told to stop. Never raises: a failure is logged when it changes, and there to be
    seen until the worker goes on.

    Rows and points are compared every `reconcile_every` seconds, for the first time soon after the worker has
    caught up; `tell` is called with a difference that nothing explains, before it is repaired.
    """

    worker: VectorWorker
    rest: float = REST_S
    reconcile_every: float = RECONCILE_EVERY_S
    tell: Callable[[Comparison], None] = unheard
    outcome: StepOutcome | None = None
    failure: str | None = None
    fault: VectorFault | None = None  # the part that failed
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _looked_at: float = field(default=float("-inf"))
    _reconciler: Reconciler = field(init=False)
    _caught_up: bool = False

    def __post_init__(self) -> None:
        """One reconciler a worker."""
        self._reconciler = Reconciler(self.worker, self.reconcile_every, self.tell)

    @property
    def comparison(self) -> Comparison | None:
        """The newest comparison of rows and points; None before the first."""
        return self._reconciler.last

    async def run(self) -> None:
        """Follow the log until `stop`."""
        try:
            await self._follow()
        finally:
            await self._reconciler.close()

    async def _follow(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                await self._round()
            except Exception as error:  # noqa: BLE001 - the seam: nothing that a passage or a part does may end it
                self._failed(error)
                await self._sleep(pause)
                pause = min(pause * 2.0, LONGEST_PAUSE_S)
                continue
            self._went_well()
            pause = FIRST_PAUSE_S
            if self.outcome is not StepOutcome.WORKED:
                await self._sleep(self.rest)

    async def _round(self) -> None:
        try:
            self.outcome = await self.worker.step()
            await self._tend(self.outcome)
        except LeaseLost:
            self.outcome = StepOutcome.OTHER_WORKER

    def _failed(self, error: Exception) -> None:
        fault = fault_of(error)
        defect = fault is VectorFault.DEFECT  # what a library says may hold a text: only its kind is shown
        failure = f"unexpected {type(error).__name__}" if defect else str(error)
        if failure != self.failure:
            _log.warning("vector worker waits: %s", failure, exc_info=error if defect else None)
        self.failure, self.fault = failure, fault

    def _went_well(self) -> None:
        if self.failure is not None:
            _log.info("vector worker goes on")
        self.failure, self.fault = None, None

    async def until_idle(self, progress: Callable[[int], None] | None = None) -> StepOutcome:
        """Step until there is nothing more to do; what stopped it. Raises as `VectorWorker.step` does."""
        while (outcome := await self.worker.step()) is StepOutcome.WORKED:
            if progress is not None:
                progress(self.worker.counters.upserted)
        return outcome

    def stop(self) -> None:
        """End after the step in hand."""
        self._stop.set()

    async def _tend(self, outcome: StepOutcome) -> None:
        """What is done beside following the log, by the worker that holds the lease."""
        if outcome is StepOutcome.IDLE:
            self._caught_up = True
            await self._retry_due()
        if self._caught_up and outcome in (StepOutcome.IDLE, StepOutcome.WORKED):
            await self._reconciler.turn()

    async def _retry_due(self) -> None:
        if time.monotonic() - self._looked_at < LOOK_FOR_DUE_EVERY_S:
            return
        self._looked_at = time.monotonic()
        collection = await self.worker.collection()
        if collection is not None:
            await self.worker.retry_due(collection)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
