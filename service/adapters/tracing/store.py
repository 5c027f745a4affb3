"""The store with its steps told: what it takes to open a moment, to load rows and to write. Implements Store."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from service.model import (
    ContentType,
    Facet,
    FacetTag,
    Item,
    ItemId,
    SelectedOption,
    System,
    TagStatus,
    Vocabulary,
    Workspace,
)
from service.ports.store import (
    Candidate,
    Glance,
    IndexablePassage,
    IngestMark,
    PassageKey,
    PresentablePassage,
    ReadSnapshot,
    Store,
    WriteTransaction,
)
from service.ports.tracing import Step, Tracer


class TracedStore:
    """Another store's answers, each timed."""

    def __init__(self, store: Store, tracer: Tracer) -> None:
        self._store = store
        self._tracer = tracer

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[ReadSnapshot]:
        """A consistent view. The span ends when it is open: what is read from it has spans of its own."""
        async with AsyncExitStack() as stack:
            with self._tracer.span(Step.SNAPSHOT):
                snapshot = await stack.enter_async_context(self._store.snapshot())
            yield TracedSnapshot(snapshot, self._tracer)

    async def glance(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Glance | None:
        """Rows and moment in one statement."""
        with self._tracer.span(Step.LOAD_ROWS) as span:
            glance = await self._store.glance(workspace, keys, content_type)
            span.note("proposed", len(keys))
            span.note("live", 0 if glance is None else len(glance.rows))
        return glance

    @asynccontextmanager
    async def transaction(self, workspace: Workspace) -> AsyncIterator[WriteTransaction]:
        """A write. The span begins before the lock is asked for and ends with the commit."""
        with self._tracer.span(Step.TRANSACTION):
            async with self._store.transaction(workspace) as transaction:
                yield transaction

    async def ingest_marks(
        self, workspace: Workspace, name_hashes: Sequence[str]
    ) -> Mapping[str, IngestMark]:
        """As the other store."""
        return await self._store.ingest_marks(workspace, name_hashes)


class TracedSnapshot:
    """Another snapshot's rows; what loads candidates is timed. Implements ReadSnapshot."""

    def __init__(self, snapshot: ReadSnapshot, tracer: Tracer) -> None:
        self._snapshot = snapshot
        self._tracer = tracer

    @property
    def seq(self) -> int:
        """The change-log sequence this snapshot shows."""
        return self._snapshot.seq

    @property
    def nonce(self) -> int:
        """As the other snapshot."""
        return self._snapshot.nonce

    async def corpus(self, workspace: Workspace) -> int:
        """As the other snapshot."""
        return await self._snapshot.corpus(workspace)

    async def candidates(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Sequence[Candidate]:
        """The lexical arm's rows."""
        with self._tracer.span(Step.LOAD_ROWS) as span:
            found = await self._snapshot.candidates(workspace, keys, content_type)
            span.note("proposed", len(keys))
            span.note("live", len(found))
        return found

    async def named_keys(
        self, workspace: Workspace, names: Sequence[tuple[ItemId, int]], content_type: ContentType | None
    ) -> Mapping[tuple[ItemId, int], PassageKey]:
        """Which of the vector arm's hits are live."""
        with self._tracer.span(Step.LOAD_VECTOR_ROWS) as span:
            found = await self._snapshot.named_keys(workspace, names, content_type)
            span.note("proposed", len(names))
            span.note("live", len(found))
        return found

    async def item_candidates(
        self, workspace: Workspace, item_ids: Sequence[ItemId], content_type: ContentType | None, bound: int
    ) -> Sequence[Candidate]:
        """The rows of items that tags lift."""
        with self._tracer.span(Step.LOAD_ROWS) as span:
            found = await self._snapshot.item_candidates(workspace, item_ids, content_type, bound)
            span.note("live", len(found))
        return found

    async def scan(
        self, workspace: Workspace, after: PassageKey | None, limit: int
    ) -> Sequence[IndexablePassage]:
        """As the other snapshot."""
        return await self._snapshot.scan(workspace, after, limit)

    async def passages(self, keys: Sequence[PassageKey]) -> Mapping[PassageKey, PresentablePassage]:
        """As the other snapshot."""
        return await self._snapshot.passages(keys)

    async def count_scorable(self, workspace: Workspace, bound: int) -> int:
        """As the other snapshot."""
        return await self._snapshot.count_scorable(workspace, bound)

    async def system(self, workspace: Workspace, system_id: str) -> System | None:
        """As the other snapshot."""
        return await self._snapshot.system(workspace, system_id)

    async def selected_options(
        self, workspace: Workspace, option_ids: Sequence[str]
    ) -> Sequence[SelectedOption]:
        """As the other snapshot."""
        return await self._snapshot.selected_options(workspace, option_ids)

    async def tags_of_facets(self, workspace: Workspace, facets: Sequence[Facet]) -> Sequence[FacetTag]:
        """As the other snapshot."""
        return await self._snapshot.tags_of_facets(workspace, facets)

    async def item(self, workspace: Workspace, item_id: ItemId) -> Item | None:
        """As the other snapshot."""
        return await self._snapshot.item(workspace, item_id)

    async def supersession(self, workspace: Workspace, item_id: ItemId) -> Sequence[Item]:
        """As the other snapshot."""
        return await self._snapshot.supersession(workspace, item_id)

    async def vocabulary(self, workspace: Workspace) -> Vocabulary:
        """As the other snapshot."""
        return await self._snapshot.vocabulary(workspace)

    async def tags(
        self,
        workspace: Workspace,
        item_id: ItemId | None,
        status: TagStatus | None,
        after: str | None,
        limit: int,
    ) -> Sequence[FacetTag]:
        """As the other snapshot."""
        return await self._snapshot.tags(workspace, item_id, status, after, limit)

    async def tag(self, workspace: Workspace, tag_id: str) -> FacetTag | None:
        """As the other snapshot."""
        return await self._snapshot.tag(workspace, tag_id)
