"""Where a workspace's index comes from: its folder, if that can be trusted, or else the rows."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.adapters.lexical.engine import Engine, EngineError
from service.adapters.lexical.folder import Checkpoint, DamagedFolder, WorkspaceFolder
from service.adapters.lexical.following import PAGE, PUT_BACK, Follower, on
from service.adapters.lexical.generation import Generation
from service.adapters.lexical.statistics import Counts, Delta
from service.errors import Unavailable
from service.model import Workspace
from service.ports.store import ChangeFeed, IndexablePassage, Store

COMMIT_EVERY = 20_000  # passages of a rebuild between two commits


@dataclass(frozen=True, slots=True)
class Threads:
    """Where blocking work runs: writing, and what waits for merges to end, which may be long."""

    write: Executor
    close: Executor


@dataclass(frozen=True, slots=True)
class Builder:
    """Opens and builds one workspace's indexes."""

    workspace: Workspace
    store: Store
    feed: ChangeFeed
    folder: WorkspaceFolder
    threads: Threads
    follower: Follower

    async def load(self) -> Generation | None:
        """The generation on disk, taken up where its checkpoint left it; None where there is none.

        Raises DamagedFolder and EngineError where it cannot be trusted, and StoreUnavailable.
        """
        head, database_id = await self.feed.head(), await self.feed.database_id()
        path = await on(self.threads.write, self.folder.current)
        if path is None:
            return None
        checkpoint = await on(self.threads.write, lambda: self.folder.load(path, database_id))
        if await self.feed.nonce(checkpoint.seq) != checkpoint.nonce:
            raise DamagedFolder(PUT_BACK)
        engine = await on(self.threads.write, partial(self._engine, path))
        try:
            return await self._resume(path, engine, checkpoint, head)
        except (EngineError, Unavailable):
            await self.discard(engine)
            raise

    async def _resume(self, path: Path, engine: Engine, checkpoint: Checkpoint, head: int) -> Generation:
        """Replay what a crash may have cut off, then count the documents. Raises EngineError."""
        if checkpoint.leaving:  # no reader of this process is older than now
            await on(self.threads.write, lambda: engine.delete(checkpoint.leaving))
        searcher = await on(self.threads.write, engine.commit)
        seq, nonce = checkpoint.seq, checkpoint.nonce
        loaded = Generation(path, engine, searcher, checkpoint.counts, seq, nonce, replay_until=head)
        loaded.saved = not checkpoint.leaving
        await self.follower.follow(loaded, head)
        if loaded.searcher.documents != loaded.counts.passages + len(loaded.leaving_keys()):
            raise EngineError("the index does not hold what its checkpoint says")
        return loaded

    async def build(self) -> Generation:
        """Index every live passage of one snapshot. An error leaves nothing behind.

        Raises EngineError, OSError, StoreUnavailable.
        """
        path = await on(self.threads.write, self.folder.next_generation)
        engine: Engine | None = None
        try:
            engine = await on(self.threads.write, partial(self._engine, path))
            return await self._fill(path, engine)
        except (EngineError, OSError, Unavailable):
            await self.throw_away(engine, path)
            raise

    async def _fill(self, path: Path, engine: Engine) -> Generation:
        counts, after, pending = Counts(), None, 0
        async with self.store.snapshot() as snapshot:
            while page := await snapshot.scan(self.workspace, after, PAGE):
                counts.apply(await on(self.threads.write, partial(_added, engine, page)))
                after = page[-1].key
                pending += len(page)
                if pending >= COMMIT_EVERY:
                    await on(self.threads.write, engine.commit)
                    pending = 0
            seq, nonce = snapshot.seq, snapshot.nonce
        searcher = await on(self.threads.write, engine.commit)
        built = Generation(path, engine, searcher, counts, seq, nonce, replay_until=seq, saved=False)
        built.wrote_at = time.monotonic()
        return built

    def _engine(self, path: Path) -> Engine:
        return Engine(path, partial(self.folder.require, path))

    async def throw_away(self, engine: Engine | None, path: Path) -> None:
        """Close an engine and remove its folder."""
        if engine is not None:
            await self.discard(engine)
        await on(self.threads.write, lambda: self.folder.remove(path))

    async def discard(self, engine: Engine) -> None:
        """Close an engine that may be broken already."""
        await on(self.threads.close, lambda: _discard(engine))


def _added(engine: Engine, page: Sequence[IndexablePassage]) -> Delta:
    engine.add(page)
    delta = Delta()
    delta.enter(page)
    return delta


def _discard(engine: Engine) -> None:
    try:
        engine.release()
    except EngineError:
        return
