"""Fixtures every part shares: settings in a temporary folder, and both databases."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from service.bootstrap import Application, application
from service.settings import Settings
from tests.postgres import PostgresServer, missing_postgres, start_postgres


@pytest.fixture
def anyio_backend() -> str:
    """All async tests run on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server of the test run's own; skips, saying so, where PostgreSQL is not installed."""
    missing = missing_postgres()
    if missing:
        pytest.skip(missing)
    with start_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'citewell.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        yield url


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    """Settings of a fresh instance on each kind of database."""
    return Settings(data_dir=tmp_path / "data", database_url=database_url, index_grace=0.2)


@pytest.fixture
def sqlite_settings(tmp_path: Path) -> Settings:
    """Settings of a fresh instance on SQLite, for what does not depend on the database."""
    return Settings(data_dir=tmp_path / "data", index_grace=0.2)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[Application]:
    """A running application on each kind of database."""
    async with application(settings) as running:
        yield running


@pytest.fixture
async def sqlite_app(sqlite_settings: Settings) -> AsyncIterator[Application]:
    """A running application on SQLite."""
    async with application(sqlite_settings) as running:
        yield running
