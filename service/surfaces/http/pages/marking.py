"""Where a query's terms stand in a text, found with the project's own tokens and on the text as it was written."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from service.core.scoring import MAX_TERMS
from service.core.tokenize import QueryTerm, count_term, stored_tokens, tokenize
from service.model import RetrievedPassage

_JOINTS: Final = r"'\-./_\u2010-\u2013\u2018\u2019\u2044\u2212\u2215\uff07\uff0d"
_LETTERS: Final = r"[\p{L}\p{N}\p{M}\p{Cf}]+"
_WORD: Final = regex.compile(rf"{_LETTERS}(?:[{_JOINTS}]{_LETTERS})*")
_PART: Final = regex.compile(_LETTERS)
# Scripts written without spaces: their tokens are single characters and pairs of neighbours.
_UNSPACED: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc]+"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a text, and whether it is a term that was looked for."""

    text: str
    marked: bool


class Marker:
    """Cuts texts at the terms of one query. What it has learnt of a word counts for the next text too."""

    def __init__(self, terms: Sequence[QueryTerm]) -> None:
        self._terms = {term.text: term for term in terms}
        self._known: dict[str, tuple[tuple[int, int], ...]] = {}

    def segments(self, text: str) -> tuple[Segment, ...]:
        """The whole text in order; marked stretches never touch without being one."""
        if not self._terms or not text:
            return (Segment(text, marked=False),) if text else ()
        return tuple(_cut(text, _joined(self._spans(text))))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for found in _WORD.finditer(text):
            word = found.group()
            if word not in self._known:
                self._known[word] = tuple(self._in_word(word))
            yield from ((found.start() + start, found.start() + end) for start, end in self._known[word])

    def _in_word(self, word: str) -> Iterator[tuple[int, int]]:
        """The word as a whole where it was asked for, else those of its parts that were."""
        runs = list(_UNSPACED.finditer(word))
        if runs:
            yield from self._unspaced(word, runs)
            return
        wanted = self._wanted(word)
        if not wanted:
            return
        parts = list(_PART.finditer(word))
        if len(parts) == 1 or tokenize(word)[0] in wanted:
            yield 0, len(word)
            return
        yield from (part.span() for part in parts if wanted.intersection(tokenize(part.group())))

    def _wanted(self, word: str) -> frozenset[str]:
        """The tokens of a word that are looked for; work for each token, however many terms there are."""
        stored, _ = stored_tokens(word)
        found = (self._terms.get(token) for token in set(stored.split()))
        return frozenset(term.text for term in found if term is not None and count_term(stored, term))

    def _unspaced(self, word: str, runs: Sequence[regex.Match[str]]) -> Iterator[tuple[int, int]]:
        wanted = self._terms.keys()
        for run in runs:
            start, end = run.span()
            for at in range(start, end):
                for size in (2, 1):
                    if at + size <= end and word[at : at + size] in wanted:
                        yield at, at + size
        for part in _PART.finditer(_UNSPACED.sub(lambda m: " " * len(m.group()), word)):
            if not wanted.isdisjoint(tokenize(part.group())):
                yield part.span()


def ranked_terms(terms: Sequence[QueryTerm], passages: Iterable[RetrievedPassage]) -> tuple[QueryTerm, ...]:
    """Of what a query asks for, what its ranking used, at most MAX_TERMS.

    Of a longer query these are the terms that its explained hits name: no other one ranked anything.
    """
    if len(terms) <= MAX_TERMS:
        return tuple(terms)
    named = {match.term for one in passages if one.explain for match in one.explain.matches}
    return tuple(term for term in terms if term.text in named)[:MAX_TERMS]


def _joined(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Segment]:
    place = 0
    for start, end in spans:
        if start > place:
            yield Segment(text[place:start], marked=False)
        yield Segment(text[start:end], marked=True)
        place = end
    if place < len(text):
        yield Segment(text[place:], marked=False)
