"""Fixtures of the vector arm's fault tests."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

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


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for data, in memory if there is one: what is lost by a kill is not what a disk would lose."""
    if not MEMORY.is_dir():
        yield tmp_path / "home"
        return
    with tempfile.TemporaryDirectory(prefix="citewell-", dir=MEMORY) as folder:
        yield Path(folder) / "home"


@dataclass(frozen=True, slots=True)
class Stored:
    """A data folder that nobody uses, and what a service that knows no vectors answers from it."""

    data_dir: Path
    lexical: Mapping[str, Answered]

    def copy(self, target: Path) -> Path:
        """A folder for one test."""
        shutil.copytree(self.data_dir, target)
        return target


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """The corpus, captured over HTTP."""
    data_dir = tmp_path_factory.mktemp("stored") / "data"
    return Stored(data_dir, asyncio.run(_captured(data_dir)))


async def _captured(data_dir: Path) -> Mapping[str, Answered]:
    async with served(data_dir, {}) as server:
        await server.store(*CORPUS)
        return await server.ask_all([*QUERIES, *MANY_QUERIES])


@pytest.fixture
async def server(stored: Stored, home: Path) -> AsyncIterator[Server]:
    """A server with vectors on, the flag on, and every passage embedded."""
    async with served(stored.copy(home), {**VECTORS_ON, **FLAG_ON}) as running:
        await running.settled()
        yield running
