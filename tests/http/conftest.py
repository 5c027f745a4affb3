"""Fixtures of the HTTP tests: a client to a real application, on SQLite alone or on each database."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from litestar import Litestar
from litestar.testing import AsyncTestClient, TestClient

from service.settings import Settings
from service.surfaces.http.app import create_app

Client = AsyncTestClient[Litestar]
SteadyClient = TestClient[Litestar]


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Client]:
    """A client to a new application; it gets answers, never the server's exceptions."""
    async with AsyncTestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
async def http(sqlite_settings: Settings) -> AsyncIterator[Client]:
    """A client to an application on SQLite, for what does not depend on the database."""
    async with connected(sqlite_settings) as client:
        yield client


@pytest.fixture
async def http_both(settings: Settings) -> AsyncIterator[Client]:
    """A client to an application on each kind of database."""
    async with connected(settings) as client:
        yield client


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SteadyClient]:
    """A client to an empty application that many tests share, since none of them stores anything."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("steady"), max_body_bytes=2_000_000)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client
