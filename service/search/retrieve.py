"""Retrieve: the one read path over the corpus."""

from dataclasses import dataclass

from service.core.cursors import Position, decode_cursor, encode_cursor
from service.core.order import rank_key
from service.core.scoring import Ranked, explain_passage, weigh_terms
from service.core.tokenize import query_terms
from service.errors import LexicalIndexUnavailable
from service.model import Explanation, RetrievedPassage, passage_id
from service.ports.lexical import CandidateSource, LexicalIndex, ViewLost
from service.ports.store import PresentablePassage, Store
from service.search.lexical_ranking import LexicalRanking, Scope, first_depth, rank_lexical
from service.search.request import (
    Answer,
    ArmState,
    ByQuery,
    Explain,
    LexicalArm,
    ResolvedQuery,
    RetrieveOptions,
    Subject,
    VectorArm,
)
from service.search.subjects import ranking_fingerprint, resolve

RANKING = "lexical-1"  # names the ranking in cursors; raise it when scores or their constants change
ATTEMPTS = 6  # snapshots tried before an index that keeps moving ahead is taken as it is
VECTOR_OFF = VectorArm(ArmState.OFF, "off")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A ranking with what a page of it needs: the moment it shows, and where the page begins."""

    seq: int
    source: CandidateSource
    query: ResolvedQuery
    ranking: LexicalRanking
    fingerprint: bytes
    start: Position | None


class Retriever:
    """Retrieval by system, by selection and by free text, with one set of guarantees."""

    def __init__(self, store: Store, lexical: LexicalIndex) -> None:
        self._store = store
        self._lexical = lexical

    async def retrieve(self, subject: Subject, options: RetrieveOptions) -> Answer:
        """One page of the ranking of live passages. A miss is an empty answer.

        Raises InvalidCursor, StoreUnavailable, LexicalIndexUnavailable.
        """
        content_type = None if options.content_type is None else options.content_type.value
        fingerprint = ranking_fingerprint(options.workspace, subject, content_type, RANKING)
        start = None if options.cursor is None else decode_cursor(options.cursor, fingerprint)
        if isinstance(subject, ByQuery) and start is None:
            answer = await self._at_a_glance(subject, options, fingerprint)
            if answer is not None:
                return answer
        for attempt in range(ATTEMPTS):
            async with self._store.snapshot() as snapshot:
                query = await resolve(snapshot, options.workspace, subject)
                if not query.terms and not query.boosts:
                    return nothing_found(snapshot.seq, start)
                view = await self._lexical.view(options.workspace, [t.text for t in query.terms], snapshot)
                if view.seq != snapshot.seq and attempt + 1 < ATTEMPTS:
                    continue  # the index has applied a write that this snapshot does not show: look again
                scope = Scope(options.workspace, options.content_type)
                try:
                    ranking = await rank_lexical(snapshot, view, query, scope, _needed(options, start))
                except ViewLost:
                    continue
                reading = _Reading(snapshot.seq, view.source, query, ranking, fingerprint, start)
                page = _page(reading, options)
                keys = [ranking.candidates[r.item_id, r.seq].key for r in page]
                shown = await snapshot.passages(keys) if keys else {}
                return _answer(reading, options, page, [shown[key] for key in keys])
        raise LexicalIndexUnavailable("the lexical index is being repaired")

    async def _at_a_glance(
        self, subject: ByQuery, options: RetrieveOptions, fingerprint: bytes
    ) -> Answer | None:
        """The common read: the index is up to date, its first pool is enough, one statement brings the rest.

        None wherever that does not hold; the same answer then takes the way through a snapshot.
        """
        query = ResolvedQuery(query_terms(subject.query), subject.query, {}, {})
        view = self._lexical.latest(options.workspace, [t.text for t in query.terms])
        if view is None or not query.terms:
            return None
        terms = weigh_terms(query.terms, view.statistics)
        needed = _needed(options, None)
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
        reading = _Reading(glance.seq, view.source, query, ranking, fingerprint, None)
        page = _page(reading, options)
        rows = {(row.candidate.passage.item_id, row.candidate.passage.seq): row for row in glance.rows}
        return _answer(reading, options, page, [rows[r.item_id, r.seq].shown() for r in page])


def nothing_found(seq: int, start: Position | None) -> Answer:
    """The answer to a request that nothing matches."""
    return Answer(
        results=(),
        has_more=False,
        next_cursor=None,
        lexical=LexicalArm(ArmState.RAN, "index"),
        vector=VECTOR_OFF,
        corpus_changed=start is not None and start.corpus_seq != seq,
    )


def _needed(options: RetrieveOptions, start: Position | None) -> int:
    """The rank down to which a page needs the order: its own end, and one more to know whether more follow."""
    return (0 if start is None else start.rank) + options.limit + 1


def _first(reading: _Reading) -> int:
    start = reading.start
    return reading.ranking.first_after(
        None if start is None else rank_key(start.score, start.item_id, start.seq)
    )


def _page(reading: _Reading, options: RetrieveOptions) -> list[Ranked]:
    first = _first(reading)
    return reading.ranking.ranked[first : first + options.limit]


def _answer(
    reading: _Reading, options: RetrieveOptions, page: list[Ranked], shown: list[PresentablePassage]
) -> Answer:
    first = _first(reading)
    explain = options.explain is Explain.ON
    results = tuple(
        _result(reading, ranked, row, rank if explain else None)
        for rank, (ranked, row) in enumerate(zip(page, shown, strict=True), start=first + 1)
    )
    has_more = len(reading.ranking.ranked) > first + len(page)
    cursor = None
    if has_more:
        last = page[-1]
        position = Position(first + len(page), last.score, last.item_id, last.seq, reading.seq)
        cursor = encode_cursor(position, reading.fingerprint)
    return Answer(
        results=results,
        has_more=has_more,
        next_cursor=cursor,
        lexical=LexicalArm(ArmState.RAN, reading.source.value),
        vector=VECTOR_OFF,
        corpus_changed=reading.start is not None and reading.start.corpus_seq != reading.seq,
    )


def _result(
    reading: _Reading, ranked: Ranked, row: PresentablePassage, explained_rank: int | None
) -> RetrievedPassage:
    return RetrievedPassage(
        passage_id=passage_id(ranked.item_id, ranked.seq),
        heading=row.heading,
        seq=row.seq,
        text=row.text,
        score=ranked.score,
        provenance=row.provenance,
        explain=None if explained_rank is None else _explanation(reading, ranked, explained_rank),
    )


def _explanation(reading: _Reading, ranked: Ranked, rank: int) -> Explanation:
    ranking, item_id = reading.ranking, ranked.item_id
    boost = reading.query.boosts.get(item_id, 0.0)
    passage = ranking.candidates[item_id, ranked.seq].passage
    return Explanation(
        lexical_rank=rank,
        lexical_score=ranked.score - boost,
        matches=explain_passage(passage, ranking.terms, ranking.mean_length),
        tag_boost=boost,
        matched_facets=reading.query.facets.get(item_id, ()),
    )
