"""Fixtures of the tests of backup and restore: one filled database, exported once."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.settings import Settings
from tests.archive.parts import exported, run_filled, settings_of
from tests.cli.conftest import logs_as_before  # noqa: F401 - commands run here too
from tests.postgres import PostgresServer


@dataclass(frozen=True, slots=True)
class Original:
    """A filled instance on SQLite, its key and its archive; tests copy and never change them."""

    settings: Settings
    key: str
    archive: Path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The instance that is exported."""
    folder = tmp_path_factory.mktemp("original")
    settings = settings_of(folder / "data")
    key = run_filled(settings)
    asyncio.run(exported(settings, folder / "archive.ndjson"))
    return Original(settings, key, folder / "archive.ndjson")


@pytest.fixture
def empty(settings: Settings) -> Settings:
    """An empty instance on each kind of database."""
    return settings


@pytest.fixture
def postgres_settings(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Settings]:
    """An empty instance on PostgreSQL."""
    with postgres_server.database() as url:
        yield settings_of(tmp_path / "postgres-home", url)
