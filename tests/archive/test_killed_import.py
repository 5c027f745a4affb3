"""An import killed with -9 somewhere in its middle leaves an empty database, and the next one goes through."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.bootstrap import application
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from tests.archive.parts import body, exported, restored, settings_of
from tests.builders import capture
from tests.cli.commands import COMMAND

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that takes some seconds to import."""
    folder = tmp_path_factory.mktemp("large")
    settings = settings_of(folder / "data")

    async def fill() -> None:
        async with application(settings) as app:
            for n in range(20):
                texts = [" ".join(f"word{(k * m) % 997}" for m in range(40)) for k in range(500)]
                await app.capturing.capture(DEFAULT_WORKSPACE, capture(f"s{n}", *texts))
        await exported(settings, folder / "large.ndjson")

    asyncio.run(fill())
    return folder / "large.ndjson"


@pytest.mark.parametrize("passed", [0.1, 0.5, 0.95])
def test_killed_in_the_middle(large: Path, settings: Settings, passed: float) -> None:
    """C16: whatever part of an import was sent when it was killed, the database is empty, and whole next time."""
    asyncio.run(exported(settings, settings.data_dir.parent / "empty.ndjson"))  # the schema is there
    content = large.read_bytes()
    environment = {
        **os.environ,  # noqa: TID251 - a process needs its path
        "CITEWELL_DATA_DIR": str(settings.data_dir),
        "CITEWELL_DATABASE_URL": settings.database_url,
    }
    process = subprocess.Popen([COMMAND, "import", "-"], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    sent = int(len(content) * passed)
    process.stdin.write(content[:sent])  # returns when all but a pipe's content was read
    process.stdin.flush()
    time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    process.stdin.close()
    asyncio.run(assert_empty_and_restores(settings, large))


async def assert_empty_and_restores(settings: Settings, archive: Path) -> None:
    """No row is there, and the same archive imports whole."""
    folder = settings.data_dir.parent
    nothing = await exported(settings, folder / "after.ndjson")
    assert nothing.counts == {"counter": 1}
    assert body(folder / "after.ndjson") == body(folder / "empty.ndjson")
    await restored(settings, archive)
    await exported(settings, folder / "whole.ndjson")
    assert body(folder / "whole.ndjson") == body(archive)


def test_a_terminated_import(large: Path, sqlite_settings: Settings) -> None:
    """C16: a process that is told to stop in the middle of an import has stored nothing."""
    script = "import sys; from service.surfaces.cli import main; sys.exit(main())"
    environment = {**os.environ, "CITEWELL_DATA_DIR": str(sqlite_settings.data_dir)}  # noqa: TID251
    command = [sys.executable, "-c", script, "import", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(large.read_bytes()[: large.stat().st_size // 2])
    process.stdin.flush()
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    summary = asyncio.run(exported(sqlite_settings, sqlite_settings.data_dir.parent / "after.ndjson"))
    assert summary.counts == {"counter": 1}
