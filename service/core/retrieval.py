"""The whole lexical retrieval as one pure function over a corpus held in memory.

It is the definition that the production path is tested against: the same rows and the same request give
the same ranking, whatever an index proposes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.core.scoring import Ranked, ScorablePassage, TermStatistics, rank_passages, weigh_terms
from service.core.staleness import is_stale
from service.core.tokenize import QueryTerm, stored_tokens
from service.model import DEFAULT_LIMIT, ContentType, ItemId, PassageText


@dataclass(frozen=True, slots=True)
class CorpusItem:
    """An item as pure retrieval reads it."""

    item_id: ItemId
    title: str
    content_type: ContentType
    passages: tuple[PassageText, ...]
    retired_at: datetime | None = None
    superseded_by: ItemId | None = None


def retrieve_passages(
    corpus: Iterable[CorpusItem],
    terms: Sequence[QueryTerm],
    limit: int = DEFAULT_LIMIT,
    content_type: ContentType | None = None,
    item_boosts: Mapping[ItemId, float] | None = None,
) -> list[Ranked]:
    """The best `limit` passages of a corpus: stale items and link stubs dropped, then scored, then cut.

    Statistics are those of all live scorable passages; `content_type` narrows the answer, not the statistics.
    """
    live = [item for item in corpus if not is_stale(item.retired_at, item.superseded_by)]
    scorable = {
        item.item_id: [scorable_passage(item, p) for p in item.passages if p.scorable] for item in live
    }
    statistics = corpus_statistics([p for passages in scorable.values() for p in passages], terms)
    wanted = [
        passage
        for item in live
        if content_type is None or item.content_type is content_type
        for passage in scorable[item.item_id]
    ]
    ranked = rank_passages(wanted, weigh_terms(terms, statistics), statistics.mean_length, item_boosts)
    return ranked[:limit]


def scorable_passage(item: CorpusItem, passage: PassageText) -> ScorablePassage:
    """A passage with its token texts."""
    body, length = stored_tokens(passage.text)
    return ScorablePassage(
        item_id=item.item_id,
        seq=passage.seq,
        title=stored_tokens(item.title)[0],
        heading=stored_tokens(passage.heading or "")[0],
        body=body,
        length=length,
    )


def corpus_statistics(passages: Sequence[ScorablePassage], terms: Iterable[QueryTerm]) -> TermStatistics:
    """Exact counts over the given passages for the given terms."""
    frequency = {
        term.text: sum(
            1
            for passage in passages
            if any(f" {term.text} " in field for field in (passage.title, passage.heading, passage.body))
        )
        for term in terms
    }
    total = sum(passage.length for passage in passages)
    return TermStatistics(len(passages), total / len(passages) if passages else 0.0, frequency)
