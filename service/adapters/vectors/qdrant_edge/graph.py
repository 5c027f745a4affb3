"""Builds a collection's HNSW graph beside the serving shard and switches to it without a pause.

Copy while writers wait, build in a niced process of its own, open the result in a new process, carry over
what was written meanwhile until nothing is left, switch. A failure or a crash at any point leaves the
serving shard as it was.
"""

import asyncio
import shutil
import time
from pathlib import Path
from uuid import UUID

import structlog

from service.adapters.vectors.qdrant_edge import folders
from service.adapters.vectors.qdrant_edge.collection import ServedCollection
from service.adapters.vectors.qdrant_edge.launch import Exit, Opening
from service.adapters.vectors.qdrant_edge.process import GraphBuilder, ShardProcess
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.adapters.vectors.qdrant_edge.wire import (
    Delete,
    Done,
    Export,
    Exported,
    Flush,
    Upsert,
    pack_ids,
)
from service.ports.vectors import VectorStorageFull, VectorStoreError, VectorStoreUnavailable

_STEP_SECONDS = 60.0  # for anything but the build itself
_RETRY_SECONDS = 60.0
_LARGEST = 4  # times exact_points: beyond that many outside the graph, size is no reason to wait …
_IMPATIENCE = 4  # … and beyond so many times the threshold, busy writers are none either
_CARRIED = 256  # points at a time
_ROUNDS = 50  # then writers wait for the rest
_ROOM = 3  # times the shard's size: the copy, and old and new segment while the graph is built
_log = structlog.get_logger(__name__)


def threshold(points: int, exact_points: int) -> int:
    """How many points may stay outside the graph: more in a larger collection, so that builds stay rare."""
    return max(exact_points, min(points // 5, _LARGEST * exact_points))


class GraphKeeper:
    """Watches one collection for as long as it is open."""

    def __init__(self, collection: ServedCollection, settings: EdgeSettings) -> None:
        self._collection = collection
        self._supervisor = collection.supervisor
        self._settings = settings
        self._one_build = asyncio.Lock()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Give up a build that is under way."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def build(self) -> None:
        """Build and switch now.

        Raises:
            VectorStoreError | OSError: nothing changed.
        """
        async with self._one_build:
            began = time.monotonic()
            shard = folders.new_shard()
            place = self._supervisor.folder / shard
            try:
                serving = await self._build_in(place)
                left = await self._switch(serving, await self._open(place), shard)
            except BaseException:
                if self._supervisor.meta.shard != shard:  # once it serves, a stop may still be called off
                    await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
                raise
            finally:
                self._collection.end_journal()
            seconds = round(time.monotonic() - began, 1)
            _log.info("vector_graph_built", collection=self._supervisor.name, seconds=seconds)
            await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)

    async def _run(self) -> None:
        while True:
            await self._needed()
            try:
                await self.build()
            except (VectorStoreError, OSError) as error:
                _log.warning("vector_graph_not_built", collection=self._supervisor.name, error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                self._collection.changed.set()

    async def _needed(self) -> None:
        while True:
            await self._collection.changed.wait()
            self._collection.changed.clear()
            while (wait := self._wait()) is not None:
                if wait <= 0:
                    return
                await asyncio.sleep(wait)

    def _wait(self) -> float | None:
        """Seconds until a build is due; None while there is no need of one."""
        most = threshold(self._collection.points, self._settings.exact_points)
        outside = self._collection.outside_graph
        if outside <= most:
            return None
        if outside > _IMPATIENCE * most:
            return 0.0
        return self._collection.wrote_at + self._settings.settle_seconds - time.monotonic()

    async def _build_in(self, place: Path) -> ShardProcess:
        """Returns the process whose shard was copied; if another takes its place, the copy is worthless."""
        meta = self._supervisor.meta
        source = self._supervisor.folder / meta.shard
        await asyncio.to_thread(self._need_room, source)
        deadline = time.monotonic() + _STEP_SECONDS
        async with self._collection.writing(deadline):
            await self._collection.settle_files(deadline)
            serving = self._supervisor.process
            self._collection.start_journal()
            builder = await GraphBuilder.start(source, place, meta.dimension, self._settings)
            try:
                copied = await builder.copied()
            except BaseException:
                await builder.stop()
                raise
        try:
            if serving is None or serving is not self._supervisor.process or not copied:
                raise VectorStoreUnavailable("the shard could not be copied in peace")
            ending = await builder.ended()
        finally:
            await builder.stop()
        if ending.code != Exit.CLEAN:
            raise VectorStoreError(f"the graph builder ended with {ending.code}")
        return serving

    def _need_room(self, source: Path) -> None:
        needed = _ROOM * folders.size_bytes(source) + self._settings.reserve_bytes
        if folders.free_bytes(self._settings.root) < needed:
            raise VectorStorageFull("too little room to build a graph")

    async def _open(self, place: Path) -> ShardProcess:
        dimension = self._supervisor.meta.dimension
        process = await ShardProcess.start(place, dimension, Opening.LOAD, self._settings)
        try:
            ready = await process.ready(self._settings.start_seconds)
        except asyncio.CancelledError:
            process.kill()
            await process.ended()
            raise
        if ready is None:
            ending = await process.ended()
            raise VectorStoreError(f"the new shard's process ended with {ending.code}")
        return process

    async def _switch(self, serving: ShardProcess, process: ShardProcess, shard: str) -> Path:
        """Returns the folder that is no longer used."""
        meta = self._supervisor.meta
        unneeded = process
        try:
            await self._catch_up(process)
            async with self._collection.writing(time.monotonic() + _STEP_SECONDS):
                await self._carry(process, self._collection.take_journal())
                done = await _told(process, Flush(), b"")
                self._supervisor.switch(serving, process, shard)
                unneeded = serving
                self._collection.note(done)
        finally:
            await unneeded.stop()
        return self._supervisor.folder / meta.shard

    async def _catch_up(self, process: ShardProcess) -> None:
        for _ in range(_ROUNDS):
            changed = self._collection.take_journal()
            await self._carry(process, changed)
            if len(changed) <= _CARRIED:
                return

    async def _carry(self, process: ShardProcess, changed: set[UUID]) -> None:
        """Make these points in the new shard what they are in the serving one."""
        ids = sorted(changed)
        for start in range(0, len(ids), _CARRIED):
            some = ids[start : start + _CARRIED]
            deadline = time.monotonic() + _STEP_SECONDS
            found, vectors = await self._collection.call(Export(), pack_ids(some), Exported, deadline)
            present = {UUID(bytes=point[0]) for point in found.points}
            if found.points:
                await _told(process, Upsert(found.points), vectors)
            await _told(process, Delete(), pack_ids(set(some) - present))


async def _told(process: ShardProcess, request: Upsert | Delete | Flush, body: bytes) -> Done:
    done, _ = await process.channel.call(request, body, Done, time.monotonic() + _STEP_SECONDS)
    return done
