"""The hand-off shaper: what an advisor is given when a buyer asks for one."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.core.cad import is_cad_resource
from service.core.citation import link_to
from service.model import ItemId, Provenance, RetrievedPassage


@dataclass(frozen=True, slots=True)
class HandOffDocument:
    """A document worth opening. Without a `link` the title stands as plain text."""

    item_id: ItemId
    title: str
    link: str | None


@dataclass(frozen=True, slots=True)
class HandOff:
    """The passages as they were retrieved, and the documents they come from, best first."""

    documents: tuple[HandOffDocument, ...]
    passages: tuple[RetrievedPassage, ...]


def hand_off(passages: Iterable[RetrievedPassage]) -> HandOff:
    """Each document once, where its best passage stands; CAD resources are no documents of a recommendation.

    Only the documents are narrowed: the passages stay as they were.
    """
    kept = tuple(passages)
    # A dict keeps the place where a key was first put.
    sources = {passage.provenance.item_id: passage.provenance for passage in kept}
    return HandOff(tuple(_document(source) for source in sources.values() if not _is_cad(source)), kept)


def _document(source: Provenance) -> HandOffDocument:
    return HandOffDocument(source.item_id, source.title, link_to(source))


def _is_cad(source: Provenance) -> bool:
    return is_cad_resource(source.title, source.source_filename, source.source_url, source.resource_types)
