"""The way out of a process: what is open may finish, for so long; whoever waits for long is told at once."""

import asyncio
import math
from collections.abc import Callable

from service.surfaces.http.lifecycle import Draining

Hurry = Callable[[float], None]


class Leaving:
    """Whether the process is on its way out, and until when what is open may go on.

    `until` is in the event loop's time.
    """

    def __init__(self, draining: Draining) -> None:
        self._draining = draining
        self._event = asyncio.Event()
        self._told: list[Hurry] = []
        self.until = math.inf

    @property
    def begun(self) -> bool:
        """Whether the process is on its way out."""
        return self._event.is_set()

    def begin(self, seconds: float) -> None:
        """What is open has so many seconds from now. Once begun it stays so; again changes nothing."""
        if self.begun:
            return
        self.until = asyncio.get_running_loop().time() + seconds
        self._draining.begin()
        self._event.set()
        for hurry in self._told:
            hurry(self.until)

    async def wait(self) -> None:
        """Return when it begins."""
        await self._event.wait()

    def tell(self, hurry: Hurry) -> None:
        """Call `hurry` with `until` when it begins."""
        self._told.append(hurry)
