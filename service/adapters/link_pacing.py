"""Politeness towards hosts: how many requests at once, how far apart, and when to leave one alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from service.ports.links import Reason

_GATES_KEPT: Final = 4096


class Clock(Protocol):
    """Time as pacing sees it."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The event loop's own time."""

    def monotonic(self) -> float:
        """Seconds on the running loop's clock."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Pace:
    """Bounds on requests; times in seconds.

    Per host: `per_host` at once and `spacing` between two starts. Over all hosts: `concurrency` at once.
    After `trip_after` requests in a row without any answer a host is left alone for `cool_off`, so that a
    site with a thousand pages that is down costs seconds and not a thousand time-outs.
    """

    concurrency: int = 16
    per_host: int = 2
    spacing: float = 0.25
    trip_after: int = 6
    cool_off: float = 30.0


@dataclass(slots=True)
class _Gate:
    slots: asyncio.Semaphore
    next_start: float
    users: int = 0
    failures: int = 0
    shut_until: float = 0.0
    shut_reason: Reason = Reason.HOST_DOWN


class HostGates:
    """One gate for each host, and one around them all. Belongs to one event loop."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self._pace = pace
        self._clock = clock
        self._everywhere = asyncio.Semaphore(pace.concurrency)
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[Reason | None]:
        """Wait for a turn at `host`; yields None, or the reason why the host must not be asked now."""
        gate = self._gate(host)
        gate.users += 1
        try:
            async with gate.slots:
                if not self._is_shut(gate):
                    await self._wait_for_start(gate)
                if self._is_shut(gate):
                    yield gate.shut_reason
                    return
                # Taken last: waiting for one slow host must not hold a place that another could use.
                async with self._everywhere:
                    yield None
        finally:
            gate.users -= 1

    def hold(self, host: str, seconds: float) -> None:
        """No request to `host` starts within the next `seconds`; those that come wait."""
        gate = self._gate(host)
        gate.next_start = max(gate.next_start, self._clock.monotonic() + seconds)

    def shut(self, host: str, seconds: float, reason: Reason) -> None:
        """For `seconds`, turns at `host` are given `reason` at once instead of a request."""
        gate = self._gate(host)
        gate.shut_until = max(gate.shut_until, self._clock.monotonic() + seconds)
        gate.shut_reason = reason

    def answered(self, host: str) -> None:
        """Record that `host` gave an HTTP answer of whatever status."""
        self._gate(host).failures = 0

    def failed(self, host: str) -> None:
        """Record that `host` gave no answer; enough of these in a row shut it for the cool-off."""
        gate = self._gate(host)
        gate.failures += 1
        if gate.failures >= self._pace.trip_after:
            # Counted afresh after the cool-off: one slow page must not condemn a host that is back.
            gate.failures = 0
            self.shut(host, self._pace.cool_off, Reason.HOST_DOWN)

    def _is_shut(self, gate: _Gate) -> bool:
        return gate.shut_until > self._clock.monotonic()

    async def _wait_for_start(self, gate: _Gate) -> None:
        now = self._clock.monotonic()
        start = max(now, gate.next_start)
        gate.next_start = start + self._pace.spacing
        if start > now:
            await self._clock.sleep(start - now)

    def _gate(self, host: str) -> _Gate:
        gate = self._gates.get(host)
        if gate is None:
            self._forget_idle()
            gate = _Gate(asyncio.Semaphore(self._pace.per_host), self._clock.monotonic())
            self._gates[host] = gate
        return gate

    def _forget_idle(self) -> None:
        """Bound the gates kept: redirects may name any number of hosts."""
        if len(self._gates) < _GATES_KEPT:
            return
        now = self._clock.monotonic()
        self._gates = {
            host: gate
            for host, gate in self._gates.items()
            if gate.users or max(gate.next_start, gate.shut_until) > now
        }
