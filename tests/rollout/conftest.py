"""Both databases with their schema, and a house on each."""

import socket
from collections.abc import AsyncIterator

import pytest

from service.adapters.sql.engine import Engines, database_url, open_engines
from service.adapters.sql.migrate import upgrade
from service.adapters.sql.rollout import SqlFlagLedger, SqlShadowLedger
from service.bootstrap import Application
from service.settings import Settings
from tests.rollout.parts import House, house


@pytest.fixture
async def engines(settings: Settings) -> AsyncIterator[Engines]:
    """An upgraded database of each kind."""
    opened = open_engines(database_url(settings.resolved_database_url))
    await upgrade(opened)
    yield opened
    await opened.close()


@pytest.fixture
def flags(engines: Engines) -> SqlFlagLedger:
    """The flag's rows."""
    return SqlFlagLedger(engines)


@pytest.fixture
def shadows(engines: Engines) -> SqlShadowLedger:
    """What shadow mode keeps."""
    return SqlShadowLedger(engines)


@pytest.fixture
async def home(app: Application, engines: Engines) -> AsyncIterator[House]:
    """A corpus with both arms."""
    async with house(app, engines) as opened:
        yield opened


@pytest.fixture
def unused_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
