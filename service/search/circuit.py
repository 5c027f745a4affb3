"""A breaker with a prober of its own: while it is open callers are refused at once, and none pays for a look."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from service.core.breaker import Breaker, after_failed_probe, after_failure, after_success, after_timeout
from service.search.degradation import ArmDegraded, Reason

Probe = Callable[[], Awaitable[object]]


class Circuit:
    """Guards one part of the vector arm. A probe raises ArmDegraded while the part is not well."""

    def __init__(self, reason: Reason) -> None:
        self.breaker = Breaker()
        self._reason = reason
        self._probe: Probe | None = None
        self._prober: asyncio.Task[None] | None = None

    @property
    def refusal(self) -> Reason | None:
        """Why a call would be refused now; None while the circuit is closed."""
        return self._reason if self.breaker.is_open else None

    def check(self) -> None:
        """Raises ArmDegraded while the circuit is open."""
        if self.breaker.is_open:
            self._look_after()
            raise ArmDegraded(self._reason)

    def succeeded(self) -> None:
        """The part is well."""
        if not self.breaker.is_open:  # an open circuit is closed by its prober: it knows the newest
            self.breaker = after_success(self.breaker)

    def failed(self, reason: Reason, probe: Probe) -> ArmDegraded:
        """Count a failure; once the circuit is open, `probe` is tried until it succeeds. Returns what to raise."""
        timed_out = reason in (Reason.STORE_TIMEOUT, Reason.ENCODE_TIMEOUT)
        count = after_timeout if timed_out else after_failure
        if not self.breaker.is_open:
            self._reason = reason
            self.breaker = count(self.breaker, time.monotonic())
            self._probe = probe
        if self.breaker.is_open:
            self._look_after()
        return ArmDegraded(reason)

    async def close(self) -> None:
        """Stop probing."""
        if self._prober is not None:
            self._prober.cancel()
            with suppress(asyncio.CancelledError):
                await self._prober

    def _look_after(self) -> None:
        """Have the part probed, unless that is being done: a prober that ended by a defect is replaced."""
        if self._probe is not None and (self._prober is None or self._prober.done()):
            self._prober = asyncio.create_task(self._recover(self._probe))

    async def _recover(self, probe: Probe) -> None:
        while True:
            await asyncio.sleep(max(0.0, self.breaker.retry_at - time.monotonic()))
            try:
                await probe()
            except ArmDegraded as degraded:
                self._reason = degraded.reason
                self.breaker = after_failed_probe(self.breaker, time.monotonic())
            else:
                self.breaker = after_success(self.breaker)
                return
