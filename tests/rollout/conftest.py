"""Both databases with their schema, and a house on each."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.adapters.sql.engine import Engines, database_url, open_engines
from service.adapters.sql.migrate import upgrade
from service.adapters.sql.rollout import SqlFlagLedger, SqlShadowLedger
from service.bootstrap import Application
from service.settings import Settings
from tests.rollout.parts import House, house


@asynccontextmanager
async def upgraded(settings: Settings) -> AsyncIterator[Engines]:
    """A database with its schema."""
    opened = open_engines(database_url(settings.resolved_database_url))
    await upgrade(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def engines(sqlite_settings: Settings) -> AsyncIterator[Engines]:
    """SQLite, for what does not depend on the database."""
    async with upgraded(sqlite_settings) as opened:
        yield opened


@pytest.fixture
async def engines_both(settings: Settings) -> AsyncIterator[Engines]:
    """Each kind of database."""
    async with upgraded(settings) as opened:
        yield opened


@pytest.fixture
def flags(engines: Engines) -> SqlFlagLedger:
    """The flag's rows on SQLite."""
    return SqlFlagLedger(engines)


@pytest.fixture
def flags_both(engines_both: Engines) -> SqlFlagLedger:
    """The flag's rows on each kind of database."""
    return SqlFlagLedger(engines_both)


@pytest.fixture
def shadows(engines: Engines) -> SqlShadowLedger:
    """What shadow mode keeps, on SQLite."""
    return SqlShadowLedger(engines)


@pytest.fixture
def shadows_both(engines_both: Engines) -> SqlShadowLedger:
    """What shadow mode keeps, on each kind of database."""
    return SqlShadowLedger(engines_both)


@pytest.fixture
async def home(sqlite_app: Application, engines: Engines) -> AsyncIterator[House]:
    """A corpus with both arms, on SQLite."""
    async with house(sqlite_app, engines) as opened:
        yield opened


@pytest.fixture
async def home_both(app: Application, engines_both: Engines) -> AsyncIterator[House]:
    """A corpus with both arms, on each kind of database."""
    async with house(app, engines_both) as opened:
        yield opened


@pytest.fixture
def unused_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
