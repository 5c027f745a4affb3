"""When keys were used last, written in the background."""

import asyncio
import math
import time
from datetime import datetime
from typing import Final

from service.core.access import ApiKey
from service.errors import Unavailable
from service.ports.keys import KeyLedger

USE_NOTED_S: Final = 60.0  # how exact "last used" is
RETRY_S: Final = 5.0  # after a write that failed


class KeyUses:
    """Uses that are to be written: at most one in USE_NOTED_S a key, all of them in one write at a time.

    What a write could not store is written with the next one.
    """

    def __init__(self, ledger: KeyLedger) -> None:
        self._ledger = ledger
        self._noted: dict[str, datetime] = {}
        self._unwritten: dict[str, datetime] = {}
        self._writing: asyncio.Task[None] | None = None
        self._not_before = -math.inf  # monotonic seconds

    def note(self, key: ApiKey, now: datetime) -> None:
        """A key was used. Never waits."""
        noted = self._noted.get(key.key_id, key.last_used_at)
        if noted is None or (now - noted).total_seconds() >= USE_NOTED_S:
            self._noted[key.key_id] = self._unwritten[key.key_id] = now
        is_idle = self._writing is None or self._writing.done()
        if self._unwritten and is_idle and time.monotonic() >= self._not_before:
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Write down what was not yet."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        await self._write()

    async def _write(self) -> None:
        """Until nothing is left: uses that come during a write would otherwise wait for another use."""
        while self._unwritten:
            taken, self._unwritten = self._unwritten, {}
            try:
                await self._ledger.note_use(taken)
            except Unavailable:
                self._unwritten = taken | self._unwritten
                self._not_before = time.monotonic() + RETRY_S
                return
