"""The real processes of an embedded store, found and hurt from outside."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil

from service.ports.vectors import CollectionState, VectorIndex, VectorStoreError
from tests.vectors.parts import COLLECTION, DIMENSION, soon

Answer = TypeVar("Answer")


def running(module: str = "serve_shard", parent: int | None = None) -> list[psutil.Process]:
    """Our processes (or another parent's) that run the module."""
    return [child for child in psutil.Process(parent).children(recursive=True) if _runs(child, module)]


def the_process(module: str = "serve_shard") -> psutil.Process:
    """The only one."""
    (process,) = running(module)
    return process


async def appears(module: str, parent: int | None = None, patience: float = 20.0) -> bool:
    """Whether such a process begins to run in time."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        if running(module, parent):
            return True
        await asyncio.sleep(0.01)
    return False


def moment(seed: int, longest: float) -> float:
    """A seeded number of seconds to wait before doing harm."""
    return random.Random(seed).uniform(0, longest)  # noqa: S311 - a seeded moment, not a secret


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """The process does nothing inside the block, and goes on after it."""
    process.suspend()
    try:
        yield
    finally:
        process.resume()


async def eventually(ask: Callable[[], Awaitable[Answer]], patience: float = 20.0) -> Answer:
    """The first answer that is not a VectorStoreError."""
    give_up = time.monotonic() + patience
    while True:
        try:
            return await ask()
        except VectorStoreError:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(0.02)


async def replaced(index: VectorIndex, old: CollectionState) -> CollectionState:
    """The state of the collection once it is of another incarnation than `old`."""

    async def ask() -> CollectionState:
        state = await index.ensure(COLLECTION, DIMENSION, soon())
        if state.incarnation == old.incarnation:
            raise VectorStoreError("still the old one")
        return state

    return await eventually(ask)


def shard_folder(root: Path) -> Path:
    """Edge's own folder of COLLECTION, while there is exactly one."""
    (folder,) = (root / COLLECTION).glob("shard-*")
    return folder


def scribble(file: Path, seed: int) -> None:
    """Overwrite the file with noise of its own size."""
    file.write_bytes(random.Random(seed).randbytes(file.stat().st_size))  # noqa: S311 - noise, not a secret


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return any(module in part for part in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
