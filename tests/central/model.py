"""The corpus as plain dicts, and what the pure functions say of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from service.core.facets import facet_tag_boosts, matching_facets, selection_facets
from service.core.retrieval import CorpusItem, retrieve_passages
from service.core.scoring import Ranked
from service.core.terms import context_query_terms, system_query_terms
from service.core.tokenize import QueryTerm, query_terms
from service.model import (
    Capture,
    ContentType,
    Facet,
    FacetTag,
    ItemId,
    SelectedOption,
    TagStatus,
    Vocabulary,
)
from service.search.request import ByQuery, BySelection, BySystem, Subject

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
EVERYTHING = 1_000_000  # more passages than any corpus of these tests has

Hit = tuple[ItemId, int, float]


@dataclass(frozen=True, slots=True)
class Version:
    """An item: the capture that it came from, and what became of it."""

    capture: Capture
    retired: bool = False
    superseded_by: ItemId | None = None

    @property
    def live(self) -> bool:
        """Neither retired nor superseded."""
        return not self.retired and self.superseded_by is None

    def says_the_same_as(self, other: Capture) -> bool:
        """Whether another capture of the source shows a reader the same."""
        mine = self.capture
        return (mine.title, mine.content_type, mine.resource_types, mine.passages) == (
            other.title,
            other.content_type,
            other.resource_types,
            other.passages,
        )


@dataclass(slots=True)
class Corpus:
    """One workspace, in the order in which things happened to it."""

    items: dict[ItemId, Version] = field(default_factory=dict)
    tags: dict[tuple[ItemId, Facet], TagStatus] = field(default_factory=dict)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    def copy(self) -> "Corpus":
        """The corpus of this moment."""
        return Corpus(dict(self.items), dict(self.tags), self.vocabulary)

    def live_of(self, capture: Capture) -> ItemId | None:
        """The live item of a capture's source."""
        for item_id, version in self.items.items():
            if version.live and version.capture.source.key == capture.source.key:
                return item_id
        return None

    def store(self, capture: Capture, item_id: ItemId) -> ItemId | None:
        """Store a capture under the id it was given; what it superseded."""
        old = self.live_of(capture)
        if old is not None:
            self.items[old] = Version(self.items[old].capture, superseded_by=item_id)
            for (tagged, facet), status in list(self.tags.items()):
                if tagged == old and status is TagStatus.ACCEPTED:
                    self.tags[item_id, facet] = TagStatus.PROPOSED
        self.items[item_id] = Version(capture)
        return old

    def retire(self, item_id: ItemId) -> None:
        """Retire an item, stale already or not."""
        version = self.items[item_id]
        self.items[item_id] = Version(version.capture, retired=True, superseded_by=version.superseded_by)

    def supersede(self, item_id: ItemId, by: ItemId) -> None:
        """Point an item at its successor."""
        version = self.items[item_id]
        self.items[item_id] = Version(version.capture, retired=version.retired, superseded_by=by)

    def leads_to(self, item_id: ItemId, target: ItemId) -> bool:
        """Whether the chain that starts at an item passes through another."""
        following: ItemId | None = item_id
        while following is not None:
            if following == target:
                return True
            following = self.items[following].superseded_by
        return False

    def answer(self, subject: Subject, content_type: ContentType | None) -> list[Hit]:
        """The whole ranking of a subject, best first."""
        terms, boosts = self._resolved(subject)
        if not terms and not boosts:
            return []
        ranked = retrieve_passages(self._pure(), terms, EVERYTHING, content_type, boosts)
        return hits(ranked)

    def _resolved(self, subject: Subject) -> tuple[tuple[QueryTerm, ...], dict[ItemId, float]]:
        match subject:
            case ByQuery(query):
                return query_terms(query), {}
            case BySystem(system_id):
                named = [system for system in self.vocabulary.systems if system.system_id == system_id]
                return (system_query_terms(named[0]) if named else ()), {}
            case BySelection(context):
                selected = self._selected(set(context.option_ids))
                facets = selection_facets(selected)
                return context_query_terms(selected), facet_tag_boosts(
                    matching_facets(self._live_tags(), facets)
                )

    def _selected(self, option_ids: set[str]) -> list[SelectedOption]:
        factors = {factor.factor_id: factor.name for factor in self.vocabulary.factors}
        attributes = {attribute.attribute_id: attribute.name for attribute in self.vocabulary.attributes}
        return [
            SelectedOption(
                option, factors[option.factor_id], tuple(attributes[a] for a in option.attribute_ids)
            )
            for option in sorted(self.vocabulary.options, key=lambda option: option.option_id)
            if option.option_id in option_ids
        ]

    def _live_tags(self) -> list[FacetTag]:
        return [
            FacetTag("", item_id, facet, status)
            for (item_id, facet), status in self.tags.items()
            if self.items[item_id].live
        ]

    def _pure(self) -> list[CorpusItem]:
        return [
            CorpusItem(
                item_id=item_id,
                title=version.capture.title,
                content_type=version.capture.content_type,
                passages=version.capture.passages,
                retired_at=LONG_AGO if version.retired else None,
                superseded_by=version.superseded_by,
            )
            for item_id, version in self.items.items()
        ]


def hits(ranked: Iterable[Ranked]) -> list[Hit]:
    """A ranking as plain tuples."""
    return [(passage.item_id, passage.seq, passage.score) for passage in ranked]
