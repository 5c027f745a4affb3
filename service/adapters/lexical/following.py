"""Applying the change log to an index, entry by entry, as long as the log tells the index's own history."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from service.adapters.lexical.engine import EngineError
from service.adapters.lexical.generation import Generation
from service.adapters.lexical.statistics import Delta
from service.errors import Unavailable
from service.model import ChangeKind, Workspace
from service.ports.store import Change, ChangeFeed, IndexablePassage, PassageKey

T = TypeVar("T")
CHANGES = 500  # log entries applied at a time
PAGE = 2_000  # passages read at a time
PUT_BACK = "the database was put back to an earlier state"


async def on(executor: Executor, call: Callable[[], T]) -> T:
    """Run blocking work on a thread."""
    return await asyncio.get_running_loop().run_in_executor(executor, call)


@dataclass(frozen=True, slots=True)
class Follower:
    """Follows one workspace's entries. `heed` is called where the log asks for a rebuild; `grace` in seconds."""

    workspace: Workspace
    feed: ChangeFeed
    executor: Executor
    grace: float
    heed: Callable[[Generation], None]

    async def follow(self, generation: Generation, target: int) -> None:
        """Apply log entries up to `target`, no further: a view of a snapshot shows just that snapshot.

        Raises EngineError, also where the log has become another one, and StoreUnavailable.
        """
        while generation.applied < target:
            stretch = await self.feed.stretch(self.workspace, generation.applied, target, CHANGES)
            if stretch.before != generation.nonce or stretch.head < target:
                raise EngineError(PUT_BACK)
            if any(change.kind is ChangeKind.REBUILD for change in stretch.changes):
                self.heed(generation)
            try:
                await self._apply(generation, stretch.changes)
            except Unavailable:
                generation.replay_until = target  # a part of it may be in the index by now
                raise
            generation.applied, generation.nonce = stretch.end, stretch.nonce
            generation.saved = False

    async def _apply(self, generation: Generation, changes: Sequence[Change]) -> None:
        added = {c.item_key for c in changes if c.kind is ChangeKind.ITEM_ADDED and c.item_key is not None}
        stale = {c.item_key for c in changes if c.kind is ChangeKind.ITEM_STALE and c.item_key is not None}
        entering, leaving = sorted(added - stale), sorted(stale - added)
        engine, delta, gone = generation.engine, Delta(), []
        if added:
            generation.wrote_at = time.monotonic()
        if generation.applied < generation.replay_until:  # all of them may be in the index already
            async for page in self._pages(sorted(added)):
                await on(self.executor, partial(engine.delete, [passage.key for passage in page]))
        async for page in self._pages(entering):
            await on(self.executor, partial(engine.add, page))
            delta.enter(page)
        async for page in self._pages(leaving):
            delta.leave(page)
            gone += [passage.key for passage in page]
        if added:
            generation.searcher = await on(self.executor, engine.commit)
        generation.counts.apply(delta)
        if gone:
            generation.leaving.append((time.monotonic() + self.grace, tuple(gone)))

    async def _pages(self, item_keys: Sequence[int]) -> AsyncIterator[Sequence[IndexablePassage]]:
        after: PassageKey | None = None
        while item_keys and (found := await self.feed.indexable(item_keys, after, PAGE)):
            after = found[-1][1].key
            yield [passage for _, passage in found]
