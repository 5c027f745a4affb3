"""The flag in a running service, from its row to the answer."""

import asyncio

import pytest

from service.adapters.flags.report_file import read_report
from service.adapters.sql.rollout import SqlFlagLedger
from service.bootstrap import Application, utc_now
from service.core.rollout import parse_flag
from service.ingest.flag import FlagControl, FlagOrder, FlagOrigin
from service.model import DEFAULT_WORKSPACE
from service.ports.flag import FlagHolder
from service.search.shadow import ShadowCounters
from tests.builders import ask, capture, store

pytestmark = pytest.mark.anyio


async def reason(app: Application) -> str:
    """What an answer says of the vector arm."""
    return (await ask(app, "sill")).vector.reason


async def set_to(app: Application, text: str) -> None:
    """Set the default and wait until the service acts on it."""
    ledger = SqlFlagLedger(app.store.engines)
    origin = FlagOrigin(FlagHolder.STORE, "off")
    control = FlagControl(ledger, app.flag, origin, read_report, utc_now)
    order = FlagOrder(workspace=None, state=parse_flag(text), who="ada", reason="a test", force=True)
    await control.set_flag(order)
    for _ in range(200):
        if await app.flag.state(DEFAULT_WORKSPACE) == parse_flag(text):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the service never acted on it")


async def test_the_flag_steers_a_running_service(app: Application) -> None:
    """E12: off, shadow, a percentage, on and off again take effect in a running service, without a restart."""
    await store(app, capture("a.md", "sill heights"))
    assert await reason(app) == "off"
    await set_to(app, "shadow")
    assert await reason(app) == "shadow"
    await app.shadow.drain()
    assert app.shadow.counters == ShadowCounters(compared=1, stored=1)
    await set_to(app, "0%")
    assert await reason(app) == "not_in_rollout"
    await set_to(app, "on")
    assert await reason(app) == "no_model"  # C27: wanted, not there, and said so
    await set_to(app, "off")
    assert await reason(app) == "off"
    assert app.shadow.counters == ShadowCounters(compared=1, stored=1)
