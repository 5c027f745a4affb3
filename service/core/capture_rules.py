"""What storing a capture does, decided without I/O."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from service.core.identity import derived_item_id
from service.core.staleness import is_stale
from service.core.text import is_storable
from service.errors import EmptyDocument, InvalidInput, InvalidText, ItemExists, TooLarge
from service.model import Capture, ItemId, PassageText, Source, SourceType

MAX_TITLE = 2_000  # characters
MAX_LABEL = 500  # characters of a version label, heading path element list, resource type
MAX_PASSAGE = 200_000  # characters
MAX_HEADING = 4_000  # characters
MAX_PASSAGES = 100_000
MAX_SEQ = 2**31 - 1
_ITEM_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~@+-]{0,199}")
_WEB = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ItemHead:
    """What a write needs to know of a stored item."""

    item_id: ItemId
    item_key: int
    source_key_hash: str
    content_hash: str
    retired_at: datetime | None
    superseded_by: ItemId | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored already: the item with the capture's id, the source's live item, its captures so far."""

    same_id: ItemHead | None
    live: ItemHead | None
    earlier_captures: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing but `fetched_at` changes, and that only while the item is live."""

    item_id: ItemId
    refresh: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """The capture becomes a new item, in place of the source's live one if there is one."""

    item_id: ItemId
    supersedes: ItemId | None


def decide_capture(capture: Capture, source_hash: str, hashed: str, known: Known) -> Unchanged | Stored:
    """Whether a capture is new. Raises ItemExists when its id is taken by other content."""
    if known.same_id is not None:
        if known.same_id.source_key_hash != source_hash or known.same_id.content_hash != hashed:
            raise ItemExists(f"item {known.same_id.item_id} is already stored with other content")
        live = not is_stale(known.same_id.retired_at, known.same_id.superseded_by)
        return Unchanged(known.same_id.item_id, refresh=live)
    if known.live is not None and known.live.content_hash == hashed:
        return Unchanged(known.live.item_id, refresh=True)
    item_id = capture.item_id or derived_item_id(source_hash, hashed, known.earlier_captures)
    return Stored(item_id, None if known.live is None else known.live.item_id)


def check_capture(capture: Capture) -> None:
    """Raises InvalidInput, InvalidText, EmptyDocument or TooLarge for a capture that cannot be stored."""
    if capture.item_id is not None:
        check_item_id(capture.item_id)
    _check_text(capture.title, "title", MAX_TITLE)
    _check_text(capture.version, "version", MAX_LABEL)
    _check_source(capture.source)
    for kind in capture.resource_types or ():
        _check_text(kind, "resource_types", MAX_LABEL)
    if capture.fetched_at is not None and capture.fetched_at.tzinfo is None:
        raise InvalidInput("fetched_at needs a time zone", field="fetched_at")
    _check_passages(capture.passages)


def check_item_id(item_id: str) -> None:
    """Raises InvalidInput for an id that could not stand in a URL path."""
    if not _ITEM_ID.fullmatch(item_id):
        raise InvalidInput(
            "an item id has up to 200 letters, digits and . _ : ~ @ + -, the first a letter or digit",
            field="item_id",
        )


def _check_source(source: Source) -> None:
    if source.type is SourceType.URL:
        if source.url is None:
            raise InvalidInput("a capture of source_type url needs its source_url", field="source_url")
    elif source.filename is None:
        raise InvalidInput(
            "a capture of source_type upload needs its source_filename", field="source_filename"
        )
    if source.url is not None:
        _check_text(source.url, "source_url", MAX_TITLE)
        if not _WEB.fullmatch(source.url) or not _has_host(source.url):
            raise InvalidInput("source_url must be an http or https URL", field="source_url")
    if source.filename is not None:
        _check_text(source.filename, "source_filename", MAX_TITLE)


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _check_passages(passages: tuple[PassageText, ...]) -> None:
    if not passages:
        raise EmptyDocument("the document has no passage", field="passages")
    if len(passages) > MAX_PASSAGES:
        raise TooLarge(f"a document has at most {MAX_PASSAGES} passages")
    seen = set()
    for passage in passages:
        if not 0 <= passage.seq <= MAX_SEQ:
            raise InvalidInput(f"seq must be from 0 to {MAX_SEQ}", field="passages")
        if passage.seq in seen:
            raise InvalidInput(f"seq {passage.seq} stands twice", field="passages")
        seen.add(passage.seq)
        _check_text(passage.text, "passages", MAX_PASSAGE)
        if passage.heading is not None and passage.heading:
            _check_text(passage.heading, "passages", MAX_HEADING)


def _check_text(text: str, field: str, bound: int) -> None:
    if not any(letter.isprintable() and not letter.isspace() for letter in text):
        raise InvalidInput(f"{field} must not be blank", field=field)
    if len(text) > bound:
        raise TooLarge(f"{field} has more than {bound} characters")
    if not is_storable(text):
        raise InvalidText(f"{field} holds a NUL or a lone surrogate", field=field)
