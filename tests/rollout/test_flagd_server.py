"""The flag in a flagd server: resolved over gRPC, followed, and done without while the server is away."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.opening import open_flag
from service.adapters.flags.settings import FlagSettings, FlagTiming
from service.adapters.sql.rollout import SqlFlagLedger
from service.core.rollout import parse_flag
from service.model import Workspace
from service.ports.flag import FlagHolder, FlagReading
from tests.rollout.parts import until

pytest.importorskip("openfeature.contrib.provider.flagd")

from tests.rollout.flagd_server import FlagdServer

pytestmark = pytest.mark.anyio
ACME, OTHER = Workspace("acme"), Workspace("other")
ALWAYS_ANEW = FlagTiming(fresh=0.0, first_patience=10.0, patience=10.0, recovery=0.0)


@pytest.fixture
def flagd(unused_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlagdServer]:
    """A running server that flagd's own variables point to, and a client that does not wait long for it."""
    for name, value in {
        "HOST": "127.0.0.1",
        "PORT": str(unused_port),
        "RESOLVER": "rpc",
        "DEADLINE_MS": "1000",
        "RETRY_BACKOFF_MS": "50",
        "RETRY_BACKOFF_MAX_MS": "100",
        "RETRY_GRACE_PERIOD": "1",
    }.items():
        monkeypatch.setenv(f"FLAGD_{name}", value)
    server = FlagdServer(unused_port)
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def opened(ledger: SqlFlagLedger, environment: str = "on") -> AsyncIterator[OpenFeatureFlag]:
    """The flag as flagd holds it. The environment says on, so that nothing is off by chance."""
    flag = open_flag(FlagSettings(FlagHolder.FLAGD, environment, timing=ALWAYS_ANEW), ledger)
    try:
        yield flag
    finally:
        await flag.close()


async def reading_with(flag: OpenFeatureFlag, workspace: Workspace, problem: str) -> FlagReading:
    """The first reading whose problem says this."""
    for _ in range(600):
        reading = await flag.reading(workspace)
        if problem in (reading.problem or ""):
            return reading
        await asyncio.sleep(0.05)
    raise AssertionError(f"no reading said {problem!r}; the last was {reading}")


async def test_a_flagd_server_holds_the_flag(flagd: FlagdServer, flags: SqlFlagLedger) -> None:
    """E12: the server's value counts for everybody, and its targeting rules see the workspace."""
    flagd.flag.default, flagd.flag.targeted = "25%", {"acme": "shadow"}
    async with opened(flags) as flag:
        await until(flag, OTHER, parse_flag("25%"))
        await until(flag, ACME, parse_flag("shadow"))
        reading = await flag.reading(OTHER)
        assert (str(reading.state), reading.holder, reading.problem) == ("25%", FlagHolder.FLAGD, None)


async def test_a_change_in_the_server_is_followed(flagd: FlagdServer, flags: SqlFlagLedger) -> None:
    """E12: a change counts without a restart, announced or not: nothing is kept beyond the next question."""
    flagd.flag.default = "shadow"
    async with opened(flags) as flag:
        await until(flag, OTHER, parse_flag("shadow"))
        flagd.flag.default = "on"
        flagd.announce_change()
        await until(flag, OTHER, parse_flag("on"))
        flagd.flag.default = "off"  # and no stream says so
        await until(flag, OTHER, parse_flag("off"))


async def test_disabled_unknown_and_senseless_flags(flagd: FlagdServer, flags: SqlFlagLedger) -> None:
    """E12: disabled means off, an unknown flag is left to the environment, and nonsense is off with a reason."""
    async with opened(flags, environment="shadow") as flag:
        flagd.flag.default = "on"
        await until(flag, OTHER, parse_flag("on"))
        flagd.flag.disabled = True
        assert str((await reading_with(flag, OTHER, "disabled")).state) == "off"
        flagd.flag.disabled, flagd.flag.key = False, "another"
        assert str((await reading_with(flag, OTHER, "no such flag")).state) == "shadow"
        flagd.flag.key, flagd.flag.default = "corpus-hybrid-retrieval", "maybe"
        assert str((await reading_with(flag, OTHER, "no state of the flag")).state) == "off"


async def test_a_dead_server_leaves_what_was_known(flagd: FlagdServer, flags: SqlFlagLedger) -> None:
    """E12: while the server is away the last known state counts, with the reason; back again, it is asked anew."""
    flagd.flag.default = "50%"
    async with opened(flags) as flag:
        await until(flag, OTHER, parse_flag("50%"))
        await asyncio.to_thread(flagd.stop)
        away = await reading_with(flag, OTHER, "holder")
        assert str(away.state) == "50%"
        flagd.flag.default = "off"  # the switch is pulled while nobody is connected
        await asyncio.to_thread(flagd.start)
        await until(flag, OTHER, parse_flag("off"))
        back = await flag.reading(OTHER)
        assert (str(back.state), back.problem) == ("off", None)
        assert flagd.asked > 0


async def test_a_server_that_comes_late_is_found(flagd: FlagdServer, flags: SqlFlagLedger) -> None:
    """E12: a service that starts before its flagd is off, and follows it as soon as it is there."""
    await asyncio.to_thread(flagd.stop)
    flagd.flag.default = "shadow"
    async with opened(flags) as flag:
        first = await flag.reading(OTHER)
        assert str(first.state) == "off"
        assert first.problem is not None
        await asyncio.to_thread(flagd.start)
        await until(flag, OTHER, parse_flag("shadow"))
