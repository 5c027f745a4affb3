"""What a client sends, read ahead in bounded memory, so that a request can be waited for, and with, at no cost."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from litestar.types import HTTPDisconnectEvent, HTTPReceiveMessage, Receive

AHEAD: Final = 64 * 1024  # bytes read before the request has its turn


class ClientGone(Exception):
    """The client went away before its request had its turn: nobody is there to be answered."""


class Mailbox:
    """The messages of one request, in order: those that were read ahead, then those that come."""

    def __init__(self, source: Receive) -> None:
        self._source = source
        self._held: deque[HTTPReceiveMessage] = deque()
        self._bytes = 0
        self._is_complete = False

    async def receive(self) -> HTTPReceiveMessage:
        """The next message. An ASGI `receive`."""
        if self._held:
            return self._held.popleft()
        message: HTTPReceiveMessage = await self._source()  # type: ignore[assignment] # never a WebSocket's
        return message

    async def read_body(self) -> None:
        """Read until the body is complete or AHEAD bytes are held. Raises ClientGone."""
        while not self._is_complete and self._bytes <= AHEAD:
            if await self._read() is None:
                raise ClientGone

    @asynccontextmanager
    async def watched(self) -> AsyncIterator["asyncio.Task[None]"]:
        """A task that ends when the client goes away; as long as that can be seen within AHEAD bytes."""
        watching = asyncio.create_task(self._until_gone())
        try:
            yield watching
        finally:
            watching.cancel()
            await asyncio.wait({watching})  # two must not read at once

    async def _until_gone(self) -> None:
        while self._bytes <= AHEAD:
            if await self._read() is None:
                return
        await asyncio.get_running_loop().create_future()

    async def _read(self) -> int | None:
        """Hold the next message; its bytes, or None when the client is gone."""
        message: HTTPReceiveMessage = await self._source()  # type: ignore[assignment] # never a WebSocket's
        if message["type"] == "http.disconnect":
            self._held.append(HTTPDisconnectEvent(type="http.disconnect"))
            return None
        self._held.append(message)
        self._bytes += len(message["body"])
        self._is_complete = not message.get("more_body", False)
        return len(message["body"])
