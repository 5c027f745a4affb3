"""Cutting a page out of a ranking, and what it says of itself."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.core.cursors import Position, encode_cursor
from service.core.order import rank_key
from service.core.passage_size import fitting
from service.core.scoring import Ranked, explain_passage
from service.model import Explanation, ItemId, RetrievedPassage, passage_id
from service.ports.lexical import CandidateSource
from service.ports.store import Candidate, PassageKey, PresentablePassage
from service.search.hybrid import HybridRanking
from service.search.lexical_ranking import LexicalRanking
from service.search.request import (
    Answer,
    ArmState,
    Explain,
    LexicalArm,
    ResolvedQuery,
    RetrieveOptions,
    VectorArm,
    View,
)

LEXICAL = "lexical-1"  # names the ranking in cursors; raise it when scores or their constants change
HYBRID = "hybrid-1"
PAGE_BYTES = 1_000_000  # byte budget of a page, where nothing else is said


@dataclass(frozen=True, slots=True)
class Reading:
    """A ranking with what a page of it needs: the corpus it shows, and where the page begins.

    `loaded` are candidates that only the vector arm found and that the page has to explain.
    """

    corpus: int
    source: CandidateSource
    query: ResolvedQuery
    lexical: LexicalRanking
    hybrid: HybridRanking | None
    vector: VectorArm
    fingerprint: bytes
    start: Position | None
    loaded: Mapping[tuple[ItemId, int], Candidate] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The ranking's name in cursors."""
        return LEXICAL if self.hybrid is None else f"{HYBRID}-{self.hybrid.name}"

    @property
    def ranked(self) -> Sequence[Ranked]:
        """Best first."""
        return self.lexical.ranked if self.hybrid is None else self.hybrid.ranked

    def key(self, name: tuple[ItemId, int]) -> PassageKey:
        """The key of a ranked passage."""
        return self.lexical.candidates[name].key if self.hybrid is None else self.hybrid.keys[name]

    def candidate(self, name: tuple[ItemId, int]) -> Candidate:
        """A ranked passage as it was scored, or as it was loaded to be explained."""
        found = self.lexical.candidates.get(name)
        return self.loaded[name] if found is None else found

    def first(self) -> int:
        """The index of the page's first passage: behind the cursor's place, or its rank in another ranking."""
        if self.start is None:
            return 0
        if self.start.ranking != self.name:
            return min(self.start.rank, len(self.ranked))
        place = rank_key(self.start.score, self.start.item_id, self.start.seq)
        return bisect_right(self.ranked, place, key=lambda r: rank_key(r.score, r.item_id, r.seq))


def page_of(reading: Reading, options: RetrieveOptions) -> Sequence[Ranked]:
    """The ranked passages of the page."""
    first = reading.first()
    return reading.ranked[first : first + options.limit]


def answer_of(
    reading: Reading,
    options: RetrieveOptions,
    page: Sequence[Ranked],
    shown: Sequence[PresentablePassage],
    budget: int = PAGE_BYTES,
) -> Answer:
    """The page with its passages' texts, in the same order.

    A page that would take more than `budget` bytes as JSON ends before that, never before its first passage; its
    cursor goes on behind the last one shown.
    """
    first, start = reading.first(), reading.start
    explain = options.explain is Explain.ON
    results = tuple(
        _result(ranked, row, _explanation(reading, ranked, rank) if explain else None)
        for rank, (ranked, row) in enumerate(zip(page, shown, strict=True), start=first + 1)
    )
    results = results[: fitting(results, budget, summary=options.view is View.SUMMARY)]
    end = first + len(results)
    has_more = len(reading.ranked) > end
    return Answer(
        results=results,
        has_more=has_more,
        next_cursor=encode_cursor(_behind(reading, end), reading.fingerprint) if has_more else None,
        lexical=LexicalArm(ArmState.RAN, reading.source.value),
        vector=reading.vector,
        corpus_changed=start is not None and start.corpus_seq != reading.corpus,
        ranking_changed=start is not None and start.ranking != reading.name,
    )


def _behind(reading: Reading, end: int) -> Position:
    """The place behind the first `end` passages of the ranking."""
    last = reading.ranked[end - 1]
    return Position(end, last.score, last.item_id, last.seq, reading.corpus, reading.name)


def nothing_found(corpus: int, start: Position | None, vector: VectorArm) -> Answer:
    """The answer to a request that nothing matches."""
    return Answer(
        results=(),
        has_more=False,
        next_cursor=None,
        lexical=LexicalArm(ArmState.RAN, CandidateSource.INDEX.value),
        vector=vector,
        corpus_changed=start is not None and start.corpus_seq != corpus,
        ranking_changed=start is not None and start.ranking != LEXICAL,
    )


def _result(ranked: Ranked, row: PresentablePassage, explain: Explanation | None) -> RetrievedPassage:
    return RetrievedPassage(
        passage_id=passage_id(ranked.item_id, ranked.seq),
        heading=row.heading,
        seq=row.seq,
        text=row.text,
        score=ranked.score,
        provenance=row.provenance,
        explain=explain,
    )


def _explanation(reading: Reading, ranked: Ranked, rank: int) -> Explanation:
    key = (ranked.item_id, ranked.seq)
    boost = reading.query.boosts.get(ranked.item_id, 0.0)
    lexical, hybrid = reading.lexical, reading.hybrid
    matches = explain_passage(reading.candidate(key).passage, lexical.terms, lexical.mean_length)
    facets = reading.query.facets.get(ranked.item_id, ())
    if hybrid is None:
        return Explanation(rank, ranked.score - boost, matches, boost, facets)
    fused = hybrid.fused[key]
    return Explanation(
        lexical_rank=fused.lexical_rank,
        lexical_score=max(0.0, hybrid.lexical_scores.get(key, 0.0) - boost),
        matches=matches,
        tag_boost=boost if fused.lexical_rank is not None else 0.0,
        matched_facets=facets,
        vector_rank=fused.vector_rank,
        vector_score=hybrid.vector_scores.get(key),
        fusion=hybrid.fusion_of(key),
    )
