"""Turns at hosts, on a clock that is turned by hand."""

import asyncio

import pytest

from service.adapters.link_pacing import HostGates, Pace
from service.ports.links import Reason
from tests.links.parts import HandClock

pytestmark = pytest.mark.anyio


async def starts(gates: HostGates, clock: HandClock, hosts: list[str]) -> list[tuple[str, float]]:
    """When each host in turn was let through."""
    found: list[tuple[str, float]] = []
    for host in hosts:
        async with gates.turn(host):
            found.append((host, clock.now))
    return found


async def test_starts_at_one_host_are_spaced() -> None:
    """Two starts at one host are `spacing` apart; another host does not wait for them."""
    clock = HandClock(now=0.0)
    gates = HostGates(Pace(spacing=2.0), clock)
    assert await starts(gates, clock, ["a", "b", "a", "b", "a"]) == [
        ("a", 0.0),
        ("b", 0.0),
        ("a", 2.0),
        ("b", 2.0),
        ("a", 4.0),
    ]


async def test_a_held_host_waits_and_no_other_does() -> None:
    """`hold` delays the next start at its host only."""
    clock = HandClock(now=0.0)
    gates = HostGates(Pace(spacing=0.0), clock)
    gates.hold("a", 5.0)
    assert await starts(gates, clock, ["b", "a"]) == [("b", 0.0), ("a", 5.0)]


async def test_waiting_for_a_host_takes_no_place_from_others() -> None:
    """With one place for all, a host that waits for its start does not keep another from running."""
    release = asyncio.Event()

    class Stuck(HandClock):
        async def sleep(self, seconds: float) -> None:
            await release.wait()

    clock = Stuck(now=0.0)
    gates = HostGates(Pace(concurrency=1, spacing=0.0), clock)
    gates.hold("slow", 9.0)
    slow = asyncio.create_task(starts(gates, clock, ["slow"]))
    await asyncio.sleep(0)
    assert await starts(gates, clock, ["quick"]) == [("quick", 0.0)]
    assert not slow.done()
    release.set()
    assert await slow == [("slow", 0.0)]


async def test_a_host_is_shut_by_failures_in_a_row_only() -> None:
    """An answer in between starts the count anew; `trip_after` in a row shut the host for the cool-off."""
    clock = HandClock(now=0.0)
    gates = HostGates(Pace(spacing=0.0, trip_after=2, cool_off=10.0), clock)
    gates.failed("a")
    gates.answered("a")
    gates.failed("a")
    async with gates.turn("a") as refused:
        assert refused is None
    gates.failed("a")
    async with gates.turn("a") as refused:
        assert refused is Reason.HOST_DOWN
    async with gates.turn("b") as refused:
        assert refused is None
    clock.now = 10.0
    gates.failed("a")
    async with gates.turn("a") as refused:
        assert refused is None


async def test_a_turn_that_waited_sees_that_the_host_was_shut() -> None:
    """A host shut while somebody waited for a start there is not asked."""

    class ShuttingClock(HandClock):
        async def sleep(self, seconds: float) -> None:
            self.now += seconds
            gates.shut("a", 60.0, Reason.RATE_LIMITED)

    gates = HostGates(Pace(spacing=0.0), ShuttingClock(now=0.0))
    gates.hold("a", 1.0)
    async with gates.turn("a") as refused:
        assert refused is Reason.RATE_LIMITED


async def test_idle_hosts_are_forgotten_and_busy_ones_kept() -> None:
    """However many hosts are met, the gates kept are bounded, and a gate in use is never replaced."""
    clock = HandClock(now=0.0)
    gates = HostGates(Pace(per_host=1, spacing=0.0), clock)
    async with gates.turn("busy"):
        for n in range(10_000):
            gates.answered(f"h{n}")
        contender = asyncio.create_task(starts(gates, clock, ["busy"]))
        await asyncio.sleep(0)
        assert not contender.done()
    assert len(gates._gates) <= 4096
    assert await contender == [("busy", 0.0)]
