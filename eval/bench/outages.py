"""Vector stores that are down: nobody listens, nobody answers, or the process is killed again and again."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from eval.bench.http import free_port
from eval.bench.ready import GENEROUS_S, edge
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings
from service.ports.vectors import CollectionName

KILL_EVERY_S = 0.02
QUEUE = 512  # connections that are taken by the system and never looked at


@asynccontextmanager
async def refusing() -> AsyncIterator[ServerVectorIndex]:
    """The server adapter on a port where nobody listens."""
    async with _on_server(free_port()) as index:
        yield index


@asynccontextmanager
async def silent() -> AsyncIterator[ServerVectorIndex]:
    """The server adapter on a port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=QUEUE) as listening:
        async with _on_server(listening.getsockname()[1]) as index:
            yield index


@asynccontextmanager
async def dying(folder: Path, collection: CollectionName, dimension: int) -> AsyncIterator[EdgeVectorIndex]:
    """The embedded store, whose process served once and is killed whenever it comes back."""
    async with edge(folder, 10**9) as index:
        await index.ensure(collection, dimension, time.monotonic() + GENEROUS_S)
        killing = asyncio.create_task(_keep_killing())
        try:
            await asyncio.sleep(10 * KILL_EVERY_S)
            yield index
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)


def kill_shards() -> None:
    """Kill our children that serve a shard."""
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "serve_shard" in " ".join(child.cmdline()):
                child.kill()


async def _keep_killing() -> None:
    while True:
        kill_shards()
        await asyncio.sleep(KILL_EVERY_S)


@asynccontextmanager
async def _on_server(port: int) -> AsyncIterator[ServerVectorIndex]:
    index = ServerVectorIndex(connect(ServerSettings(f"http://127.0.0.1:{port}")), CollectionSettings())
    try:
        yield index
    finally:
        await index.close()
