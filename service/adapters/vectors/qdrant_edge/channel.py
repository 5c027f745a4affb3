"""Many calls at once over one connection to a shard's process."""

import asyncio
import socket
import time
from itertools import count
from typing import TypeVar

import msgspec
import structlog

from service.adapters.vectors.deadlines import until
from service.adapters.vectors.qdrant_edge.wire import (
    ANSWERS,
    HEAD,
    UNASKED,
    Answer,
    BadFrame,
    Failed,
    Failure,
    Head,
    Ready,
    Request,
    frame,
)
from service.ports.vectors import (
    MalformedAnswer,
    VectorStorageFull,
    VectorStoreError,
    VectorStoreUnavailable,
)

_BUFFER = 1 << 20
_log = structlog.get_logger(__name__)
Expected = TypeVar("Expected", bound=Answer)


class Channel:
    """The calls in flight to one process. When it is lost they all fail at once, and it is never used again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        self._reader = reader
        self._writer = writer
        self._most = most
        self._calls = count(UNASKED + 1)
        self._pending: dict[int, asyncio.Future[tuple[Answer, bytes]]] = {}
        self._unanswered_since: float | None = None
        self.over = asyncio.Event()  # no call can be answered any more
        self.ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen())
        self._listening.add_done_callback(self._lose)  # also when it is cancelled before it began

    @classmethod
    async def attached(cls, connection: socket.socket, most: int) -> "Channel":
        """Take the connection over; at most `most` calls are in flight."""
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_BUFFER)
        return cls(reader, writer, most)

    @property
    def silent_for(self) -> float:
        """Seconds since the process was asked something without saying anything since. It answers
        everything, even what it drops because its deadline passed.
        """
        return 0.0 if self._unanswered_since is None else time.monotonic() - self._unanswered_since

    async def drain(self, seconds: float) -> None:
        """Wait for the calls in flight, but not longer."""
        if self._pending:
            await asyncio.wait(list(self._pending.values()), timeout=seconds)

    async def call(
        self, request: Request, body: bytes, expected: type[Expected], deadline: float
    ) -> tuple[Expected, bytes]:
        """The answer. After the deadline nobody waits, and an answer that still comes is dropped.

        Raises:
            VectorStoreUnavailable: the process is gone or has too much to do.
            VectorStoreTimeout | VectorStorageFull | VectorStoreError
        """
        if self.over.is_set():
            raise VectorStoreUnavailable("the vector store's process is gone")
        if len(self._pending) >= self._most:
            raise VectorStoreUnavailable("the vector store has too many calls in flight")
        if self._unanswered_since is None:
            self._unanswered_since = time.monotonic()
        call = next(self._calls)
        waiting = self._pending[call] = asyncio.get_running_loop().create_future()
        try:
            async with until(deadline):
                self._writer.write(frame(call, deadline, request, body))
                await self._writer.drain()
                answer, rest = await waiting
        except ConnectionError as error:
            raise VectorStoreUnavailable("the vector store's process is gone") from error
        finally:
            self._pending.pop(call, None)
            waiting.cancel()
        return _as_expected(answer, expected), rest

    async def close(self) -> None:
        """Hang up; the process notices and ends by itself."""
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while True:
                head = Head.read(await self._reader.readexactly(HEAD.size))
                answer = ANSWERS.decode(await self._reader.readexactly(head.message))
                body = await self._reader.readexactly(head.body)
                self._heard(head.call, answer, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the ordinary way to learn that the process ended
        except (BadFrame, msgspec.MsgspecError) as error:
            _log.warning("vector_shard_speaks_nonsense", error=str(error))

    def _heard(self, call: int, answer: Ready | Answer, body: bytes) -> None:
        self._unanswered_since = None
        if isinstance(answer, Ready):
            if not self.ready.done():
                self.ready.set_result(answer)
            return
        waiting = self._pending.get(call)
        if waiting is not None and not waiting.done():
            waiting.set_result((answer, body))

    def _lose(self, _: asyncio.Task[None]) -> None:
        self.over.set()
        self._writer.close()
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(VectorStoreUnavailable("the vector store's process ended"))
        self.ready.cancel()


def _as_expected(answer: Answer, expected: type[Expected]) -> Expected:
    if isinstance(answer, expected):
        return answer
    if not isinstance(answer, Failed):
        raise MalformedAnswer("the vector store answered another question")
    _log.warning("vector_shard_failed", failure=answer.failure.value, detail=answer.detail)
    if answer.failure is Failure.FULL:
        raise VectorStorageFull("the vector store has no room on its disk")
    if answer.failure is Failure.DAMAGED:
        raise VectorStoreUnavailable("the vector collection is damaged and is being replaced")
    raise VectorStoreError("the vector engine failed")
