"""A corpus with both arms, and services with keys."""

from collections.abc import AsyncIterator

import pytest

from service.bootstrap import Application
from service.settings import Settings
from tests.access.conftest import Locked, locked_service
from tests.http.conftest import Client, connected
from tests.rollout.conftest import upgraded
from tests.rollout.parts import House, house


@pytest.fixture
async def home(sqlite_app: Application, sqlite_settings: Settings) -> AsyncIterator[House]:
    """A corpus with both arms, on SQLite."""
    async with upgraded(sqlite_settings) as engines, house(sqlite_app, engines) as opened:
        yield opened


@pytest.fixture
async def http(sqlite_settings: Settings) -> AsyncIterator[Client]:
    """A client to an application on SQLite."""
    async with connected(sqlite_settings) as client:
        yield client


@pytest.fixture
async def locked(sqlite_settings: Settings) -> AsyncIterator[Locked]:
    """A service with keys on SQLite."""
    async with locked_service(sqlite_settings) as service:
        yield service
