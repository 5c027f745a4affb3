"""The index of one workspace: follows the change log, repairs itself, and serves views.

All state changes happen on the event loop, between awaits; blocking work runs on one writer thread. A view is
therefore always the index and the counts of one sequence number.
"""

import asyncio
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from service.adapters.lexical.checksums import all_intact
from service.adapters.lexical.engine import Engine, EngineError, EngineSearcher
from service.adapters.lexical.folder import Checkpoint, DamagedFolder, WorkspaceFolder
from service.adapters.lexical.statistics import Counts, Delta
from service.core.scoring import TermStatistics
from service.errors import Unavailable
from service.model import ChangeKind, Workspace
from service.ports.store import Change, ChangeFeed, IndexablePassage, PassageKey, Store

T = TypeVar("T")
CHANGES = 500  # log entries applied at a time
PAGE = 2_000  # passages read at a time
COMMIT_EVERY = 20_000  # passages of a rebuild between two commits
RETRY_AFTER_S = 5.0  # between two attempts to build an index that failed


class ShardState(StrEnum):
    """Whether the index can propose candidates."""

    READY = "ready"
    BUILDING = "building"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ShardTiming:
    """In seconds. `grace` is how long stale passages stay for readers of an older snapshot."""

    grace: float = 5.0
    checkpoint_every: float = 30.0
    check_every: float = 600.0  # a file altered under a running process shows by its checksum only


@dataclass(frozen=True, slots=True)
class Capture:
    """The searcher and the statistics of one sequence number, and the index that they are of."""

    seq: int
    searcher: EngineSearcher
    statistics: TermStatistics
    generation: "Generation"


@dataclass(slots=True, eq=False)
class Generation:
    """A usable index. `leaving` are stale passages, each batch with the time from which it may be removed."""

    path: Path
    engine: Engine
    searcher: EngineSearcher
    counts: Counts
    applied: int
    replay_until: int  # entries up to here may be in the index already
    leaving: deque[tuple[float, tuple[int, ...]]] = field(default_factory=deque)
    saved: bool = True

    def leaving_keys(self) -> tuple[int, ...]:
        return tuple(key for _, keys in self.leaving for key in keys)


