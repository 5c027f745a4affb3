"""The lexical score: BM25 over the body, with constant head boosts that no body count outweighs.

Per query term the score is ``idf x (TITLE_BOOST [in title] + HEADING_BOOST [in heading] + saturation)``:

- idf = ln(1 + (N - df + 0.5) / (df + 0.5)), always positive (Lucene's form of Robertson and Sparck Jones);
- saturation = tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length)), below k1 + 1 whatever tf is
  (Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, eq. 3.15).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.core.order import rank_key
from service.core.tokenize import INNER, QueryTerm, count_term
from service.model import ItemId, TermMatch

K1 = 1.2  # saturation; the value of the literature and of the candidate generator
B = 0.75  # length normalisation; likewise
TITLE_BOOST = 2.3  # above k1 + 1 = 2.2: one title hit outweighs any number of body hits of the same term
HEADING_BOOST = 2.6  # a heading is nearer to its passage than the document's title
MAX_TERMS = 64  # a longer query keeps its rarest terms


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Counts over the live, scorable passages of one workspace.

    `document_frequency` holds, for each term of one query, in how many passages it occurs in any field.
    """

    passages: int
    mean_length: float
    document_frequency: Mapping[str, int]

    def idf(self, term: str) -> float:
        """Inverse document frequency of a term; above 0 for every term."""
        frequency = self.document_frequency.get(term, 0)
        return math.log(1.0 + (max(self.passages, frequency) - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class ScorablePassage:
    """A passage as the scorer reads it: stored token text per field, and the body's length in tokens."""

    item_id: ItemId
    seq: int
    title: str
    heading: str
    body: str
    length: int


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A query term with the idf it has in the corpus at hand."""

    term: QueryTerm
    idf: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scored passage in a ranking."""

    item_id: ItemId
    seq: int
    score: float


def weigh_terms(terms: Iterable[QueryTerm], statistics: TermStatistics) -> tuple[WeightedTerm, ...]:
    """The terms a ranking uses, in a fixed order; of more than `MAX_TERMS` the rarest are kept."""
    weighted = [WeightedTerm(term, statistics.idf(term.text)) for term in sorted(terms)]
    if len(weighted) <= MAX_TERMS:
        return tuple(weighted)
    rarest = sorted(weighted, key=lambda w: (-w.idf, w.term))[:MAX_TERMS]
    return tuple(sorted(rarest, key=lambda w: w.term))


def saturation(count: int, length: int, mean_length: float) -> float:
    """The body part of one term's score, from 0 to below k1 + 1."""
    if count == 0:
        return 0.0
    relative = length / mean_length if mean_length > 0 else 1.0
    return count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * relative))


def score_passage(passage: ScorablePassage, terms: Sequence[WeightedTerm], mean_length: float) -> float:
    """The lexical score of one passage: 0 when no term matches, else above 0."""
    total = 0.0
    for weighted in terms:
        term = weighted.term
        part = saturation(count_term(passage.body, term), passage.length, mean_length)
        if passage.title and count_term(passage.title, term):
            part += TITLE_BOOST
        if passage.heading and count_term(passage.heading, term):
            part += HEADING_BOOST
        total += weighted.idf * part
    return total


def explain_passage(
    passage: ScorablePassage, terms: Sequence[WeightedTerm], mean_length: float
) -> tuple[TermMatch, ...]:
    """The same arithmetic as `score_passage`, term by term, for the terms that matched."""
    matches = []
    for weighted in terms:
        term = weighted.term
        body_count = count_term(passage.body, term)
        in_title = count_term(passage.title, term) > 0
        in_heading = count_term(passage.heading, term) > 0
        if not (body_count or in_title or in_heading):
            continue
        score = score_passage(passage, (weighted,), mean_length)
        matches.append(TermMatch(term.text, weighted.idf, in_title, in_heading, body_count, score))
    return tuple(matches)


class _Scorer:
    """`score_passage` for many passages of one ranking: what does not depend on the passage is worked out once.

    The arithmetic is the same to the last bit; a property of the tests holds the two together.
    """

    def __init__(self, terms: Sequence[WeightedTerm], mean_length: float) -> None:
        self._needles = [(_needle(w.term), _inner_needle(w.term), w.idf) for w in terms]
        self._mean_length = mean_length
        self._titles: dict[str, list[bool]] = {}

    def score(self, passage: ScorablePassage) -> float:
        """As `score_passage`."""
        in_title = self._titles.get(passage.title)
        if in_title is None:
            in_title = [_count(passage.title, n, inner) > 0 for n, inner, _ in self._needles]
            self._titles[passage.title] = in_title
        body, heading, total = passage.body, passage.heading, 0.0
        for (needle, inner, idf), titled in zip(self._needles, in_title, strict=True):
            part = 0.0
            if needle in body:
                part = saturation(_count(body, needle, inner), passage.length, self._mean_length)
            if titled:
                part += TITLE_BOOST
            if needle in heading and _count(heading, needle, inner):
                part += HEADING_BOOST
            total += idf * part
        return total


def _needle(term: QueryTerm) -> str:
    return f" {term.text} "


def _inner_needle(term: QueryTerm) -> str | None:
    return f" {INNER}{term.text} " if term.standalone else None


def _count(stored: str, needle: str, inner: str | None) -> int:
    """As `count_term`."""
    count = stored.count(needle)
    return count - stored.count(inner) if count and inner is not None else count


def rank_passages(
    passages: Iterable[ScorablePassage],
    terms: Sequence[WeightedTerm],
    mean_length: float,
    item_boosts: Mapping[ItemId, float] | None = None,
) -> list[Ranked]:
    """All passages that score above 0, best first. `item_boosts` are added to an item's every passage."""
    boosts = item_boosts or {}
    scorer = _Scorer(terms, mean_length)
    ranked = []
    for passage in passages:
        score = scorer.score(passage) + boosts.get(passage.item_id, 0.0)
        if score > 0.0:
            ranked.append(Ranked(passage.item_id, passage.seq, score))
    ranked.sort(key=place_of)
    return ranked


def place_of(ranked: Ranked) -> tuple[float, ItemId, int]:
    """A passage's place in the total order."""
    return rank_key(ranked.score, ranked.item_id, ranked.seq)
