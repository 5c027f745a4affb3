"""Names derived from what they name, so that the same history gives the same ids on every database."""

import hashlib
from collections.abc import Iterable

from service.model import Capture, Facet, ItemId, Source


def _digest(parts: Iterable[str | None]) -> str:
    """SHA-256 over length-prefixed parts; None and the empty string differ."""
    hashed = hashlib.sha256()
    for part in parts:
        encoded = b"" if part is None else part.encode()
        hashed.update(b"-" if part is None else str(len(encoded)).encode() + b":")
        hashed.update(encoded)
    return hashed.hexdigest()


def source_key_hash(source: Source) -> str:
    """The identity of a source inside its workspace."""
    return _digest([source.key])


def content_hash(capture: Capture) -> str:
    """What makes two captures of a source the same: everything a reader is shown but label and dates.

    The version label, `fetched_at` and link liveness are left out: they say when and how a source was looked
    at, not what it said.
    """
    kinds = None if capture.resource_types is None else "\x1f".join(capture.resource_types)
    parts: list[str | None] = [capture.title, capture.content_type.value, kinds]
    for passage in capture.passages:
        parts += [str(passage.seq), passage.heading, passage.text, str(int(passage.scorable))]
    return _digest(parts)


def derived_item_id(source_hash: str, hashed_content: str, earlier_captures: int) -> ItemId:
    """The id of a capture that names none: the same for the same history, new for every capture."""
    return ItemId(f"it-{_digest([source_hash, hashed_content, str(earlier_captures)])[:20]}")


def tag_id(item_id: ItemId, facet: Facet) -> str:
    """The id of the one tag an item can have under a facet."""
    return f"tag-{_digest([item_id, facet.type.value, facet.id])[:20]}"
