"""An item's page: the whole document, where it comes from, and what took its place."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from litestar import Response, get
from litestar.params import FromPath

from service.model import FacetTag, Item, PassageText, Vocabulary
from service.surfaces.http.access import FOR_PAGES, READS, Asking
from service.surfaces.http.pages.citing import Cited, cited
from service.surfaces.http.pages.rendering import page
from service.surfaces.http.pages.results import facet_names, item_path
from service.surfaces.http.pages.visit import PageRequest, Visit, visit_of
from service.surfaces.http.parts import App
from service.surfaces.readings import item_not_found, known_id

PASSAGES_SHOWN: Final = 200  # at once
CHARS_SHOWN: Final = 1_000_000  # at once
TAGS_SHOWN: Final = 100
CHAIN_SHOWN: Final = 200  # versions nearest to the newest
FROM: Final = "from"


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One version of a document. `mood` is current, stale or retired; `standing` says it in words."""

    path: str
    cited: Cited
    mood: str
    standing: str
    is_this: bool


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag: under what, where it stands, and who said so."""

    kind: str
    name: str
    status: str
    by: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some passages in their order, and the addresses of those before and after."""

    passages: tuple[PassageText, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item. `current_path` leads to the version that is searched, where there is one and it is not this."""

    item_id: str
    cited: Cited
    standing: ChainLink
    current_path: str | None
    chain: tuple[ChainLink, ...]
    stretch: Stretch
    passage_count: int
    tags: tuple[TagRow, ...]
    resource_types: tuple[str, ...]


@get("/items/{item_id:str}", opt={**READS, FOR_PAGES: True})
async def item_page(
    request: PageRequest, item_id: FromPath[str], application: App, access: Asking
) -> Response[str]:
    """A whole item, stale or not. Raises ItemNotFound."""
    known = known_id(item_id)
    async with application.store.snapshot() as snapshot:
        item = await snapshot.item(access.workspace, known)
        if item is None:
            raise item_not_found()
        chain = await snapshot.supersession(access.workspace, known)
        tags = await snapshot.tags(access.workspace, known, None, None, TAGS_SHOWN)
        vocabulary = await snapshot.vocabulary(access.workspace) if tags else Vocabulary()
    visit = visit_of(request, access)
    stretch = _stretch(item, request.query_params.get(FROM, ""), visit)
    links = tuple(_link(one, item) for one in chain[-CHAIN_SHOWN:])
    head = links[-1]
    view = ItemView(
        item_id=item_id,
        cited=cited(item.provenance),
        standing=_link(item, item),
        current_path=head.path if head.mood == "current" and not head.is_this else None,
        chain=links if len(links) > 1 else (),
        stretch=stretch,
        passage_count=len(item.passages),
        tags=tuple(_tag(tag, vocabulary) for tag in tags),
        resource_types=item.provenance.resource_types or (),
    )
    return page("item.html", visit, view)


def _stretch(item: Item, wanted: str, visit: Visit) -> Stretch:
    """The passages that a page of the item shows."""
    path = item_path(item.provenance.item_id)
    first = _first(wanted, len(item.passages))
    shown = _bounded(item.passages[first:])
    end = first + len(shown)
    before = visit.href(path, ((FROM, str(max(0, first - PASSAGES_SHOWN))),)) if first else None
    after = visit.href(path, ((FROM, str(end)),)) if end < len(item.passages) else None
    return Stretch(shown, before, after)


def _first(text: str, count: int) -> int:
    """Which passage the page begins with; the beginning for what is no place in the item."""
    at = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return at if at < count else 0


def _bounded(passages: tuple[PassageText, ...]) -> tuple[PassageText, ...]:
    """As many passages as a page shows; at least one."""
    total = 0
    shown: list[PassageText] = []
    for passage in islice(passages, PASSAGES_SHOWN):
        total += len(passage.text)
        if shown and total > CHARS_SHOWN:
            break
        shown.append(passage)
    return tuple(shown)


def _link(item: Item, this: Item) -> ChainLink:
    if item.superseded_by is not None:
        mood, standing = "stale", "superseded"
    elif item.retired_at is not None:
        mood, standing = "retired", f"retired on {item.retired_at:%Y-%m-%d}"
    else:
        mood, standing = "current", "current"
    return ChainLink(
        path=item_path(item.provenance.item_id),
        cited=cited(item.provenance),
        mood=mood,
        standing=standing,
        is_this=item.provenance.item_id == this.provenance.item_id,
    )


def _tag(tag: FacetTag, vocabulary: Vocabulary) -> TagRow:
    by = tag.events[-1].by if tag.events else ""
    return TagRow(
        tag.facet.type.value, facet_names(vocabulary).get(tag.facet, tag.facet.id), tag.status.value, by
    )
