"""A citation as a page shows it: a link only where it was seen live and leads to the web."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from service.core.citation import cite
from service.model import Provenance, SourceType

_WEB: Final = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class Cited:
    """Where a passage comes from. `doubt` says why a source that is a URL is no link."""

    title: str
    content_type: str
    source: str | None
    link: str | None
    doubt: str
    version: str
    fetched_on: str


def cited(provenance: Provenance) -> Cited:
    """The citation of an item."""
    citation = cite(provenance)
    link = citation.link if citation.link is not None and is_web_link(citation.link) else None
    return Cited(
        title=citation.title,
        content_type=provenance.content_type.value,
        source=citation.source,
        link=link,
        doubt="" if link is not None or provenance.source_type is not SourceType.URL else _doubt(provenance),
        version=citation.version,
        fetched_on=provenance.fetched_at.strftime("%Y-%m-%d"),
    )


def is_web_link(url: str) -> bool:
    """Whether a URL may be followed: http or https, with a host, and nothing in it that cannot be seen."""
    if not url.isprintable() or any(letter.isspace() or letter == "\\" for letter in url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme.lower() in _WEB and bool(parts.hostname)
    except ValueError:
        return False


def _doubt(provenance: Provenance) -> str:
    match provenance.source_url_ok:
        case None:
            return "not checked yet"
        case False:
            return "dead when last checked"
        case True:
            return "not a web address"
