"""The two kinds of processes as their parent sees them: one serves a shard, one builds a graph."""

import asyncio
import os
from pathlib import Path

from service.adapters.vectors.qdrant_edge.channel import Channel
from service.adapters.vectors.qdrant_edge.child import Child, Ending
from service.adapters.vectors.qdrant_edge.launch import COPIED, BuildOptions, Opening, ShardOptions
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings, Quantization
from service.adapters.vectors.qdrant_edge.wire import Ready

_DRAIN_SECONDS = 1.0
_TO_BE_SET = -1  # by Child


class ShardProcess:
    """One running process that serves one shard."""

    def __init__(self, child: Child, channel: Channel) -> None:
        self._child = child
        self.channel = channel

    @classmethod
    async def start(
        cls, folder: Path, dimension: int, opening: Opening, settings: EdgeSettings
    ) -> "ShardProcess":
        """Start the process; it is not `ready` yet. Raises OSError when the system cannot."""
        child = Child("serve_shard", _shard_options(folder, dimension, opening, settings))
        try:
            channel = await Channel.attached(child.connection, settings.calls_in_flight)
        except asyncio.CancelledError:
            child.connection.close()
            child.kill()
            await child.ended()
            raise
        return cls(child, channel)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    async def ready(self, seconds: float) -> Ready | None:
        """What it says when its shard is open, or None if it ended or took too long (then it is killed)."""
        done, _ = await asyncio.wait([self.channel.ready], timeout=seconds)
        if not done:
            self.kill()
            return None
        return None if self.channel.ready.cancelled() else self.channel.ready.result()

    async def ended(self) -> Ending:
        """Wait for its end, however it comes."""
        await self.channel.over.wait()
        return await self._child.ended()

    async def stop(self) -> None:
        """Let it answer, write everything to disk and end; kill it if it takes too long.

        Cancelled, it kills the process at once: what was acknowledged is in the shard's log.
        """
        try:
            await self.channel.drain(_DRAIN_SECONDS)
            await self.channel.close()
            await self.ended()
        except asyncio.CancelledError:
            self.kill()
            await self._child.ended()
            raise

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()


class GraphBuilder:
    """One running process that builds a graph in a copy of a shard."""

    def __init__(self, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(
        cls, source: Path, target: Path, dimension: int, settings: EdgeSettings
    ) -> "GraphBuilder":
        """Start building. Raises OSError when the system cannot."""
        child = Child("build_graph", _build_options(source, target, dimension, settings))
        try:
            reader, writer = await asyncio.open_unix_connection(sock=child.connection)
        except asyncio.CancelledError:
            child.connection.close()
            child.kill()
            await child.ended()
            raise
        return cls(child, reader, writer)

    async def copied(self) -> bool:
        """Whether the copy is complete; until then nobody may write to the source."""
        return await self._reader.readline() == COPIED

    async def ended(self) -> Ending:
        """Wait for its end."""
        await self._reader.read()
        self._writer.close()
        return await self._child.ended()

    async def stop(self) -> None:
        """End it at once, if it still runs."""
        self._child.kill()
        await self.ended()


def _shard_options(folder: Path, dimension: int, opening: Opening, settings: EdgeSettings) -> ShardOptions:
    return ShardOptions(
        folder=str(folder.absolute()),
        opening=opening,
        dimension=dimension,
        descriptor=_TO_BE_SET,
        parent=os.getpid(),
        search_depth=settings.graph.search_depth,
        oversampling=settings.graph.oversampling,
        reserve_bytes=settings.reserve_bytes,
    )


def _build_options(source: Path, target: Path, dimension: int, settings: EdgeSettings) -> BuildOptions:
    return BuildOptions(
        source=str(source.absolute()),
        target=str(target.absolute()),
        dimension=dimension,
        descriptor=_TO_BE_SET,
        parent=os.getpid(),
        links=settings.graph.links,
        build_depth=settings.graph.build_depth,
        exact_points=settings.exact_points,
        int8=settings.graph.quantization is Quantization.INT8,
        threads=settings.graph.threads,
    )
