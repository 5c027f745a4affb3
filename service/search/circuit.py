"""A breaker with a prober of its own: while it is open callers are refused at once, and none pays for a look."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from service.core.breaker import (
    Breaker,
    after_failed_probe,
    after_failure,
    after_good_probe,
    after_success,
    after_timeout,
)
from service.search.degradation import ArmDegraded, Reason

_log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[object]]
PROBER = "vector-arm-prober"  # the name of the task that asks in nobody's place


class Circuit:
    """Guards one part of the vector arm. A probe raises ArmDegraded while the part is not well."""

    def __init__(self, reason: Reason) -> None:
        self.breaker = Breaker()
        self._reason = reason
        self._closed_at = float("-inf")
        self._probe: Probe | None = None
        self._prober: asyncio.Task[None] | None = None

    def refusal(self) -> Reason | None:
        """Why a call would be refused now; None while the circuit is closed. An open one is being looked after."""
        if not self.breaker.is_open:
            return None
        self._look_after()
        return self._reason

    def check(self) -> None:
        """Raises ArmDegraded while the circuit is open."""
        refused = self.refusal()
        if refused is not None:
            raise ArmDegraded(refused)

    def succeeded(self) -> None:
        """The part is well."""
        self.breaker = after_success(self.breaker, time.monotonic())

    def failed(self, reason: Reason, began: float, probe: Probe) -> None:
        """Count the failure of a call that began at `began`; once the circuit is open, `probe` is tried until it
        succeeds. A call that began before the circuit was closed tells of the outage that is over.
        """
        if began < self._closed_at:
            return
        if not self.breaker.is_open:
            count = after_timeout if reason.is_timeout else after_failure
            self._reason = reason
            self.breaker = count(self.breaker, time.monotonic())
            self._probe = probe
            if self.breaker.is_open:
                _log.warning("vector circuit opened: %s", reason.value)
        if self.breaker.is_open:
            self._look_after()

    def stop(self) -> None:
        """Stop probing, without waiting for the prober's end."""
        if self._prober is not None:
            self._prober.cancel()

    async def close(self) -> None:
        """Stop probing."""
        if self._prober is not None:
            self._prober.cancel()
            await asyncio.wait({self._prober})

    def _look_after(self) -> None:
        """Have the part probed, unless that is being done: a prober that ended by a defect is replaced."""
        if self._probe is not None and (self._prober is None or self._prober.done()):
            self._prober = asyncio.create_task(self._recover(self._probe), name=PROBER)

    async def _recover(self, probe: Probe) -> None:
        while True:
            await asyncio.sleep(max(0.0, self.breaker.retry_at - time.monotonic()))
            try:
                await probe()
            except ArmDegraded as degraded:
                self._reason = degraded.reason
                self.breaker = after_failed_probe(self.breaker, time.monotonic())
            except Exception as error:  # noqa: BLE001 - where the arm degrades: a defect must not keep it shut
                _log.error("vector probe failed: %s", self._reason.value, exc_info=error)
                self.breaker = after_failed_probe(self.breaker, time.monotonic())
            else:
                self._closed_at = time.monotonic()
                self.breaker = after_good_probe(self.breaker, self._closed_at)
                _log.warning("vector circuit closed: %s", self._reason.value)
                return
