"""Retrieve: the one read path over the corpus."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.core.cursors import Position, decode_cursor
from service.core.fusion import FusionSettings
from service.core.order import rank_key
from service.core.rollout import RolloutDecision, decide_rollout
from service.core.scoring import weigh_terms
from service.core.tokenize import query_terms
from service.errors import LexicalIndexUnavailable
from service.ports.flag import RolloutFlag
from service.ports.lexical import LexicalIndex, LexicalView, ViewLost
from service.ports.store import ReadSnapshot, Store
from service.ports.tracing import UNTRACED, Span, Step, Tracer
from service.search.degradation import ArmDegraded, Reason
from service.search.hybrid import FUSION_DEPTH, HybridRanking, fuse
from service.search.lexical_ranking import LexicalRanking, Reach, Scope, first_depth, rank_lexical
from service.search.page import LEXICAL, PAGE_BYTES, Reading, answer_of, nothing_found, page_of
from service.search.request import (
    Answer,
    Arms,
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
from service.search.subjects import ranking_fingerprint, resolve
from service.search.vector_arm import EncodedQuery, Nearest, VectorRequest
from service.search.vector_arm import VectorArm as VectorSearchArm

ATTEMPTS = 6  # snapshots tried before an index that keeps moving ahead is taken as it is
RAN = VectorArm(ArmState.RAN, "ran")
Report = Callable[[Subject, RetrieveOptions, Answer], None]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Everything the vector arm adds. `budget` is in seconds, counted from the request's start.

    `shadow` is told of every answer that was served while the flag said shadow.
    """

    arm: VectorSearchArm
    flag: RolloutFlag
    fusion: FusionSettings = field(default_factory=FusionSettings)
    budget: float = 0.25
    shadow: Report | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a request does with the vector arm: what it will say if the arm does not run, and until when."""

    run: bool
    vector: VectorArm
    deadline: float
    fusion: FusionSettings
    encoded: EncodedQuery | None = None

    def has_encoded(self, text: str) -> bool:
        """Whether this text's vector is there; no text needs none."""
        return not text.strip() or (self.encoded is not None and self.encoded.request.text == text)

    def degraded(self, reason: Reason) -> "_Plan":
        """Go on without the arm, and say why."""
        return replace(self, run=False, vector=VectorArm(ArmState.DEGRADED, reason), encoded=None)


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
        self._hybrid = hybrid
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
        plan = await self._plan(options, start)
        answer = None
        if isinstance(subject, ByQuery):
            plan = await self._encoded(subject.query, options, plan)
            if start is None and not plan.run:
                answer = await self._at_a_glance(subject, options, fingerprint, plan)
        if answer is None:
            answer = await self._in_a_snapshot(subject, options, fingerprint, start, plan)
        if (
            plan.vector.reason == Reason.SHADOW
            and self._hybrid is not None
            and self._hybrid.shadow is not None
        ):
            self._hybrid.shadow(subject, options, answer)
        return answer

    async def _plan(self, options: RetrieveOptions, start: Position | None) -> _Plan:
        """The flag's word, unless the request names its arms or goes on with a lexical walk."""
        hybrid = self._hybrid
        if hybrid is None or options.arms is Arms.LEXICAL:
            return _Plan(
                run=False, vector=VectorArm(ArmState.OFF, Reason.OFF), deadline=0.0, fusion=FusionSettings()
            )
        deadline = time.monotonic() + (hybrid.budget if options.budget is None else options.budget)
        decision = RolloutDecision.RUN
        if options.arms is Arms.BY_FLAG:
            state = await hybrid.flag.state(options.workspace)
            decision = decide_rollout(state, options.workspace, options.caller)
        if start is not None and start.ranking == LEXICAL and decision is RolloutDecision.RUN:
            decision = RolloutDecision.OFF  # a walk stays on the ranking that its first page had
        fusion = hybrid.fusion
        if options.arms is Arms.VECTOR:
            fusion = FusionSettings(k=fusion.k, lexical_weight=0.0, vector_weight=1.0)
        run = decision is RolloutDecision.RUN
        plan = _Plan(run, RAN if run else VectorArm(ArmState.OFF, Reason(decision.value)), deadline, fusion)
        refused = hybrid.arm.refusal(options.drill) if run else None
        return plan if refused is None else plan.degraded(refused)

    async def _encoded(self, text: str, options: RetrieveOptions, plan: _Plan) -> _Plan:
        """The plan with the text's vector. No snapshot is held meanwhile: they are few, and encoding is slow."""
        if self._hybrid is None or not plan.run or plan.has_encoded(text):
            return plan
        request = VectorRequest(
            text, options.workspace, options.content_type, plan.deadline, options.drill, self._tracer
        )
        with self._tracer.span(Step.VECTOR) as span:
            try:
                return replace(plan, encoded=await self._hybrid.arm.encode(request))
            except ArmDegraded as degraded:
                span.fail(degraded.reason.value)
                return plan.degraded(degraded.reason)

    async def _at_a_glance(
        self, subject: ByQuery, options: RetrieveOptions, fingerprint: bytes, plan: _Plan
    ) -> Answer | None:
        """The common read: the index is up to date, its first pool is enough, one statement brings the rest.

        None wherever that does not hold; the same answer then takes the way through a snapshot.
        """
        with self._tracer.span(Step.RESOLVE):
            query = ResolvedQuery(query_terms(subject.query), subject.query, {}, {})
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
            if glance is None or glance.seq != view.seq:
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
        plan: _Plan,
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
            plan = await self._encoded(query.text, options, plan)
        raise LexicalIndexUnavailable("the lexical index is being repaired")

    async def _from(
        self,
        snapshot: ReadSnapshot,
        query: ResolvedQuery,
        options: RetrieveOptions,
        fingerprint: bytes,
        start: Position | None,
        plan: _Plan,
        attempt: int,
    ) -> Answer:
        """The answer as this snapshot has it. Raises ViewLost when another one is needed."""
        if plan.encoded is None and not query.terms and not query.boosts:
            return nothing_found(await snapshot.corpus(options.workspace), start, plan.vector)
        nearest = None if plan.encoded is None else asyncio.create_task(self._nearest(plan.encoded))
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
        plan: _Plan,
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
            except ArmDegraded as degraded:
                vector = VectorArm(ArmState.DEGRADED, degraded.reason)
        corpus = await snapshot.corpus(options.workspace)
        return Reading(corpus, view.source, query, lexical, hybrid, vector, fingerprint, start)

    async def _nearest(self, encoded: EncodedQuery) -> Nearest:
        """The vector arm's first round, under the request's deadline. Raises ArmDegraded."""
        if self._hybrid is None:
            raise ArmDegraded(Reason.OFF)
        with self._tracer.span(Step.VECTOR) as span:
            try:
                return await self._hybrid.arm.nearest(encoded, FUSION_DEPTH)
            except ArmDegraded as degraded:
                span.fail(degraded.reason.value)
                raise


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
