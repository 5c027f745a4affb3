"""Connections that are still in use when the store is closed."""

import asyncio

import pytest

from service.adapters.sql.engine import database_url as url_of
from service.adapters.sql.engine import open_engines

pytestmark = pytest.mark.anyio


async def test_closing_leaves_no_connection_behind(database_url: str) -> None:
    """What a task had in its hands when the store was closed is closed too, though nobody gives it back."""
    engines = open_engines(url_of(database_url))
    held, free = await engines.read.connect(), await engines.glance.connect()
    await free.close()
    assert len(engines.opened) == 2
    raw = (await held.get_raw_connection()).driver_connection
    assert raw is not None

    await engines.close()

    assert not engines.opened
    for _ in range(500):
        if not _is_open(raw):
            break
        await asyncio.sleep(0.01)
    assert not _is_open(raw)
    await held.close()


def _is_open(raw: object) -> bool:
    thread = getattr(raw, "_thread", None)
    return thread.is_alive() if thread is not None else not raw.is_closed()  # type: ignore[attr-defined]
