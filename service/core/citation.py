"""How a passage is cited: its title, its source, its version, and a link only where the link is known to work."""

from dataclasses import dataclass

from service.model import Provenance, SourceType


@dataclass(frozen=True, slots=True)
class Citation:
    """What a reader is shown beside a passage. Without a `link` the title stands as plain text."""

    title: str
    source: str | None
    version: str
    link: str | None


def cite(provenance: Provenance) -> Citation:
    """The citation of an item's passages."""
    return Citation(
        title=provenance.title,
        source=_source(provenance),
        version=provenance.version,
        link=link_to(provenance),
    )


def link_to(provenance: Provenance) -> str | None:
    """The source URL when it was seen live; None for a dead URL, an unchecked one, and for none at all."""
    return provenance.source_url if provenance.source_url_ok is True else None


def _source(provenance: Provenance) -> str | None:
    """The URL or the file name, by what kind of source it is."""
    if provenance.source_type is SourceType.URL:
        return provenance.source_url
    return provenance.source_filename
