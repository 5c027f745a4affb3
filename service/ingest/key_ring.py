"""Every API key in memory: what a request is checked against without a statement of its own."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Final

from service.core.access import Allowance, ApiKey
from service.errors import StoreUnavailable
from service.ports.keys import KeyCensus, KeyLedger

FRESH_S: Final = 2.0  # how old what is believed may be: a revocation counts everywhere by then
LOOK_S: Final = 5.0  # for a look: whoever waits for a store that hangs is told so
STRANGERS: Final = 5.0  # looks a second for keys that are not known, twice as many at once


class KeyRing:
    """The keys of an instance as they were at most FRESH_S ago, counted from the beginning of the look.

    One look at a time, whoever asks: it counts the keys, and reads them when there are more of them, or more
    revoked ones, than before. A key that is not known is looked for at once, since it may be a new one; keys that
    were made up cost at most STRANGERS looks a second together, and what comes beyond is answered from memory:
    among a flood of them a new key counts after FRESH_S.
    """

    def __init__(self, ledger: KeyLedger) -> None:
        self._ledger = ledger
        self._keys: Mapping[str, ApiKey] = {}
        self._census: KeyCensus | None = None
        self._as_of = -math.inf  # monotonic seconds: when the last look that succeeded began
        self._looking: asyncio.Task[None] | None = None
        self._strangers = Allowance.full(STRANGERS, time.monotonic())

    async def is_empty(self) -> bool:
        """Whether no key was ever made. Once there was one it is not asked again. Raises StoreUnavailable."""
        if not self._keys:
            await self._as_new_as(time.monotonic() - FRESH_S)
        return not self._keys

    async def find(self, key_id: str) -> ApiKey | None:
        """A key, revoked or not. Raises StoreUnavailable."""
        now = time.monotonic()
        await self._as_new_as(now - FRESH_S)
        if key_id not in self._keys and self._as_of < now and self._strangers.take(now) == 0.0:
            await self._as_new_as(now)
        return self._keys.get(key_id)

    async def close(self) -> None:
        """Give up a look that is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    async def _as_new_as(self, moment: float) -> None:
        """Return when a look that did not begin before `moment` is over. Raises StoreUnavailable."""
        while self._as_of < moment:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
                self._looking.add_done_callback(_seen)
            await asyncio.shield(self._looking)  # it is everybody's: who is cancelled does not end it

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_S):
                census = await self._ledger.census()
                if census != self._census:
                    self._keys = {key.key_id: key for key in await self._ledger.all()}
                    self._census = census  # older than the keys, if anything: then they are read once more
        except TimeoutError as error:
            raise StoreUnavailable("the store does not answer: keys cannot be looked up") from error
        self._as_of = began


def _seen(look: "asyncio.Task[None]") -> None:
    """A look whose every asker went away failed for nobody."""
    if not look.cancelled():
        look.exception()
