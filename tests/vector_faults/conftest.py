"""Fixtures of the vector arm's fault tests."""

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.postgres import PostgresServer
from tests.vector_faults.orders import House
from tests.vector_faults.servers import (
    CORPUS,
    FLAG_ON,
    MANY_QUERIES,
    QUERIES,
    VECTORS_ON,
    Answered,
    Server,
    served,
)

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder in memory, where there is one


ON_SQLITE = pytest.mark.parametrize("stored", ["sqlite"], indirect=True)  # where the database says nothing


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Async tests run on asyncio; those of one module may share a server."""
    return "asyncio"


@contextmanager
def folder_in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder for data, in memory if there is one: what is lost by a kill is not what a disk would lose."""
    if not MEMORY.is_dir():
        yield otherwise
        return
    with tempfile.TemporaryDirectory(prefix="citewell-", dir=MEMORY) as folder:
        yield Path(folder) / "home"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for the data of one test."""
    with folder_in_memory(tmp_path / "home") as folder:
        yield folder


@dataclass(frozen=True, slots=True)
class Stored:
    """A house that nobody uses, and what a service that knows no vectors answers from it.

    `postgres` is the server that has its database, where that is not a file of the data folder.
    """

    house: House
    lexical: Mapping[str, Answered]
    postgres: PostgresServer | None

    @contextmanager
    def copied(self, target: Path) -> Iterator[House]:
        """A house for one test, its data in `target`."""
        shutil.copytree(self.house.data_dir, target)
        if self.postgres is None:
            yield in_one_folder(target)
            return
        template, name = make_url(self.house.database_url).database, f"t{uuid.uuid4().hex}"
        self.postgres.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield House(target, self.postgres.url(name))
        finally:
            self.postgres.sql(f'DROP DATABASE "{name}" WITH (FORCE)')


def in_one_folder(data_dir: Path) -> House:
    """A house whose database is a file of its data folder."""
    return House(data_dir, f"sqlite:///{data_dir / 'citewell.db'}")


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """The corpus, captured over HTTP, on each kind of database."""
    data_dir = tmp_path_factory.mktemp("stored") / "data"
    if request.param == "sqlite":
        house = in_one_folder(data_dir)
        yield Stored(house, asyncio.run(_captured(house)), None)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    with postgres.database() as url:
        house = House(data_dir, url)
        yield Stored(house, asyncio.run(_captured(house)), postgres)


async def _captured(house: House) -> Mapping[str, Answered]:
    async with served(house, {}) as server:
        await server.store(*CORPUS)
        return await server.ask_all([*QUERIES, *MANY_QUERIES])


@pytest.fixture
def house(stored: Stored, home: Path) -> Iterator[House]:
    """The corpus, for one test."""
    with stored.copied(home) as copied:
        yield copied


@pytest.fixture
async def server(house: House) -> AsyncIterator[Server]:
    """A server with vectors on, the flag on, and every passage embedded."""
    async with served(house, {**VECTORS_ON, **FLAG_ON}) as running:
        await running.settled()
        yield running


def assert_lexical_where_degraded(
    answers: Iterable[tuple[str, Answered]], stored: Stored, reasons: Set[str]
) -> None:
    """C27: without vectors the answer is the one of a service that never had any, to the byte."""
    for query, answer in answers:
        assert answer.ran or answer.reason in reasons, answer.reason
        assert answer.ran or answer.kept == stored.lexical[query].kept
