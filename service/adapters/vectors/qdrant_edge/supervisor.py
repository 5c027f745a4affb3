"""Keeps one process alive for a collection's shard, and starts afresh when the shard is beyond repair."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from service.adapters.vectors.deadlines import until
from service.adapters.vectors.qdrant_edge import folders
from service.adapters.vectors.qdrant_edge.channel import Channel
from service.adapters.vectors.qdrant_edge.child import Ending
from service.adapters.vectors.qdrant_edge.fate import Backoff, CrashRecord, Fate
from service.adapters.vectors.qdrant_edge.folders import Meta
from service.adapters.vectors.qdrant_edge.launch import Exit, Opening
from service.adapters.vectors.qdrant_edge.process import ShardProcess
from service.adapters.vectors.qdrant_edge.settings import MEBIBYTE, EdgeSettings
from service.adapters.vectors.qdrant_edge.wire import Ready
from service.ports.vectors import (
    CollectionName,
    VectorStorageFull,
    VectorStoreError,
    VectorStoreUnavailable,
)

_HEALTHY_SECONDS = 10.0  # a process that lived so long does not lengthen the pause before the next
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A collection on disk, and whether its shard is yet to be made."""

    name: CollectionName
    meta: Meta
    opening: Opening


class Supervisor:
    """While the process is gone calls fail at once; only before it was first open do they wait for it."""

    def __init__(self, found: Found, settings: EdgeSettings, opened: Callable[[Ready], None]) -> None:
        self.name = found.name
        self.meta = found.meta
        self._opening = found.opening
        self._settings = settings
        self._opened = opened
        self._process: ShardProcess | None = None
        self._serving = False
        self._trouble: VectorStoreError | None = None
        self._known = asyncio.Event()  # whether it serves or is in trouble
        self._crashes = CrashRecord()
        self._backoff = Backoff(*settings.backoff_seconds)
        self._task = asyncio.create_task(self._run())

    @property
    def folder(self) -> Path:
        """The collection's folder."""
        return folders.folder(self._settings.root, self.name)

    @property
    def process(self) -> ShardProcess | None:
        """The process, if there is one now."""
        return self._process

    async def channel(self, deadline: float) -> Channel:
        """The way to the process. Raises VectorStoreError while there is none."""
        if not self._known.is_set():
            async with until(deadline):
                await self._known.wait()
        if self._process is None or not self._serving:
            raise self._trouble or VectorStoreUnavailable("the vector store's process is restarting")
        return self._process.channel

    def kill(self, channel: Channel) -> None:
        """End the process behind the channel, if it is still the one that serves; another will follow."""
        if self._process is not None and self._process.channel is channel:
            _log.warning("vector_shard_stalled", collection=self.name, pid=self._process.pid)
            self._process.kill()

    def switch(self, old: ShardProcess, new: ShardProcess, shard: str) -> None:
        """From now on `new`, which is ready, serves the collection from the folder `shard`.

        It blocks for one small durable file, so that nothing can happen between disk and memory.

        Raises:
            VectorStoreUnavailable: `old` serves no more, because it ended or was replaced.
            OSError: the description could not be written; `old` goes on serving.
        """
        if not self._serving or self._process is not old:
            raise VectorStoreUnavailable("the process to be replaced is gone")
        meta = msgspec.structs.replace(self.meta, shard=shard)
        folders.write_meta(self.folder, meta)
        self._process, self.meta = new, meta

    async def close(self) -> None:
        """Stop supervising, then the process, which writes everything to disk first."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._serving = False
        self._trouble = VectorStoreUnavailable("the vector store is closed")
        self._known.set()
        if self._process is not None:
            await self._process.stop()

    async def _run(self) -> None:
        while True:
            ending = await self._one_life()
            self._process, self._serving = None, False
            await self._react(ending)
            await asyncio.sleep(self._backoff.pause())

    async def _one_life(self) -> Ending:
        place = self.folder / self.meta.shard
        try:
            process = await ShardProcess.start(place, self.meta.dimension, self._opening, self._settings)
        except OSError as error:
            return Ending(Exit.BUSY, str(error))
        self._process = process
        ready = await process.ready(self._settings.start_seconds)
        if ready is None:
            return await process.ended()
        self._opening = Opening.LOAD
        self._serving, self._trouble = True, None
        self._known.set()
        self._opened(ready)
        _log.info("vector_shard_ready", collection=self.name, pid=process.pid)
        began = time.monotonic()
        ending = await self._last_ending(process)
        if time.monotonic() - began > _HEALTHY_SECONDS:
            self._backoff.reset()
        return ending

    async def _last_ending(self, process: ShardProcess) -> Ending:
        while True:
            ending = await process.ended()
            if self._process is None or self._process is process:
                return ending
            process = self._process  # it was switched

    async def _react(self, ending: Ending) -> None:
        room = await asyncio.to_thread(self._has_room)
        fate = self._crashes.fate(ending.code, room=room, now=time.monotonic())
        _log.warning(
            "vector_shard_ended",
            collection=self.name,
            code=ending.code,
            fate=fate.value,
            last_words=ending.words,
        )
        if fate is Fate.WAIT_FOR_ROOM:
            self._trouble = VectorStorageFull("the vector store has no room on its disk")
        else:
            self._trouble = VectorStoreUnavailable("the vector store's process is restarting")
        self._known.set()
        if fate is Fate.SET_ASIDE:
            await asyncio.to_thread(self._start_afresh)

    def _has_room(self) -> bool:
        try:
            return folders.free_bytes(self._settings.root) >= max(self._settings.reserve_bytes, MEBIBYTE)
        except OSError:  # a file system that cannot even say is no place to judge a shard by
            return False

    def _start_afresh(self) -> None:
        try:
            folders.set_aside(self._settings.root, self.name)
            self.meta = folders.create(self.folder, self.meta.dimension)
        except OSError as error:  # the next life finds nothing to open, and this is tried again
            _log.warning("vector_collection_not_replaced", collection=self.name, error=str(error))
            return
        self._opening = Opening.CREATE
        _log.warning("vector_collection_replaced", collection=self.name, incarnation=self.meta.incarnation)
