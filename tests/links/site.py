"""A real HTTP server on loopback whose pages are functions, and which counts what it is asked."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

CHUNK = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]


Page = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Site:
    """Use as an async context manager. Pages are looked up by path; a missing page is 404."""

    pages: dict[str, Page] = field(default_factory=dict)
    address: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    active: int = 0
    most_active: int = 0
    _server: asyncio.Server | None = None
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.address, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    def url(self, path: str, host: str | None = None) -> str:
        """The address of a page, under the server's own address or a name for it."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{host or self.address}:{self.port}{path}"

    def methods(self, path: str) -> list[str]:
        """The methods with which a path was asked, in order."""
        return [asked.method for asked in self.asked if asked.target == path]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        self.connections += 1
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._handlers.discard(handler)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = request.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        asked = Asked(method, target, headers)
        self.asked.append(asked)
        self.arrived.set()
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await self.pages.get(target.partition("?")[0], status(404))(asked, writer)
        finally:
            self.active -= 1


def status(code: int, **headers: str) -> Page:
    """A page that answers with a status and headers (`retry_after` is Retry-After) and a short body."""

    async def page(asked: Asked, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {code} Status", "Content-Length: 2", "Set-Cookie: seen=1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        body = "" if asked.method == "HEAD" else "ok"
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode("utf-8"))
        await writer.drain()

    return page


def by_method(**pages: Page) -> Page:
    """A page that differs by method."""

    async def page(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await pages[asked.method](asked, writer)

    return page


def in_turn(*pages: Page) -> Page:
    """A page that is another at each request; the last one stays."""
    left = list(pages)

    async def page(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(asked, writer)

    return page


async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.Event().wait()


async def dripping(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Sends a header byte now and then, so that no single read ever times out."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def resetting(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Resets the connection instead of answering."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    await asyncio.sleep(0)


async def gibberish(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Answers something that is not HTTP."""
    writer.write(b"220 mail.example ESMTP\r\n\r\n")
    await writer.drain()


@dataclass(slots=True)
class HugePage:
    """A body that ends only when the client hangs up. `sent` counts the bytes that left this server.

    Its own send buffer is small, so that what it sent is what the client's side took in.
    """

    sent: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(CHUNK))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
        try:
            while True:
                writer.write(CHUNK)
                await writer.drain()
                self.sent += len(CHUNK)
        except ConnectionError:
            self.hung_up.set()
