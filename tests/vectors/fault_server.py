"""A real HTTP server on loopback that misbehaves as it is told."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

Reply = Callable[[str, bytes], Awaitable[bytes]]

COLLECTION_INFO = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "points_count": 0,
    "indexed_vectors_count": 0,
    "payload_schema": {},
    "config": {
        "params": {"vectors": {"size": 8, "distance": "Cosine"}},
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
        "metadata": {"incarnation": "abc"},
    },
}


def http(status: int, body: bytes, *headers: str) -> bytes:
    """A whole response."""
    head = [
        f"HTTP/1.1 {status} x",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def result(value: object) -> bytes:
    """What a Qdrant server answers when all is well."""
    return http(200, json.dumps({"result": value, "status": "ok", "time": 0.0}).encode())


def _reserved_port() -> socket.socket:
    """A port that no other socket gets, although nobody listens there yet."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


@dataclass(slots=True)
class LoopbackServer:
    """HTTP on a port of its own, which stays its own while nobody listens there; a subclass answers."""

    asked: list[str] = field(default_factory=list, kw_only=True)
    _port: socket.socket = field(default_factory=_reserved_port, kw_only=True)
    _server: asyncio.Server | None = field(default=None, kw_only=True)
    _connections: set[asyncio.StreamWriter] = field(default_factory=set, kw_only=True)

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        self._port.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port.getsockname()[1]}"

    async def listen(self) -> None:
        """Take connections."""
        port = self._port.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, reuse_port=True)

    def refuse(self) -> None:
        """Listen no more, and cut every connection."""
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection."""
        for writer in self._connections:
            writer.transport.abort()

    async def answer(self, method: str, path: str, body: bytes) -> bytes:
        """The whole response to a request; `path` goes on with the query."""
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *headers = head.split("\r\n")
                sizes = [int(h.split(":")[1]) for h in headers if h.lower().startswith("content-length")]
                body = await reader.readexactly(sum(sizes))
                method, path, _ = line.split(" ")
                self.asked.append(f"{method} {path.partition('?')[0]}")
                writer.write(await self.answer(method, path, body))
                await writer.drain()
        self._connections.discard(writer)
        writer.close()


@dataclass(slots=True)
class FaultServer(LoopbackServer):
    """Knows one collection of dimension 8; whatever else it is asked, `reply` decides."""

    reply: Reply

    async def answer(self, method: str, path: str, body: bytes) -> bytes:
        """What the collection is, or as `reply` says."""
        plain = method == "GET" and "/collections/" in path
        return result(COLLECTION_INFO) if plain else await self.reply(path, body)
