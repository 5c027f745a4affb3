"""Fixtures of the fault tests."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.corpus import Filled, filled

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder in memory, where there is one


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data folder, in memory if there is one."""
    if not MEMORY.is_dir():
        yield tmp_path / "home"
        return
    with tempfile.TemporaryDirectory(prefix="citewell-", dir=MEMORY) as folder:
        yield Path(folder) / "home"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A filled data folder, to be copied and never to be touched."""
    return asyncio.run(filled(tmp_path_factory.mktemp("template") / "home"))
