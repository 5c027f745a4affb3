"""Where the central proof runs, and the options of its long form."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder in memory; used where there is one, since fsync is what takes long


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--soak SECONDS` runs the long form; `--soak-seed N` begins it at a seed that it printed before."""
    group = parser.getgroup("citewell")
    group.addoption("--soak", type=float, default=None, metavar="SECONDS", help="run the seeded soak so long")
    group.addoption("--soak-seed", type=int, default=None, metavar="N", help="begin the soak at this seed")


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if there is one, else on disk."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="citewell-", dir=MEMORY) as folder:
        yield Path(folder)
