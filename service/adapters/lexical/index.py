"""The lexical index of every workspace in this process's own folder. Implements LexicalIndex."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from service.adapters.lexical.engine import EngineError, EngineSearcher
from service.adapters.lexical.folder import Slot
from service.adapters.lexical.scan import nothing_view, scan_view
from service.adapters.lexical.shard import Capture, Shard, ShardState, ShardTiming
from service.core.scoring import TermStatistics, WeightedTerm
from service.errors import LexicalIndexUnavailable, Unavailable
from service.model import ContentType, Workspace
from service.ports.lexical import CandidatePool, CandidateSource, LexicalView, ViewLost
from service.ports.store import ChangeFeed, ReadSnapshot, Store

SEARCH_THREADS = 2
MAINTAIN_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """Where the index lives and how long anybody waits for it. Times in seconds."""

    folder: Path
    patience: float = 2.0  # how long a read waits for the index before it reads rows instead
    scan_bound: int = 5_000  # passages up to which rows are read instead; above it the answer is 503
    timing: ShardTiming = field(default_factory=ShardTiming)


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """What an operator is told of one workspace's index."""

    workspace: Workspace
    state: ShardState
    reason: str | None
    applied: int | None
    documents: int
    rebuilds: int


class TantivyView:
    """A view of the index. Implements LexicalView."""

    def __init__(self, shard: Shard, capture: Capture, executor: ThreadPoolExecutor) -> None:
        self._shard = shard
        self._generation = capture.generation
        self._searcher: EngineSearcher = capture.searcher
        self._executor = executor
        self.seq = capture.seq
        self.statistics: TermStatistics = capture.statistics
        self.source = CandidateSource.INDEX

    async def candidates(
        self, terms: Sequence[WeightedTerm], content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """The best `depth` documents. Raises ViewLost when the index turns out to be damaged."""
        search = partial(self._searcher.search, terms, self.statistics.mean_length, content_type, depth)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, search)
        except EngineError as error:
            damaged = self._shard.damaged(self._generation, str(error))
            await asyncio.shield(asyncio.ensure_future(damaged))
            raise ViewLost from error


class TantivyLexicalIndex:
    """One shard a workspace, opened when first asked for."""

    def __init__(self, store: Store, feed: ChangeFeed, settings: LexicalSettings) -> None:
        self._sources = (store, feed)
        self._feed = feed
        self._settings = settings
        self._slot = Slot(settings.folder)
        self._shards: dict[Workspace, Shard] = {}
        self._writer = ThreadPoolExecutor(1, "lexical-write")
        self._searchers = ThreadPoolExecutor(SEARCH_THREADS, "lexical-search")
        self._maintenance: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open every known workspace's index and begin the upkeep. Damaged indexes build in the background."""
        self._maintenance = asyncio.create_task(self._maintain())
        head = await self._feed.head()
        for workspace in await self._feed.workspaces():
            await self._advance(self._shard(workspace), head)

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """The index at `snapshot.seq` or later; the rows themselves where it is not usable and they are few.

        A workspace without passages gets no index: whoever may name any workspace could fill the disk with them.
        """
        if workspace not in self._shards and await snapshot.count_scorable(workspace, 1) == 0:
            return nothing_view(snapshot.seq, terms)
        shard = self._shard(workspace)
        capture = shard.capture(snapshot.seq, terms)
        if capture is not None and capture.seq > snapshot.seq and await self._feed.head() < capture.seq:
            reason = "the database was put back to an earlier state"
            await self._patiently(self._track(shard.damaged(capture.generation, reason)))
            capture = None
        few: bool | None = None
        if capture is None:
            advancing = self._begin(shard, snapshot.seq)
            if shard.state is not ShardState.READY:  # a build is long, and may need the connection held here
                few = await self._are_few(workspace, snapshot)
            if not few:
                await self._patiently(advancing)
                capture = shard.capture(snapshot.seq, terms)
        if capture is not None:
            return TantivyView(shard, capture, self._searchers)
        if await self._are_few(workspace, snapshot) if few is None else few:
            return await scan_view(workspace, terms, snapshot)
        raise LexicalIndexUnavailable("the lexical index is being rebuilt", retry_after=5)

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """The index as it stands; None where it is not usable or was not asked for yet."""
        shard = self._shards.get(workspace)
        capture = None if shard is None else shard.capture(0, terms)
        return None if shard is None or capture is None else TantivyView(shard, capture, self._searchers)

    async def catch_up(self, workspace: Workspace) -> None:
        """Apply what has been committed so far, without waiting longer than a reader would."""
        await self._advance(self._shard(workspace), await self._feed.head())

    async def rebuild(self, workspace: Workspace) -> None:
        """Build a new index from the rows and wait for it; the old one serves meanwhile."""
        await self._shard(workspace).rebuild()

    def status(self) -> Mapping[Workspace, ShardStatus]:
        """The shards that are open in this process."""
        return {
            workspace: ShardStatus(
                workspace, shard.state, shard.failure, shard.applied, shard.documents, shard.rebuilds
            )
            for workspace, shard in sorted(self._shards.items())
        }

    async def close(self) -> None:
        """Save checkpoints and give the folder back."""
        if self._maintenance is not None:
            self._maintenance.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintenance
        try:
            if self._work:
                await asyncio.wait(self._work, timeout=self._settings.patience)
            for shard in self._shards.values():
                await shard.close()
        finally:
            self._writer.shutdown()
            self._searchers.shutdown()
            self._slot.release()

    def _shard(self, workspace: Workspace) -> Shard:
        shard = self._shards.get(workspace)
        if shard is None:
            folder = self._slot.workspace(workspace)
            shard = Shard(workspace, self._sources, folder, self._writer, self._settings.timing)
            self._shards[workspace] = shard
        return shard

    async def _are_few(self, workspace: Workspace, snapshot: ReadSnapshot) -> bool:
        """Whether the workspace's rows can be read instead of the index."""
        bound = self._settings.scan_bound
        return await snapshot.count_scorable(workspace, bound + 1) <= bound

    async def _advance(self, shard: Shard, target: int) -> None:
        await self._patiently(self._begin(shard, target))

    def _begin(self, shard: Shard, target: int) -> asyncio.Task[None]:
        """Advance whether or not anybody waits for it."""
        return self._track(shard.advance(target))

    def _track(self, step: Coroutine[None, None, None]) -> asyncio.Task[None]:
        work = asyncio.create_task(step)
        self._work.add(work)
        work.add_done_callback(self._ended)
        return work

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._work.discard(work)
        if not work.cancelled():
            work.exception()  # taken note of: those who still wait get it, and the others gave up on it

    async def _patiently(self, work: asyncio.Task[None]) -> None:
        """Wait for as long as a reader has patience; the work goes on after that."""
        done, _ = await asyncio.wait({work}, timeout=self._settings.patience)
        if done:
            work.result()

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            for shard in list(self._shards.values()):
                with suppress(Unavailable):  # the database is away; the next round tries again
                    await shard.maintain()
