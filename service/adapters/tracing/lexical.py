"""The lexical index with its searches and its catching up told. Implements LexicalIndex."""

from collections.abc import Sequence

from service.core.scoring import TermStatistics, WeightedTerm
from service.model import ContentType, Workspace
from service.ports.lexical import CandidatePool, CandidateSource, LexicalIndex, LexicalView
from service.ports.store import ReadSnapshot
from service.ports.tracing import Step, Tracer


class TracedLexicalIndex:
    """Another index's answers, each timed."""

    def __init__(self, index: LexicalIndex, tracer: Tracer) -> None:
        self._index = index
        self._tracer = tracer

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """The index at the snapshot's moment. Raises LexicalIndexUnavailable."""
        with self._tracer.span(Step.INDEX_VIEW) as span:
            view = await self._index.view(workspace, terms, snapshot)
            span.note("source", view.source.value)
        return TracedView(view, self._tracer)

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """The index as it stands; None where there is none to read."""
        view = self._index.latest(workspace, terms)
        return None if view is None else TracedView(view, self._tracer)

    async def catch_up(self, workspace: Workspace) -> None:
        """Apply what has been committed so far."""
        with self._tracer.span(Step.INDEX):
            await self._index.catch_up(workspace)


class TracedView:
    """Another view; its searches are timed. Implements LexicalView."""

    def __init__(self, view: LexicalView, tracer: Tracer) -> None:
        self._view = view
        self._tracer = tracer

    @property
    def seq(self) -> int:
        """The change-log sequence the view shows."""
        return self._view.seq

    @property
    def nonce(self) -> int:
        """Which history that sequence number belongs to."""
        return self._view.nonce

    @property
    def statistics(self) -> TermStatistics:
        """Exact counts of the workspace at `seq`."""
        return self._view.statistics

    @property
    def source(self) -> CandidateSource:
        """Where candidates come from."""
        return self._view.source

    async def candidates(
        self, terms: Sequence[WeightedTerm], content_type: ContentType | None, depth: int
    ) -> CandidatePool:
        """The best candidates. Raises ViewLost."""
        with self._tracer.span(Step.LEXICAL_CANDIDATES) as span:
            pool = await self._view.candidates(terms, content_type, depth)
            span.note("terms", len(terms))
            span.note("depth", depth)
            span.note("candidates", len(pool.keys))
        return pool
