"""Retrieve: the one read path over the corpus."""

import asyncio
from dataclasses import replace

from service.core.cursors import Position, decode_cursor
from service.core.order import rank_key
from service.core.scoring import weigh_terms
from service.errors import LexicalIndexUnavailable
from service.ports.lexical import LexicalIndex, LexicalView, ViewLost
from service.ports.store import ReadSnapshot, Store
from service.ports.tracing import UNTRACED, Span, Step, Tracer
from service.search.degradation import ArmDegraded
from service.search.hybrid import FUSION_DEPTH, HybridRanking, fuse
from service.search.lexical_ranking import LexicalRanking, Reach, Scope, first_depth, rank_lexical
from service.search.nearest import Nearest
from service.search.page import LEXICAL, PAGE_BYTES, Reading, answer_of, nothing_found, page_of
from service.search.plan import Hybrid, Plan, Planner
from service.search.request import (
    Answer,
    ArmState,
    ByQuery,
    BySelection,
    BySystem,
    Explain,
    ResolvedQuery,
    RetrieveOptions,
    Subject,
    VectorArm,
)
from service.search.subjects import ranking_fingerprint, resolve, terms_in

ATTEMPTS = 6  # snapshots tried before an index that keeps moving ahead is taken as it is


class Retriever:
    """Retrieval by system, by selection and by free text, with one set of guarantees."""

    def __init__(
        self,
        store: Store,
        lexical: LexicalIndex,
        hybrid: Hybrid | None = None,
        tracer: Tracer = UNTRACED,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self._store = store
        self._lexical = lexical
        self._vectors = Planner(hybrid, tracer)
        self._tracer = tracer
        self._page_bytes = page_bytes

    async def retrieve(self, subject: Subject, options: RetrieveOptions) -> Answer:
        """One page of the ranking of live passages. A miss is an empty answer.

        Raises InvalidCursor, StoreUnavailable, LexicalIndexUnavailable.
        """
        with self._tracer.span(Step.RETRIEVE) as span:
            span.note_query(asked_text(subject))
            answer = await self._retrieve(subject, options)
            _note_answer(span, answer)
        return answer

    async def _retrieve(self, subject: Subject, options: RetrieveOptions) -> Answer:
        content_type = None if options.content_type is None else options.content_type.value
        fingerprint = ranking_fingerprint(options.workspace, subject, content_type)
        start = None if options.cursor is None else decode_cursor(options.cursor, fingerprint)
        plan = await self._vectors.plan(options, start)
        answer = None
        if isinstance(subject, ByQuery):
            plan = await self._vectors.encoded(subject.query, options, plan)
            if start is None and not plan.run:
                answer = await self._at_a_glance(subject, options, fingerprint, plan)
        if answer is None:
            answer = await self._in_a_snapshot(subject, options, fingerprint, start, plan)
        self._vectors.served(subject, options, answer, plan)
        return answer

    async def _at_a_glance(
        self, subject: ByQuery, options: RetrieveOptions, fingerprint: bytes, plan: Plan
    ) -> Answer | None:
        """The common read: the index is up to date, its first pool is enough, one statement brings the rest.

        None wherever that does not hold; the same answer then takes the way through a snapshot.
        """
        with self._tracer.span(Step.RESOLVE):
            query = ResolvedQuery(await terms_in(subject.query), subject.query, {}, {})
        view = self._lexical.latest(options.workspace, [t.text for t in query.terms])
        if view is None or not query.terms:
            return None
        with self._tracer.span(Step.LEXICAL):
            terms = weigh_terms(query.terms, view.statistics)
            needed = options.limit + 1
            try:
                pool = await view.candidates(terms, options.content_type, first_depth(needed))
            except ViewLost:
                return None
            glance = await self._store.glance(options.workspace, pool.keys, options.content_type)
            if glance is None or (glance.seq, glance.nonce) != (view.seq, view.nonce):
                return None
            ranking = LexicalRanking(terms, view.statistics.mean_length, rounds=1)
            ranking.add([row.candidate for row in glance.rows], {})
            if not ranking.is_certain(needed, pool.ceiling):
                return None
        with self._tracer.span(Step.PAGE):
            reading = Reading(
                glance.corpus, view.source, query, ranking, None, plan.vector, fingerprint, None
            )
            page = page_of(reading, options)
            rows = {(row.candidate.passage.item_id, row.candidate.passage.seq): row for row in glance.rows}
            texts = [rows[r.item_id, r.seq].shown() for r in page]
            return answer_of(reading, options, page, texts, self._page_bytes)

    async def _in_a_snapshot(
        self,
        subject: Subject,
        options: RetrieveOptions,
        fingerprint: bytes,
        start: Position | None,
        plan: Plan,
    ) -> Answer:
        """Every other read: terms, candidates, order and texts from one snapshot."""
        for attempt in range(ATTEMPTS):
            async with self._store.snapshot() as snapshot:
                with self._tracer.span(Step.RESOLVE):
                    query = await resolve(snapshot, options.workspace, subject)
                if not plan.run or plan.has_encoded(query.text):
                    try:
                        return await self._from(snapshot, query, options, fingerprint, start, plan, attempt)
                    except ViewLost:
                        continue
            plan = await self._vectors.encoded(query.text, options, plan)
        raise LexicalIndexUnavailable("the lexical index is being repaired")

    async def _from(
        self,
        snapshot: ReadSnapshot,
        query: ResolvedQuery,
        options: RetrieveOptions,
        fingerprint: bytes,
        start: Position | None,
        plan: Plan,
        attempt: int,
    ) -> Answer:
        """The answer as this snapshot has it. Raises ViewLost when another one is needed."""
        if plan.encoded is None and not query.terms and not query.boosts:
            return nothing_found(await snapshot.corpus(options.workspace), start, plan.vector)
        nearest = None if plan.encoded is None else asyncio.create_task(self._vectors.nearest(plan.encoded))
        try:
            view = await self._lexical.view(options.workspace, [t.text for t in query.terms], snapshot)
            if view.seq != snapshot.seq and attempt + 1 < ATTEMPTS:
                raise ViewLost  # the index has applied a write that this snapshot does not show: look again
            reading = await self._read(snapshot, view, query, options, fingerprint, start, plan, nearest)
            with self._tracer.span(Step.PAGE):
                return await self._page(snapshot, reading, options)
        finally:
            if nearest is not None and not nearest.cancel() and not nearest.cancelled():
                nearest.exception()  # taken note of, whether or not anybody waited for it

    async def _page(self, snapshot: ReadSnapshot, reading: Reading, options: RetrieveOptions) -> Answer:
        """The page with its texts; what only the vector arm found is loaded once more where it is explained."""
        page = page_of(reading, options)
        keys = [reading.key((ranked.item_id, ranked.seq)) for ranked in page]
        if options.explain is Explain.ON:
            known = reading.lexical.candidates
            missing = [key for r, key in zip(page, keys, strict=True) if (r.item_id, r.seq) not in known]
            found = await snapshot.candidates(options.workspace, missing, options.content_type)
            loaded = {(c.passage.item_id, c.passage.seq): c for c in found}
            reading = replace(reading, loaded=loaded)
        shown = await snapshot.passages(keys) if keys else {}
        return answer_of(reading, options, page, [shown[key] for key in keys], self._page_bytes)

    async def _read(
        self,
        snapshot: ReadSnapshot,
        view: LexicalView,
        query: ResolvedQuery,
        options: RetrieveOptions,
        fingerprint: bytes,
        start: Position | None,
        plan: Plan,
        nearest: asyncio.Task[Nearest] | None,
    ) -> Reading:
        """Rank lexically and, when the vector arm has an answer in time, fuse. Raises ViewLost."""
        scope = Scope(options.workspace, options.content_type)
        reach = _reach(options, start, hybrid=nearest is not None)
        with self._tracer.span(Step.LEXICAL) as span:
            lexical = await rank_lexical(snapshot, view, query, scope, reach)
            span.note("rounds", lexical.rounds)
            span.note("ranked", len(lexical.ranked))
        hybrid: HybridRanking | None = None
        vector = plan.vector
        if nearest is not None:
            try:
                with self._tracer.span(Step.VECTOR_WAIT):
                    first = await asyncio.shield(nearest)
                with self._tracer.span(Step.FUSE) as span:
                    hybrid = await fuse(snapshot, lexical, first, scope, plan.fusion)
                    span.note("ranked", len(hybrid.ranked))
                    span.note("rounds", first.rounds)
            except ArmDegraded as degraded:
                vector = VectorArm(ArmState.DEGRADED, degraded.reason)
        corpus = await snapshot.corpus(options.workspace)
        return Reading(corpus, view.source, query, lexical, hybrid, vector, fingerprint, start)


def asked_text(subject: Subject) -> str:
    """What a caller wrote, in one line."""
    match subject:
        case ByQuery(query):
            return query
        case BySystem(system_id):
            return system_id
        case BySelection(context):
            return ", ".join(context.option_ids)


def _note_answer(span: Span, answer: Answer) -> None:
    """What a trace says of a whole read: counts and reasons, nothing of the query or its passages."""
    span.note("results", len(answer.results))
    span.note("lexical", answer.lexical.source)
    span.note("vector", answer.vector.state.value)
    span.note("reason", answer.vector.reason)


def _reach(options: RetrieveOptions, start: Position | None, *, hybrid: bool) -> Reach:
    """How far the lexical order must be exact: to the page's end, and one more to know whether more follow."""
    behind = options.limit + 1
    rank = (0 if start is None else start.rank) + behind
    if hybrid:
        rank = max(rank, FUSION_DEPTH + 1)
    if start is None or start.ranking != LEXICAL:
        return Reach(rank)
    return Reach(rank, rank_key(start.score, start.item_id, start.seq), behind)
