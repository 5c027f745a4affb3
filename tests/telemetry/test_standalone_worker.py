"""`citewell vectors status` beside `citewell vectors worker` in a process of its own."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from service.adapters.sql import schema
from service.adapters.sql.engine import begin
from service.bootstrap import application
from service.ports.vector_reports import LOST_S
from service.settings import Settings
from tests.builders import capture, store
from tests.cli.commands import CommandLine, Json
from tests.cli.conftest import logs_as_before
from tests.rollout.conftest import upgraded

__all__ = ["logs_as_before"]  # commands change where logs go

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0


@contextmanager
def worker(cli: CommandLine) -> Iterator[subprocess.Popen[bytes]]:
    """The worker's process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.words_program", "vectors", "worker"],
        env={**os.environ, **cli.variables},  # noqa: TID251 - a process needs its path
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def until(cli: CommandLine, holds: Callable[[Json], bool]) -> Json:
    """Ask for the status until something holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds(shown := cli.json("vectors", "status")):
        assert time.monotonic() < give_up, shown
        time.sleep(0.2)
    return shown


def one_worker(shown: Json) -> Json:
    """The only worker there is."""
    workers = shown["workers"]
    assert isinstance(workers, list)
    (found,) = workers
    assert isinstance(found, dict)
    return found


async def fill(data_dir: Path) -> None:
    """An item without its vectors."""
    async with application(Settings(data_dir=data_dir)) as app:
        await store(app, capture("a", "one", "two", item_id="a"))


async def silence(data_dir: Path) -> None:
    """As if nobody had been heard of for too long."""
    async with upgraded(Settings(data_dir=data_dir)) as engines, begin(engines.write) as connection:
        seen_at = datetime.now(UTC) - timedelta(seconds=LOST_S + 60)
        await connection.execute(update(schema.vector_workers).values(seen_at=seen_at))


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line over a corpus without vectors."""
    data_dir = tmp_path / "data"
    asyncio.run(fill(data_dir))
    return CommandLine(data_dir)


def test_the_status_shows_a_worker_elsewhere(cli: CommandLine) -> None:
    """U19: beside a worker that owns the index, the status tells how it is and what it compared last; a worker
    that was told to stop is gone from it, and the comparison stays.
    """
    with worker(cli) as process:
        place = f"{socket.gethostname()}:{process.pid}"
        shown = until(cli, lambda found: found["compared_by"] == place and found["workers"] != [])
        assert (shown["missing"], shown["orphan"]) == (0, 0)
        assert (one_worker(shown)["place"], one_worker(shown)["duty"]) == (place, "working")
        assert one_worker(shown)["is_failing"] is False
        assert place in cli.ok("vectors", "status")
    shown = cli.json("vectors", "status")
    assert (shown["workers"], shown["missing"], shown["fault"]) == ([], 0, None)


def test_a_killed_worker_is_missed(cli: CommandLine) -> None:
    """U19: a worker that was killed with -9 is told as lost once nothing was heard of it for long enough."""
    with worker(cli) as process:
        until(cli, lambda found: found["workers"] != [] and one_worker(found)["duty"] == "working")
        process.kill()
        process.wait(PATIENCE_S)
    asyncio.run(silence(cli.data_dir))
    shown = cli.json("vectors", "status")
    assert one_worker(shown)["is_lost"] is True
    assert shown["fault"] == "worker_lost"
    assert "lost" in cli.ok("vectors", "status")
