"""One served collection: calls to its process, and the order of its writes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from service.adapters.vectors.deadlines import until
from service.adapters.vectors.qdrant_edge.channel import Channel
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.adapters.vectors.qdrant_edge.supervisor import Found, Supervisor
from service.adapters.vectors.qdrant_edge.wire import (
    Answer,
    Count,
    Counted,
    Delete,
    Done,
    Flush,
    Ready,
    Request,
    Upsert,
)
from service.ports.vectors import CollectionState, VectorStoreTimeout

Expected = TypeVar("Expected", bound=Answer)


class ServedCollection:
    """Reads run at once, writes one after the other; a write is durable when its call returns."""

    def __init__(self, found: Found, settings: EdgeSettings) -> None:
        self.supervisor = Supervisor(found, settings, self.note)
        self.points = 0
        self.outside_graph = 0
        self.changed = asyncio.Event()  # set whenever one of the two may have grown
        self.wrote_at = time.monotonic()
        self._stall_seconds = settings.stall_seconds
        self._one_writer = asyncio.Lock()
        self._journal: set[UUID] | None = None

    async def call(
        self, request: Request, body: bytes, expected: type[Expected], deadline: float
    ) -> tuple[Expected, bytes]:
        """One question, one answer. A process that stopped answering anything is replaced."""
        return await self._ask(await self.supervisor.channel(deadline), request, body, expected, deadline)

    async def write(
        self, request: Upsert | Delete, ids: Iterable[UUID], body: bytes, deadline: float
    ) -> None:
        """Make the change to the points named by `ids`."""
        async with self.writing(deadline):
            try:
                done, _ = await self.call(request, body, Done, deadline)
            finally:  # even a write that timed out may have happened; noted earlier, it could be read too early
                if self._journal is not None:
                    self._journal.update(ids)
        self.wrote_at = time.monotonic()
        self.note(done)

    async def describe(self, deadline: float) -> CollectionState:
        """The number of points is that of the incarnation named with it."""
        channel = await self.supervisor.channel(deadline)
        meta = self.supervisor.meta
        counted, _ = await self._ask(channel, Count(None), b"", Counted, deadline)
        return CollectionState(self.supervisor.name, meta.dimension, counted.points, meta.incarnation)

    @asynccontextmanager
    async def writing(self, deadline: float) -> AsyncIterator[None]:
        """Nobody else writes meanwhile. Raises VectorStoreTimeout if that is not so in time."""
        async with until(deadline):
            await self._one_writer.acquire()
        try:
            yield
        finally:
            self._one_writer.release()

    async def settle_files(self, deadline: float) -> None:
        """Bring the files up to date; while the caller is `writing` they stay as they are."""
        await self.call(Flush(), b"", Done, deadline)

    def start_journal(self) -> None:
        """From now on remember which points were written or removed."""
        self._journal = set()

    def take_journal(self) -> set[UUID]:
        """What was remembered so far; remembering goes on, from empty."""
        taken, self._journal = self._journal or set(), set()
        return taken

    def end_journal(self) -> None:
        """Remember no more."""
        self._journal = None

    async def close(self) -> None:
        """End the process; what was written stays."""
        await self.supervisor.close()

    def note(self, said: Ready | Done) -> None:
        """Learn how many points there are, and how many of them outside the graph."""
        self.points, self.outside_graph = said.points, said.outside_graph
        self.changed.set()

    async def _ask(
        self, channel: Channel, request: Request, body: bytes, expected: type[Expected], deadline: float
    ) -> tuple[Expected, bytes]:
        try:
            return await channel.call(request, body, expected, deadline)
        except VectorStoreTimeout:
            if channel.silent_for > self._stall_seconds:
                self.supervisor.kill(channel)
            raise
