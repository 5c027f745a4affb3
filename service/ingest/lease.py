"""The right to write one collection alone, as its holder sees it."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from service.errors import Unavailable
from service.ports.embedding import Leases

Result = TypeVar("Result")


class LeaseLost(Unavailable):
    """Another process has the right now; whoever is at work stops, and writes nothing more."""


@dataclass(slots=True)
class Lease:
    """Taken when it is first needed, and renewed once half of its life is over: idling writes nothing.

    How long it was held is measured from before it was asked for, by a clock that nobody sets.
    """

    leases: Leases
    name: str
    owner: str
    seconds: float
    _held_since: float = field(default=float("-inf"))

    async def hold(self) -> bool:
        """Whether it is held, for half of its life at least."""
        now = time.monotonic()
        if now - self._held_since < self.seconds / 2.0:
            return True
        held = await self.leases.lease(self.name, self.owner, self.seconds)
        self._held_since = now if held else float("-inf")
        return held

    async def require(self) -> None:
        """Hold it. Raises LeaseLost."""
        if not await self.hold():
            raise LeaseLost("another process follows the change log with this collection")

    async def during(self, work: Awaitable[Result]) -> Result:
        """The work's result, the lease being held however long it takes. Raises LeaseLost and gives it up."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await self.require()
                await asyncio.wait({task}, timeout=self.seconds / 8.0)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_unheard)

    async def release(self) -> None:
        """Let another process go on at once; nothing is written when it was never held."""
        if self._held_since > float("-inf"):
            self._held_since = float("-inf")
            await self.leases.release(self.name, self.owner)


def _unheard(task: "asyncio.Future[Result]") -> None:
    if not task.cancelled():
        task.exception()  # seen, and of no interest any more
