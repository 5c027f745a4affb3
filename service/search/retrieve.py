"""Retrieve: the one read path over the corpus."""

from dataclasses import dataclass

from service.core.cursors import Position, decode_cursor, encode_cursor
from service.core.order import rank_key
from service.core.scoring import Ranked, explain_passage
from service.errors import LexicalIndexUnavailable
from service.model import Explanation, RetrievedPassage, passage_id
from service.ports.lexical import LexicalIndex, LexicalView, ViewLost
from service.ports.store import PresentablePassage, ReadSnapshot, Store
from service.search.lexical_ranking import LexicalRanking, Scope, rank_lexical
from service.search.request import (
    Answer,
    ArmState,
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
    """Everything one page is made from."""

    snapshot: ReadSnapshot
    view: LexicalView
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
        for attempt in range(ATTEMPTS):
            async with self._store.snapshot() as snapshot:
                query = await resolve(snapshot, options.workspace, subject)
                if not query.terms and not query.boosts:
                    return nothing_found(snapshot.seq, start)
                view = await self._lexical.view(options.workspace, [t.text for t in query.terms], snapshot)
                if view.seq != snapshot.seq and attempt + 1 < ATTEMPTS:
                    continue  # the index has applied a write that this snapshot does not show: look again
                try:
                    scope = Scope(options.workspace, options.content_type)
                    needed = (0 if start is None else start.rank) + options.limit + 1
                    ranking = await rank_lexical(snapshot, view, query, scope, needed)
                except ViewLost:
                    continue
                return await _page(_Reading(snapshot, view, query, ranking, fingerprint, start), options)
        raise LexicalIndexUnavailable("the lexical index is being repaired")


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


async def _page(reading: _Reading, options: RetrieveOptions) -> Answer:
    """Cut the page out of the ranking and load what it shows."""
    ranking, start, seq = reading.ranking, reading.start, reading.snapshot.seq
    first = ranking.first_after(None if start is None else rank_key(start.score, start.item_id, start.seq))
    page = ranking.ranked[first : first + options.limit]
    has_more = len(ranking.ranked) > first + len(page)
    keys = [ranking.candidates[ranked.item_id, ranked.seq].key for ranked in page]
    rows = await reading.snapshot.passages(keys) if keys else {}
    results = tuple(
        _result(reading, ranked, rows[key], first + offset if options.explain is Explain.ON else None)
        for offset, (ranked, key) in enumerate(zip(page, keys, strict=True), start=1)
    )
    cursor = None
    if has_more:
        last = page[-1]
        position = Position(first + len(page), last.score, last.item_id, last.seq, seq)
        cursor = encode_cursor(position, reading.fingerprint)
    return Answer(
        results=results,
        has_more=has_more,
        next_cursor=cursor,
        lexical=LexicalArm(ArmState.RAN, reading.view.source.value),
        vector=VECTOR_OFF,
        corpus_changed=start is not None and start.corpus_seq != seq,
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
