"""How many bytes a passage takes in an answer, and how many passages a byte budget lets in."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from service.model import Provenance, RetrievedPassage

SUMMARY_CHARS: Final = 280  # of a text, where only its beginning is shown
FIELD_BYTES: Final = 600  # names, numbers, dates and punctuation of one passage
EXPLANATION_BYTES: Final = 600  # the same of an explanation without its matches
MATCH_BYTES: Final = 200  # the same of one matched term or facet
_MOST_BYTES: Final = 6  # of a character in JSON: a control character's escape


def fitting(passages: Sequence[RetrievedPassage], budget: int, *, summary: bool = False) -> int:
    """How many of the first passages fit into `budget` bytes of JSON together; one always does."""
    if sum(_at_most(passage, summary=summary) for passage in passages) <= budget:
        return len(passages)  # the common page: nothing needs to be encoded to know it
    taken = 0
    for count, passage in enumerate(passages):
        taken += passage_bytes(passage, summary=summary)
        if taken > budget and count:
            return count
    return len(passages)


def passage_bytes(passage: RetrievedPassage, *, summary: bool = False) -> int:
    """A passage's size as JSON in UTF-8, escapes included; a little more than it is, never less."""
    return _fixed(passage) + sum(map(_json_bytes, _strings(passage, summary=summary)))


def _at_most(passage: RetrievedPassage, *, summary: bool) -> int:
    return _fixed(passage) + _MOST_BYTES * sum(map(len, _strings(passage, summary=summary)))


def _fixed(passage: RetrievedPassage) -> int:
    """What is not text of the corpus."""
    if passage.explain is None:
        return FIELD_BYTES
    named = len(passage.explain.matches) + len(passage.explain.matched_facets)
    return FIELD_BYTES + EXPLANATION_BYTES + MATCH_BYTES * named


def _strings(passage: RetrievedPassage, *, summary: bool) -> Iterator[str]:
    yield passage.text[:SUMMARY_CHARS] if summary else passage.text
    yield passage.passage_id
    yield passage.heading or ""
    yield from _provenance_strings(passage.provenance)
    if passage.explain is not None:
        yield from (match.term for match in passage.explain.matches)
        yield from (facet.id for facet in passage.explain.matched_facets)


def _provenance_strings(provenance: Provenance) -> Iterator[str]:
    yield provenance.item_id
    yield provenance.title
    yield provenance.version
    yield provenance.source_url or ""
    yield provenance.source_filename or ""
    yield from provenance.resource_types or ()


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
