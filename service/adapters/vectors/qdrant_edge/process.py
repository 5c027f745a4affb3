"""A shard's process as its parent sees it: started, ready, ended."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import dataclass
from pathlib import Path

import msgspec

import service
from service.adapters.vectors.qdrant_edge.channel import Channel
from service.adapters.vectors.qdrant_edge.launch import BuildOptions, Opening, ShardOptions, argument
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings, Quantization
from service.adapters.vectors.qdrant_edge.wire import Ready

_PACKAGE = "service.adapters.vectors.qdrant_edge"
_IMPORT_ROOT = Path(service.__file__).resolve().parents[1]
_DRAIN_SECONDS = 1.0
_GOODBYE_SECONDS = 5.0
_WORDS_KEPT = 4096  # bytes of what a process said last


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: its exit code, or minus the signal's number; and its last words, for the log."""

    code: int
    words: str


class ShardProcess:
    """One running process that serves one shard."""

    def __init__(self, process: Process, channel: Channel) -> None:
        self._process = process
        self.channel = channel
        self._last_words = asyncio.create_task(_tail(process))

    @classmethod
    async def start(
        cls, folder: Path, dimension: int, opening: Opening, settings: EdgeSettings
    ) -> "ShardProcess":
        """Start the process; it is not `ready` yet. Raises OSError when the system cannot."""
        ours, theirs = socket.socketpair()
        try:
            options = _shard_options(folder, dimension, opening, settings)
            options = msgspec.structs.replace(options, descriptor=theirs.fileno())
            process = await _spawn("serve_shard", argument(options), (theirs.fileno(),), DEVNULL)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, await Channel.attached(ours, settings.calls_in_flight))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ready(self, seconds: float) -> Ready | None:
        """What it says when its shard is open, or None if it ended or took too long (then it is killed)."""
        done, _ = await asyncio.wait([self.channel.ready], timeout=seconds)
        if not done:
            self.kill()
            return None
        return None if self.channel.ready.cancelled() else self.channel.ready.result()

    async def ended(self) -> Ending:
        """Wait for its end, however it comes. One that hung up has a while to end by itself."""
        await self.channel.over.wait()
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.kill()
        code = await self._process.wait()
        return Ending(code, await asyncio.shield(self._last_words))

    async def stop(self) -> None:
        """Let it answer, write everything to disk and end; kill it if it takes too long."""
        await self.channel.drain(_DRAIN_SECONDS)
        await self.channel.close()
        await self.ended()

    def kill(self) -> None:
        """End it at once."""
        if self._process.returncode is None:
            self._process.kill()


class GraphBuilder:
    """One running process that builds a graph in a copy of a shard."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last_words = asyncio.create_task(_tail(process))

    @classmethod
    async def start(
        cls, source: Path, target: Path, dimension: int, settings: EdgeSettings
    ) -> "GraphBuilder":
        """Start building. Raises OSError when the system cannot."""
        graph = settings.graph
        options = BuildOptions(
            source=str(source),
            target=str(target),
            dimension=dimension,
            parent=os.getpid(),
            links=graph.links,
            build_depth=graph.build_depth,
            exact_points=settings.exact_points,
            int8=graph.quantization is Quantization.INT8,
            threads=graph.threads,
        )
        return cls(await _spawn("build_graph", argument(options), (), PIPE))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def copied(self) -> bool:
        """Whether the copy is complete; until then nobody may write to the source."""
        if self._process.stdout is None:
            return False
        return bool(await self._process.stdout.readline())

    async def ended(self) -> Ending:
        """Wait for its end."""
        while await self.copied():
            continue
        words = await self._last_words
        return Ending(await self._process.wait(), words)

    async def stop(self) -> None:
        """End it at once, if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()


def _shard_options(folder: Path, dimension: int, opening: Opening, settings: EdgeSettings) -> ShardOptions:
    return ShardOptions(
        folder=str(folder),
        opening=opening,
        dimension=dimension,
        descriptor=-1,
        parent=os.getpid(),
        search_depth=settings.graph.search_depth,
        oversampling=settings.graph.oversampling,
        reserve_bytes=settings.reserve_bytes,
    )


async def _spawn(module: str, options: str, descriptors: tuple[int, ...], output: int) -> Process:
    # A session of its own: Ctrl-C at a terminal goes to the service, which ends its processes in order.
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"{_PACKAGE}.{module}",
        options,
        stdin=DEVNULL,
        stdout=output,
        stderr=PIPE,
        cwd=_IMPORT_ROOT,
        pass_fds=descriptors,
        start_new_session=True,
    )


async def _tail(process: Process) -> str:
    kept = b""
    if process.stderr is not None:
        while said := await process.stderr.read(_WORDS_KEPT):
            kept = (kept + said)[-_WORDS_KEPT:]
    return kept.decode(errors="replace")
