"""The evidence shaper: passages with what a recommendation prints below them."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.core.citation import Citation, cite
from service.model import RetrievedPassage


@dataclass(frozen=True, slots=True)
class Evidence:
    """One passage and its citation."""

    passage: RetrievedPassage
    citation: Citation


def evidence(passages: Iterable[RetrievedPassage]) -> tuple[Evidence, ...]:
    """Every passage, cited, in the order given."""
    return tuple(Evidence(passage, cite(passage.provenance)) for passage in passages)
