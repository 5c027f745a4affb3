"""Judged queries and the corpus they were judged on, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

CUTOFF: Final = 8  # the default limit of an answer, and so the cutoff of the measure that decides

Qrels = Mapping[str, Mapping[str, int]]
Names = Mapping[str, frozenset[str]]


class CorpusKind(StrEnum):
    """Where a corpus comes from, which also says how its passages are named."""

    PRODUCTS = "products"  # shipped documents, `<item_id>#<heading path>`
    BEIR = "beir"  # corpus.jsonl, one passage a document, named by its `_id`


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus that can be made an instance of. `digest` names its contents; `path` is corpus.jsonl's."""

    name: str
    kind: CorpusKind
    digest: str
    path: Path | None = None

    def passage_name(self, item_id: str, heading: str | None) -> str:
        """The name that judgements use. Chunks of one section share a name."""
        return item_id if self.kind is CorpusKind.BEIR else f"{item_id}#{heading or ''}"


@dataclass(frozen=True, slots=True)
class Findings:
    """What was noticed and not scored: texts for a person, empty where all is well."""

    duplicate_judgements: tuple[str, ...] = ()
    unknown_queries: tuple[str, ...] = ()
    unjudged_queries: tuple[str, ...] = ()
    unknown_passages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """A set of judged queries.

    `qrels` holds every judged query with at least one score above 0. `must_not_match` are look-alikes,
    `must_not_appear` stale passages. `tags` name the slices of each query. `digest` covers queries,
    judgements and corpus.
    """

    name: str
    corpus: Corpus
    queries: Mapping[str, str]
    qrels: Qrels
    digest: str
    must_not_match: Names = field(default_factory=dict)
    must_not_appear: Names = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    def relevant(self, query_id: str) -> frozenset[str]:
        """The names judged above 0."""
        return frozenset(name for name, score in self.qrels[query_id].items() if score > 0)
