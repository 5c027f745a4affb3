"""A real HTTP server on loopback that misbehaves as it is told."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class FaultServer:
    """Knows one collection of dimension 8; whatever else it is asked, `reply` decides."""

    reply: Reply
    asked: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> "FaultServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *headers = head.split("\r\n")
                sizes = [int(h.split(":")[1]) for h in headers if h.lower().startswith("content-length")]
                body = await reader.readexactly(sum(sizes))
                method, path, _ = line.split(" ")
                self.asked.append(f"{method} {path.partition('?')[0]}")
                plain = method == "GET" and "/collections/" in path
                writer.write(result(COLLECTION_INFO) if plain else await self.reply(path, body))
                await writer.drain()
        writer.close()
