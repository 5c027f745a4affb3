"""The index of one workspace: follows the change log, repairs itself, and serves views.

All state changes happen on the event loop, between awaits; blocking work runs on the index's threads. A view is
therefore always the index and the counts of one sequence number.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import structlog

from service.adapters.lexical.building import Builder, Threads
from service.adapters.lexical.checksums import all_intact
from service.adapters.lexical.engine import EngineError
from service.adapters.lexical.folder import DamagedFolder, WorkspaceFolder
from service.adapters.lexical.following import Follower, on
from service.adapters.lexical.generation import Capture, Generation
from service.errors import Unavailable
from service.model import Workspace
from service.ports.store import ChangeFeed, Store

_log = structlog.get_logger(__name__)
RETRY_AFTER_S = 5.0  # between two attempts to build an index that failed


class ShardState(StrEnum):
    """Whether the index can propose candidates."""

    READY = "ready"
    LOADING = "loading"  # what is on disk was not looked at yet
    BUILDING = "building"
    FAILED = "failed"


# What anybody may be told of an index that does not answer. Its reason may name a path: that is for operators.
TOLD = {
    ShardState.READY: "has not caught up with the database yet",
    ShardState.LOADING: "is being opened",
    ShardState.BUILDING: "is being built",
    ShardState.FAILED: "cannot be used; it is built anew as soon as that is possible",
}


@dataclass(frozen=True, slots=True)
class ShardTiming:
    """In seconds. `grace` is how long stale passages stay for readers of an older snapshot."""

    grace: float = 5.0
    checkpoint_every: float = 30.0
    check_every: float = 600.0  # a file altered under a running process shows by its checksum only
    writer_idle: float = 10.0  # how long the writer stays after a write


class Shard:
    """One workspace's lexical index. `users` is how many reads and steps are about it at the moment."""

    def __init__(
        self,
        workspace: Workspace,
        sources: tuple[Store, ChangeFeed],
        folder: WorkspaceFolder,
        threads: Threads,
        timing: ShardTiming,
    ) -> None:
        self.workspace = workspace
        self._feed = sources[1]
        self._folder = folder
        self._threads = threads
        self._timing = timing
        self._follower = Follower(workspace, self._feed, threads.write, timing.grace, self._heed_rebuild)
        self._builder = Builder(workspace, *sources, folder, threads, self._follower)
        self._lock = asyncio.Lock()
        self._current: Generation | None = None
        self._opening: asyncio.Task[None] | None = None
        self._building: asyncio.Task[None] | None = None
        self._has_looked = False  # at what is on disk
        self._wanted: str | None = None  # why an index is to be built although there is one
        self._saved_at = self._checked_at = time.monotonic()
        self._retry_at = float("-inf")
        self.users = 0
        self.failure: str | None = None
        self.rebuilds = 0

    @property
    def state(self) -> ShardState:
        """Ready, being opened or built, or failed and waiting for the next attempt."""
        if self._current is not None:
            return ShardState.READY
        if self._is_building:
            return ShardState.BUILDING
        if self.failure is not None:
            return ShardState.FAILED
        return ShardState.BUILDING if self._has_looked else ShardState.LOADING

    @property
    def applied(self) -> int | None:
        """The sequence number the index shows, if there is an index."""
        return None if self._current is None else self._current.applied

    @property
    def documents(self) -> int:
        """Passages in the index, those that are about to leave among them."""
        return 0 if self._current is None else self._current.searcher.documents

    @property
    def is_open(self) -> bool:
        """Whether it holds files."""
        return self._current is not None

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads from it or works on it."""
        return self.users == 0 and not self._is_building

    @property
    def writes_since(self) -> float | None:
        """When it was written to last, in `time.monotonic()`; None where it has no writer."""
        current = self._current
        return current.wrote_at if current is not None and current.engine.is_writing else None

    @property
    def _is_building(self) -> bool:
        return self._building is not None and not self._building.done()

    def capture(self, at_least: int, terms: Sequence[str]) -> Capture | None:
        """The index if it is usable and shows at least `at_least`. Synchronous: nothing can move in between."""
        current = self._current
        return None if current is None or current.applied < at_least else current.capture(terms)

    async def open(self) -> None:
        """Take up what is on disk, if it can be trusted. A caller that goes away does not stop it.

        Raises StoreUnavailable.
        """
        if self._has_looked or self._current is not None:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._ended)
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        async with self._lock:
            if self._current is not None:
                return
            try:
                self._current = await self._builder.load()
            except (DamagedFolder, EngineError, OSError) as error:
                self.failure = str(error)
                _log.warning("lexical_index_not_trusted", workspace=self.workspace, reason=self.failure)
            self._has_looked = True

    async def _stay(self, current: Generation) -> None:
        """Raises OSError where the folder is not this process's any more: nothing may be written there."""
        await on(self._threads.write, partial(self._folder.require, current.path))

    async def advance(self, target: int) -> None:
        """Bring the index to at least `target`, building it first where there is none. Not to be cancelled."""
        await self.open()
        await self._follow_or_build(target)
        # That may have cost the index, and a build that was under way may show less than `target`.
        if self._current is None:
            await self._follow_or_build(target)

    async def _follow_or_build(self, target: int) -> None:
        await self._build_if_due()
        async with self._lock:
            if self._current is not None and self._current.applied < target:
                await self._guarded(self._followed(self._current, target))

    async def _followed(self, current: Generation, target: int) -> None:
        await self._stay(current)
        await self._follower.follow(current, target)

    async def rebuild(self) -> None:
        """Build a new generation from the rows and switch to it; the old one serves meanwhile."""
        await asyncio.shield(self._begin_build("asked for"))

    async def damaged(self, generation: Generation, reason: str) -> None:
        """A search failed: forget that index, so that the next `advance` builds a new one.

        Several searches may find the same damage; the last of them must not cost the index built meanwhile.
        """
        async with self._lock:
            if self._current is generation:
                await self._abandon(reason)

    async def maintain(self) -> None:
        """Begin the build that is due; remove what has been stale long enough; save, check and rest in time."""
        is_lost = self._current is None and self.failure is not None
        if (is_lost or self._wanted is not None) and time.monotonic() >= self._retry_at:
            self._begin_build()
        if self._current is None:
            return
        async with self._lock:
            if self._current is not None:
                await self._upkeep(self._current)

    async def _upkeep(self, current: Generation) -> None:
        now = time.monotonic()
        try:
            await self._stay(current)
        except OSError as error:  # it answers as long as there is nothing to write
            self._wanted = str(error)
            return
        if current.leaving and current.leaving[0][0] <= now:
            await self._guarded(self._purge(current))
        if now - self._saved_at >= self._timing.checkpoint_every:
            await self._guarded(self._save(current))
        if now - self._checked_at >= self._timing.check_every:
            await self._guarded(self._check(current))
        if current.engine.is_writing and now - current.wrote_at >= self._timing.writer_idle:
            await self._guarded(self._rest(current))

    async def rest(self) -> None:
        """Let the writer go, with its threads and its memory."""
        async with self._lock:
            if self._current is not None:
                await self._guarded(self._rest(self._current))

    async def close(self) -> None:
        """Save a checkpoint, unless the database is away, and let the files go. Used again, it opens again."""
        if self._is_building and self._building is not None:
            await asyncio.wait({self._building})
        current, self._current = self._current, None  # whoever comes now opens it again, after this
        self._has_looked = False
        if current is None:
            return
        async with self._lock:
            # Without the database the next start replays the log from the checkpoint before.
            with suppress(Unavailable, EngineError):
                await self._save(current)
            await self._builder.discard(current.engine)

    async def _guarded(self, step: Coroutine[None, None, None]) -> None:
        """Run a step; the engine's and the disk's errors cost the index, never the caller."""
        try:
            await step
        except (EngineError, OSError) as error:
            await self._abandon(str(error))

    async def _abandon(self, reason: str) -> None:
        self.failure = reason
        _log.warning("lexical_index_lost", workspace=self.workspace, reason=reason)
        current, self._current = self._current, None
        if current is not None:
            await self._builder.throw_away(current.engine, current.path)

    async def _build_if_due(self) -> None:
        if self._current is None and time.monotonic() >= self._retry_at:
            await asyncio.shield(self._begin_build())

    def _begin_build(self, reason: str | None = None) -> asyncio.Task[None]:
        """One build at a time, whoever asks; a caller that goes away does not stop it."""
        if self._building is None or self._building.done():
            why = reason or self._wanted or self.failure or "there is none yet"
            self._building = asyncio.create_task(self._build_and_switch(why))
            self._building.add_done_callback(self._ended)
        return self._building

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Nobody may be waiting for it any more."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Unavailable):
            _log.error("lexical_index_step_failed", workspace=self.workspace, exc_info=error)

    async def _build_and_switch(self, reason: str) -> None:
        began = time.monotonic()
        self.rebuilds += 1
        _log.info("lexical_index_build", workspace=self.workspace, reason=reason)
        try:
            fresh = await self._builder.build()
            await self._switch(fresh)
        except Unavailable as error:  # no fault of the index: whoever comes next may try again at once
            _log.warning("lexical_index_not_built", workspace=self.workspace, reason=str(error))
            raise
        except (EngineError, OSError) as error:
            self.failure = str(error)
            self._retry_at = time.monotonic() + RETRY_AFTER_S
            _log.warning("lexical_index_not_built", workspace=self.workspace, reason=self.failure)
            return
        spent = round(time.monotonic() - began, 3)
        documents = fresh.searcher.documents
        _log.info("lexical_index_built", workspace=self.workspace, passages=documents, seconds=spent)

    async def _switch(self, fresh: Generation) -> None:
        """Serve from `fresh`, after it has caught up with what it replaces."""
        async with self._lock:
            old = self._current
            try:
                if old is not None and old.applied > fresh.applied and await self._is_told(old):
                    await self._follower.follow(fresh, old.applied)
            except (EngineError, OSError, Unavailable):
                await self._builder.throw_away(fresh.engine, fresh.path)
                raise
            self._current, self.failure, self._wanted, self._has_looked = fresh, None, None, True
            if old is not None:
                await self._builder.discard(old.engine)
            await self._save(fresh)
            await on(self._threads.write, lambda: self._folder.drop_others(fresh.path))

    async def _is_told(self, generation: Generation) -> bool:
        """Whether the log still tells the history that an index shows."""
        return await self._feed.nonce(generation.applied) == generation.nonce

    def _heed_rebuild(self, generation: Generation) -> None:
        """Start the build that the log asks for. Raises EngineError for an index that is not served from yet."""
        if generation is self._current:
            self._wanted = "the log asks for it"
            self._begin_build()
        elif generation.applied < generation.replay_until:
            raise EngineError("the log asks for a rebuild")

    async def _purge(self, generation: Generation) -> None:
        now = time.monotonic()
        due = [keys for at, keys in generation.leaving if at <= now]
        generation.wrote_at = now
        gone = [key for keys in due for key in keys]
        await on(self._threads.write, partial(generation.engine.delete, gone))
        generation.searcher = await on(self._threads.write, generation.engine.commit)
        for _ in due:
            generation.leaving.popleft()
        generation.saved = False
        await self._save(generation)

    async def _check(self, generation: Generation) -> None:
        """Raises EngineError when a file is not what it was when it was written."""
        self._checked_at = time.monotonic()
        if not await on(self._threads.write, partial(all_intact, generation.path)):
            raise EngineError("an index file was altered")

    async def _rest(self, generation: Generation) -> None:
        await on(self._threads.close, generation.engine.release)

    async def _save(self, generation: Generation) -> None:
        self._saved_at = time.monotonic()
        if generation.saved:
            return
        checkpoint = generation.checkpoint()
        database_id = await self._feed.database_id()
        try:
            await on(
                self._threads.write,
                partial(self._folder.save, generation.path, checkpoint, database_id),
            )
        except OSError as error:  # a full disk: the index serves on, and the next start replays a longer log
            self.failure = str(error)
            _log.warning("lexical_checkpoint_not_saved", workspace=self.workspace, reason=self.failure)
            return
        generation.saved, self.failure = True, None
