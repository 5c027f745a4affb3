"""Pages of facet tags: keyset paging with a cursor that only fits the list it was made for."""

import hmac
from base64 import urlsafe_b64encode

from service.core.cursors import request_fingerprint
from service.errors import InvalidCursor, InvalidLimit
from service.model import MAX_LIMIT, ItemId, TagStatus, Workspace

DEFAULT_TAGS = 50
_BOUND = 12  # bytes of the tag that binds a cursor to its list
_SEPARATOR = "."


def check_tag_limit(limit: int) -> None:
    """Raises InvalidLimit for a limit that no page can have."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidLimit(f"limit must be from 1 to {MAX_LIMIT}", field="limit")


def tag_list(workspace: Workspace, item_id: ItemId | None, status: TagStatus | None) -> bytes:
    """The fingerprint of a list of tags: everything that decides what is on it."""
    return request_fingerprint(
        "tags", workspace, None if item_id is None else f"item {item_id}", None if status is None else status
    )


def tags_after(tag_id: str, fingerprint: bytes) -> str:
    """The cursor of the page that begins behind a tag."""
    return f"{tag_id}{_SEPARATOR}{_signature(tag_id, fingerprint)}"


def last_tag(cursor: str, fingerprint: bytes) -> str:
    """The tag behind which a page begins. Raises InvalidCursor for a cursor of another list."""
    tag_id, _, signature = cursor.rpartition(_SEPARATOR)
    if not hmac.compare_digest(signature.encode(), _signature(tag_id, fingerprint).encode()):
        raise InvalidCursor("the cursor was not issued for this list; start again without it", field="cursor")
    return tag_id


def _signature(tag_id: str, fingerprint: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(fingerprint, tag_id.encode(), "sha256")[:_BOUND]).decode()
