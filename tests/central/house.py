"""Applications on one database, driven from plain code, with the ways in which they can come and go."""

import asyncio
import shutil
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from service.bootstrap import Application, application
from service.settings import Settings

T = TypeVar("T")


@dataclass(slots=True)
class _Running:
    app: Application
    stack: AsyncExitStack


@dataclass(slots=True)
class House:
    """Up to a few processes' worth of applications; each has its own index slot and its own connections."""

    settings: tuple[Settings, ...]
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    _running: dict[int, _Running] = field(default_factory=dict)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run to its end on the one event loop of all applications."""
        return self._runner.run(work)

    def app(self, number: int) -> Application:
        """An application, opened now unless it runs already."""
        if number not in self._running:
            self._running[number] = self.run(_open(self.settings[number]))
        return self._running[number].app

    def stop(self, number: int) -> None:
        """Shut an application down in order; its index writes a checkpoint."""
        running = self._running.pop(number, None)
        if running is not None:
            self.run(running.stack.aclose())

    def index_folder(self, number: int) -> Path:
        """Where an application keeps its index."""
        return self.settings[number].data_dir / "lexical"

    def kill(self, number: int) -> None:
        """Stop an application and leave of its folder what a kill at this moment would have left."""
        left = self.keep_folder(number, "killed")
        self.stop(number)
        self.put_folder(number, left)

    def keep_folder(self, number: int, name: str) -> Path:
        """Copy the index folder as the disk has it now, as a backup would."""
        kept = self.settings[number].data_dir / name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.index_folder(number), kept, ignore_dangling_symlinks=True, copy_function=_copy)
        return kept

    def put_folder(self, number: int, kept: Path) -> None:
        """Replace the index folder of a stopped application."""
        shutil.rmtree(self.index_folder(number), ignore_errors=True)
        shutil.copytree(kept, self.index_folder(number))

    def close(self) -> None:
        """Shut everything down."""
        for number in list(self._running):
            self.stop(number)
        self._runner.close()


def _copy(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:  # merged away while the folder was being copied
        return


async def _open(settings: Settings) -> _Running:
    stack = AsyncExitStack()
    return _Running(await stack.enter_async_context(application(settings)), stack)
