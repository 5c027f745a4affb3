"""Changing the model inside a running process: the next collection is built beside the one that serves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from service.errors import CitewellError
from service.ingest.migration import migrate
from service.ingest.vector_faults import fault_of
from service.ingest.vector_runner import VectorRunner
from service.ports.embedding import EncoderState
from service.ports.vector_reports import VectorFault

LOADING_POLL_S = 0.5
FIRST_PAUSE_S = 5.0  # between two tries; a try that fails at its checks has read everything
LONGEST_PAUSE_S = 300.0


@dataclass(slots=True)
class ModelChange:
    """Migrates to the model of a runner's worker, switches, and goes on as that runner.

    `switch` is called once, when readers may search the new collection. `tell` hears why a try failed, once a
    reason; so do those who look at the runner's failure. The collection that serves is not touched before.
    """

    runner: VectorRunner
    switch: Callable[[], None]
    tell: Callable[[str], None]
    first_pause: float = FIRST_PAUSE_S
    _told: str | None = None

    async def run(self) -> None:
        """Until the runner is stopped, or this is cancelled. Never raises."""
        pause = self.first_pause
        while not await self._migrated():
            await asyncio.sleep(pause)
            pause = min(pause * 2.0, LONGEST_PAUSE_S)
        self.runner.failure, self.runner.fault = None, None
        self.switch()
        await self.runner.run()

    async def _migrated(self) -> bool:
        encoder = self.runner.worker.encoder
        while encoder.state is EncoderState.LOADING:  # noqa: ASYNC110 - the port has no event
            await asyncio.sleep(LOADING_POLL_S)
        try:
            await migrate(self.runner.worker)
        except Exception as error:  # noqa: BLE001 - whatever it is: reported, and tried again
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        fault = fault_of(error)
        defect = fault is VectorFault.DEFECT and not isinstance(error, CitewellError)
        # What a library says may hold a text: only its kind is shown.
        reason = f"unexpected {type(error).__name__}" if defect else str(error)
        self.runner.failure, self.runner.fault = reason, fault
        if reason != self._told:
            self._told = reason
            self.tell(reason)
