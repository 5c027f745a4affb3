"""The lexical index of every workspace in this process's own folder. Implements LexicalIndex."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from service.adapters.lexical.building import Threads
from service.adapters.lexical.engine import EngineError, EngineSearcher
from service.adapters.lexical.folder import Slot
from service.adapters.lexical.following import PUT_BACK, on
from service.adapters.lexical.generation import Capture
from service.adapters.lexical.memory import give_back
from service.adapters.lexical.open_shards import OpenShards, in_use
from service.adapters.lexical.scan import nothing_view, scan_view
from service.adapters.lexical.shard import TOLD, Shard, ShardState, ShardTiming
from service.core.scoring import TermStatistics, WeightedTerm
from service.errors import LexicalIndexUnavailable, Unavailable
from service.model import ContentType, Workspace
from service.ports.lexical import CandidatePool, CandidateSource, LexicalView, ViewLost
from service.ports.store import ChangeFeed, ReadSnapshot, Store

_log = structlog.get_logger(__name__)
SEARCH_THREADS = 2
OPENED_AT_ONCE = 4  # indexes, at the start
MAINTAIN_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """Where the index lives, how much of it is open, and how long anybody waits for it. Times in seconds.

    `first` is the workspace that is opened before all others.
    """

    folder: Path
    patience: float = 2.0  # how long a read waits for the index before it reads rows instead
    scan_bound: int = 5_000  # passages up to which rows are read instead; above it the answer is 503
    timing: ShardTiming = field(default_factory=ShardTiming)
    open_workspaces: int = 32
    first: Workspace | None = None


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
    """A view of the index. Implements LexicalView. It outlives the shard's being closed."""

    def __init__(self, shard: Shard, capture: Capture, executor: ThreadPoolExecutor) -> None:
        self._shard = shard
        self._generation = capture.generation
        self._searcher: EngineSearcher = capture.searcher
        self._executor = executor
        self.seq = capture.seq
        self.nonce = capture.nonce
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
    """One shard a workspace, opened when first asked for and closed when others are used more."""

    def __init__(self, store: Store, feed: ChangeFeed, settings: LexicalSettings) -> None:
        self._sources = (store, feed)
        self._feed = feed
        self._settings = settings
        self._slot = Slot(settings.folder)
        self._open = OpenShards(self._made, settings.open_workspaces)
        self._shards = self._open.by_workspace
        self._threads = Threads(
            ThreadPoolExecutor(1, "lexical-write"), ThreadPoolExecutor(1, "lexical-close")
        )
        self._searchers = ThreadPoolExecutor(SEARCH_THREADS, "lexical-search")
        self._maintenance: asyncio.Task[None] | None = None
        self._opening: dict[Workspace, asyncio.Task[None]] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._settling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the indexes of the workspaces that were changed last, and begin the upkeep.

        What takes longer than a reader would wait goes on in the background. Raises StoreUnavailable.
        """
        self._maintenance = asyncio.create_task(self._maintain())
        head, places = await self._feed.head(), asyncio.Semaphore(OPENED_AT_ONCE)
        for workspace in await self._first_workspaces(head):
            shard = self._open.take(workspace)
            self._opening[workspace] = self._track(shard, _in_turn(places, shard.advance(head)))
        if self._opening:
            done, _ = await asyncio.wait(self._opening.values(), timeout=self._settings.patience)
            for opened in done:
                opened.result()

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """The index at `snapshot.seq` or later; the rows themselves where it is not usable and they are few.

        A workspace without passages gets no index: whoever may name any workspace could fill the disk with them.
        """
        if self._open.find(workspace) is None and await snapshot.count_scorable(workspace, 1) == 0:
            return nothing_view(snapshot, terms)
        shard = self._open.take(workspace)
        with in_use(shard):
            return await self._view(shard, terms, snapshot)

    async def _view(self, shard: Shard, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        if shard.state is ShardState.LOADING:
            await self._patiently(self._track(shard, shard.open()))
        capture = await self._true_capture(shard, terms, snapshot)
        few: bool | None = None
        if capture is None:
            advancing = self._track(shard, shard.advance(snapshot.seq))
            if shard.state is not ShardState.READY:  # a build is long, and may need the connection held here
                few = await self._are_few(shard.workspace, snapshot)
            if not few:
                await self._patiently(advancing)
                capture = shard.capture(snapshot.seq, terms)
        if capture is not None:
            return TantivyView(shard, capture, self._searchers)
        if await self._are_few(shard.workspace, snapshot) if few is None else few:
            return await scan_view(shard.workspace, terms, snapshot)
        raise LexicalIndexUnavailable(f"the lexical index {TOLD[shard.state]}", retry_after=5)

    async def _true_capture(
        self, shard: Shard, terms: Sequence[str], snapshot: ReadSnapshot
    ) -> Capture | None:
        """The index, if it shows what the snapshot shows or more of the same history."""
        capture = shard.capture(snapshot.seq, terms)
        if capture is None:
            return None
        is_level = capture.seq == snapshot.seq
        told = snapshot.nonce if is_level else await self._feed.nonce(capture.seq)
        if told == capture.nonce:
            return capture
        await self._patiently(self._track(shard, shard.damaged(capture.generation, PUT_BACK)))
        return None

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """The index as it stands; None where it is not usable or was not asked for yet."""
        shard = self._open.find(workspace)
        capture = None if shard is None else shard.capture(0, terms)
        return None if shard is None or capture is None else TantivyView(shard, capture, self._searchers)

    async def catch_up(self, workspace: Workspace) -> None:
        """Apply what has been committed so far, without waiting longer than a reader would."""
        head = await self._feed.head()
        shard = self._open.take(workspace)
        await self._patiently(self._track(shard, shard.advance(head)))

    async def rebuild(self, workspace: Workspace) -> None:
        """Build a new index from the rows and wait for it; the old one serves meanwhile."""
        shard = self._open.take(workspace)
        await asyncio.shield(self._track(shard, shard.rebuild()))

    def status(self) -> Mapping[Workspace, ShardStatus]:
        """The shards that are open in this process."""
        return {workspace: _status(shard) for workspace, shard in sorted(self._shards.items())}

    def unusable(self) -> Sequence[ShardStatus]:
        """The indexes that this process ought to have and cannot answer from: lost, or not yet opened at start.

        One that is opened or built because it was just asked for is not among them: every other process would
        have to do the same.
        """
        starting = {workspace for workspace, task in self._opening.items() if not task.done()}
        return [
            _status(shard)
            for workspace, shard in sorted(self._shards.items())
            if not shard.is_open and (shard.failure is not None or workspace in starting)
        ]

    async def close(self) -> None:
        """Save checkpoints and give the folder back."""
        if self._maintenance is not None:
            self._maintenance.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintenance
        try:
            if under_way := {*self._work, *([self._settling] if self._settling else [])}:
                await asyncio.wait(under_way, timeout=self._settings.patience)
            for shard in list(self._shards.values()):
                await shard.close()
        finally:
            self._threads.write.shutdown()
            self._threads.close.shutdown()
            self._searchers.shutdown()
            self._slot.release()

    def _made(self, workspace: Workspace) -> Shard:
        folder = self._slot.workspace(workspace)
        return Shard(workspace, self._sources, folder, self._threads, self._settings.timing)

    async def _first_workspaces(self, head: int) -> Sequence[Workspace]:
        """Which ones to open at the start, the most wanted first."""
        first, bound = self._settings.first, self._settings.open_workspaces
        found = list(await self._feed.recent_workspaces(bound))
        if first is not None and (await self._feed.stretch(first, 0, head, 1)).changes:
            found = [first, *(workspace for workspace in found if workspace != first)]
        return found[:bound]

    async def _are_few(self, workspace: Workspace, snapshot: ReadSnapshot) -> bool:
        """Whether the workspace's rows can be read instead of the index."""
        bound = self._settings.scan_bound
        return await snapshot.count_scorable(workspace, bound + 1) <= bound

    def _track(self, shard: Shard, step: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Carry out a step whether or not anybody waits for it."""
        work = asyncio.create_task(step)
        shard.users += 1
        self._work.add(work)
        work.add_done_callback(partial(self._ended, shard))
        return work

    def _ended(self, shard: Shard, work: asyncio.Task[None]) -> None:
        """Those who still wait get the error, and the others gave up on it; what nobody foresaw is told."""
        shard.users -= 1
        self._work.discard(work)
        _tell_unforeseen(work, workspace=shard.workspace)
        if self._open.are_too_many:
            self._settle()

    def _settle(self) -> asyncio.Task[None]:
        """Close what is too much, in the background."""
        if self._settling is None or self._settling.done():
            self._settling = asyncio.create_task(self._open.settle())
            self._settling.add_done_callback(_tell_unforeseen)
        return self._settling

    async def _patiently(self, work: asyncio.Task[None]) -> None:
        """Wait for as long as a reader has patience; the work goes on after that."""
        done, _ = await asyncio.wait({work}, timeout=self._settings.patience)
        if done:
            work.result()

    async def _maintain(self) -> None:
        """An error of one index, foreseen or not, ends neither this nor the upkeep of the others."""
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            were_writing = self._open.writers > 0
            for shard in list(self._shards.values()):
                await asyncio.wait({self._track(shard, shard.maintain())})
            await asyncio.wait({self._settle()})
            if were_writing and self._open.writers == 0:
                await on(self._threads.close, give_back)


async def _in_turn(places: asyncio.Semaphore, step: Coroutine[None, None, None]) -> None:
    async with places:
        await step


def _status(shard: Shard) -> ShardStatus:
    return ShardStatus(
        shard.workspace, shard.state, shard.failure, shard.applied, shard.documents, shard.rebuilds
    )


def _tell_unforeseen(work: asyncio.Task[None], workspace: Workspace | None = None) -> None:
    """Log what no one may be waiting for; that the database is away is told by those who do wait."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, Unavailable):
        _log.error("lexical_index_step_failed", workspace=workspace, exc_info=error)