class Shard:
    """One workspace's lexical index."""

    def __init__(
        self,
        workspace: Workspace,
        sources: tuple[Store, ChangeFeed],
        folder: WorkspaceFolder,
        executor: Executor,
        timing: ShardTiming,
    ) -> None:
        self._workspace = workspace
        self._store, self._feed = sources
        self._folder = folder
        self._executor = executor
        self._timing = timing
        self._lock = asyncio.Lock()
        self._current: Generation | None = None
        self._building: asyncio.Task[None] | None = None
        self._saved_at = self._checked_at = time.monotonic()
        self._retry_at = float("-inf")
        self.failure: str | None = None
        self.rebuilds = 0

    @property
    def state(self) -> ShardState:
        """Ready, being built, or failed and waiting for the next attempt."""
        if self._current is not None:
            return ShardState.READY
        return ShardState.BUILDING if self.failure is None else ShardState.FAILED

    @property
    def applied(self) -> int | None:
        """The sequence number the index shows, if there is an index."""
        return None if self._current is None else self._current.applied

    @property
    def documents(self) -> int:
        """Passages in the index, those that are about to leave among them."""
        return 0 if self._current is None else self._current.searcher.documents

    def capture(self, at_least: int, terms: Sequence[str]) -> Capture | None:
        """The index if it is usable and shows at least `at_least`. Synchronous: nothing can move in between."""
        current = self._current
        if current is None or current.applied < at_least:
            return None
        return Capture(current.applied, current.searcher, current.counts.statistics(terms), current)

    async def advance(self, target: int) -> None:
        """Bring the index to at least `target`, building it first where there is none. Not to be cancelled."""
        if self._current is None and time.monotonic() >= self._retry_at:
            await self._build_in_background()
        async with self._lock:
            if self._current is not None and self._current.applied < target:
                await self._guarded(self._follow(self._current, target))

    async def rebuild(self) -> None:
        """Build a new generation from the rows and switch to it; the old one serves meanwhile."""
        await self._build_in_background()

    async def damaged(self, generation: Generation, reason: str) -> None:
        """A search failed: forget that index, so that the next `advance` builds a new one.

        Several searches may find the same damage; the last of them must not cost the index built meanwhile.
        """
        async with self._lock:
            if self._current is generation:
                await self._abandon(reason)

    async def maintain(self) -> None:
        """Remove what has been stale long enough; save a checkpoint and check the files when it is time."""
        async with self._lock:
            current = self._current
            if current is None:
                return
            if current.leaving and current.leaving[0][0] <= time.monotonic():
                await self._guarded(self._purge(current))
            if time.monotonic() - self._saved_at >= self._timing.checkpoint_every:
                await self._guarded(self._save(current))
            if time.monotonic() - self._checked_at >= self._timing.check_every:
                await self._guarded(self._check(current))

    async def close(self) -> None:
        """Save a checkpoint, unless the database is away, and give the folder back."""
        if self._building is not None:
            with suppress(Unavailable):
                await self._building
        async with self._lock:
            current = self._current
            if current is None:
                return
            with suppress(Unavailable):  # the next start replays the log from the checkpoint before
                await self._guarded(self._save(current))
            self._current = None
            await self._blocking(lambda: _discard(current.engine))

    async def _guarded(self, step: Coroutine[None, None, None]) -> None:
        """Run a step; the engine's and the disk's errors cost the index, never the caller."""
        try:
            await step
        except (EngineError, OSError) as error:
            await self._abandon(str(error))

    async def _abandon(self, reason: str) -> None:
        self.failure = reason
        current, self._current = self._current, None
        if current is not None:
            await self._throw_away(current.engine, current.path)

    async def _throw_away(self, engine: Engine | None, path: Path) -> None:
        """Close an engine and remove its folder."""
        if engine is not None:
            await self._blocking(lambda: _discard(engine))
        await self._blocking(lambda: shutil.rmtree(path, ignore_errors=True))

    async def _build_in_background(self) -> None:
        """One build at a time, whoever asks; a caller that goes away does not stop it."""
        if self._building is None or self._building.done():
            self._building = asyncio.create_task(self._build_and_switch())
        await asyncio.shield(self._building)

    async def _build_and_switch(self) -> None:
        try:
            fresh = await self._load() if self._current is None else None
            await self._switch(fresh or await self._build())
        except (EngineError, OSError) as error:
            self.failure = str(error)
            self._retry_at = time.monotonic() + RETRY_AFTER_S

    async def _switch(self, fresh: Generation) -> None:
        """Serve from `fresh`, after it has caught up with what it replaces."""
        async with self._lock:
            old = self._current
            try:
                if old is not None and old.applied > fresh.applied:
                    await self._follow(fresh, old.applied)
            except (EngineError, OSError, Unavailable):
                await self._throw_away(fresh.engine, fresh.path)
                raise
            self._current, self.failure = fresh, None
            if old is not None:
                await self._blocking(lambda: _discard(old.engine))
            await self._save(fresh)
            await self._blocking(lambda: self._folder.drop_others(fresh.path))

    async def _load(self) -> Generation | None:
        """The generation on disk, taken up where its checkpoint left it; None where it cannot be trusted."""
        head, database_id = await self._feed.head(), await self._feed.database_id()
        path = await self._blocking(self._folder.current)
        if path is None:
            return None
        try:
            checkpoint = await self._blocking(lambda: self._folder.load(path, database_id, head))
            engine = await self._blocking(lambda: Engine(path))
        except (DamagedFolder, EngineError):
            return None
        try:
            return await self._resume(path, engine, checkpoint, head)
        except EngineError:
            await self._blocking(lambda: _discard(engine))
            return None
        except Unavailable:
            await self._blocking(lambda: _discard(engine))
            raise

    async def _resume(self, path: Path, engine: Engine, checkpoint: Checkpoint, head: int) -> Generation:
        """Replay what a crash may have cut off, then count the documents. Raises EngineError."""
        if checkpoint.leaving:  # no reader of this process is older than now
            await self._blocking(lambda: engine.delete(checkpoint.leaving))
        searcher = await self._blocking(engine.commit)
        loaded = Generation(path, engine, searcher, checkpoint.counts, checkpoint.seq, replay_until=head)
        loaded.saved = not checkpoint.leaving
        await self._follow(loaded, head)
        if loaded.searcher.documents != loaded.counts.passages + len(loaded.leaving_keys()):
            raise EngineError("the index does not hold what its checkpoint says")
        return loaded

    async def _build(self) -> Generation:
        """Index every live passage of one snapshot. An error leaves nothing behind.

        Raises EngineError, OSError, StoreUnavailable.
        """
        self.rebuilds += 1
        path = await self._blocking(self._folder.next_generation)
        engine: Engine | None = None
        try:
            engine = await self._blocking(lambda: Engine(path))
            return await self._fill(path, engine)
        except (EngineError, OSError, Unavailable):
            await self._throw_away(engine, path)
            raise

    async def _fill(self, path: Path, engine: Engine) -> Generation:
        counts, after, pending = Counts(), None, 0
        async with self._store.snapshot() as snapshot:
            while page := await snapshot.scan(self._workspace, after, PAGE):
                counts.apply(await self._blocking(partial(_added, engine, page)))
                after = page[-1].key
                pending += len(page)
                if pending >= COMMIT_EVERY:
                    await self._blocking(engine.commit)
                    pending = 0
            seq = snapshot.seq
        searcher = await self._blocking(engine.commit)
        return Generation(path, engine, searcher, counts, seq, replay_until=seq, saved=False)

    async def _follow(self, generation: Generation, target: int) -> None:
        """Apply log entries up to `target`, no further: a view of a snapshot shows just that snapshot."""
        while generation.applied < target:
            found = await self._feed.changes(self._workspace, generation.applied, CHANGES)
            changes = [change for change in found if change.seq <= target]
            if any(change.kind is ChangeKind.REBUILD for change in changes):
                self._heed_rebuild(generation)
            try:
                await self._apply(generation, changes)
            except Unavailable:
                generation.replay_until = target  # a part of it may be in the index by now
                raise
            generation.applied = changes[-1].seq if changes and len(changes) == CHANGES else target
            generation.saved = False

    def _heed_rebuild(self, generation: Generation) -> None:
        """Start the build that the log asks for. Raises EngineError for an index that is not served from yet."""
        if generation is self._current:
            self._building = asyncio.create_task(self._build_and_switch())
        elif generation.applied < generation.replay_until:
            raise EngineError("the log asks for a rebuild")

    async def _apply(self, generation: Generation, changes: Sequence[Change]) -> None:
        added = {c.item_key for c in changes if c.kind is ChangeKind.ITEM_ADDED and c.item_key is not None}
        stale = {c.item_key for c in changes if c.kind is ChangeKind.ITEM_STALE and c.item_key is not None}
        entering, leaving = sorted(added - stale), sorted(stale - added)
        engine, delta, gone = generation.engine, Delta(), []
        if generation.applied < generation.replay_until:  # all of them may be in the index already
            async for page in self._pages(sorted(added)):
                await self._blocking(partial(engine.delete, [passage.key for passage in page]))
        async for page in self._pages(entering):
            await self._blocking(partial(engine.add, page))
            delta.enter(page)
        async for page in self._pages(leaving):
            delta.leave(page)
            gone += [passage.key for passage in page]
        if added:
            generation.searcher = await self._blocking(engine.commit)
        generation.counts.apply(delta)
        if gone:
            generation.leaving.append((time.monotonic() + self._timing.grace, tuple(gone)))

    async def _pages(self, item_keys: Sequence[int]) -> AsyncIterator[Sequence[IndexablePassage]]:
        after: PassageKey | None = None
        while item_keys and (found := await self._feed.indexable(item_keys, after, PAGE)):
            after = found[-1][1].key
            yield [passage for _, passage in found]

    async def _purge(self, generation: Generation) -> None:
        now = time.monotonic()
        due = [keys for at, keys in generation.leaving if at <= now]
        await self._blocking(partial(generation.engine.delete, [key for keys in due for key in keys]))
        generation.searcher = await self._blocking(generation.engine.commit)
        for _ in due:
            generation.leaving.popleft()
        generation.saved = False
        await self._save(generation)

    async def _check(self, generation: Generation) -> None:
        """Raises EngineError when a file is not what it was when it was written."""
        self._checked_at = time.monotonic()
        if not await self._blocking(partial(all_intact, generation.path)):
            raise EngineError("an index file was altered")

    async def _save(self, generation: Generation) -> None:
        self._saved_at = time.monotonic()
        if generation.saved:
            return
        checkpoint = Checkpoint(generation.applied, generation.counts.copy(), generation.leaving_keys())
        database_id = await self._feed.database_id()
        try:
            await self._blocking(partial(self._folder.save, generation.path, checkpoint, database_id))
        except OSError as error:  # a full disk: the index serves on, and the next start replays a longer log
            self.failure = str(error)
            return
        generation.saved, self.failure = True, None

    async def _blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def _added(engine: Engine, page: Sequence[IndexablePassage]) -> Delta:
    engine.add(page)
    delta = Delta()
    delta.enter(page)
    return delta


def _discard(engine: Engine) -> None:
    """Close an engine whose folder is no longer wanted; it may be broken already."""
    try:
        engine.close()
    except EngineError:
        return
