"""An ingest in a process of its own that kills itself, as a power cut would."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

from service.bootstrap import Application, application
from service.ingest import line_files
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from service.surfaces.shipped import load_shipped
from tests.ingest.parts import Watch, ingest, request

Work = Callable[[Application, Path, Watch], Coroutine[object, object, object]]
LINES = 50  # of a batch, so that there are many transactions to be killed in

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.ingest.killed"])  # imports are paid for once


def die() -> None:
    """End this process without any of its cleaning up."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingWatch(Watch):
    """Sets the time of death when the work begins."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self._timer = threading.Timer(delay, die)
        self._timer.daemon = True

    def begin(self, files: int, size: int) -> None:
        """The ingest begins: from now on death may come at any point."""
        if not self._timer.is_alive():
            self._timer.start()


async def ingest_folder(app: Application, folder: Path, watch: Watch) -> None:
    """Ingest everything in a folder."""
    await ingest(app, request(folder), watch)


async def load(app: Application, folder: Path, watch: Watch) -> None:
    """Load the shipped corpora."""
    await load_shipped(app, DEFAULT_WORKSPACE, watch)


def run_until_killed(work: Work, settings: Settings, folder: Path, delay: float) -> bool:
    """Start the work in a new process and kill it `delay` seconds after it began; False if it was done before."""
    process = _processes.Process(target=_work, args=(work, settings, folder, delay))
    process.start()
    process.join(timeout=60)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("the process neither finished nor died")
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _work(work: Work, settings: Settings, folder: Path, delay: float) -> None:
    line_files.BATCH_LINES = LINES

    async def main() -> None:
        async with application(settings) as app:
            await work(app, folder, DyingWatch(delay))

    asyncio.run(main())
    os._exit(0)  # death may still be on its way
