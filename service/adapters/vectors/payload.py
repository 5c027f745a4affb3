"""What both Qdrant engines store beside a vector, and by what they filter.

Every search names a workspace, and half of them a content type. An HNSW graph that is filtered down to a
fraction of its points falls apart and misses hits (recall@200 of one content type was 0.78 on clustered
vectors), so there is no graph over everything: each workspace and each scope (a content type of a
workspace) that is large has links of its own (0.997), and smaller ones are searched exactly.
"""

import msgspec

from service.model import ContentType, Workspace
from service.ports.vectors import PointKey

WORKSPACE = "workspace"
SCOPE = "scope"
KEY_FIELDS = ["item_id", "seq", "window"]


class Payload(msgspec.Struct, frozen=True):
    """A whole payload."""

    workspace: str
    scope: str
    content_type: str
    item_id: str
    seq: int
    window: int


class KeyPayload(msgspec.Struct, frozen=True):
    """The part of a payload that a hit needs."""

    item_id: str
    seq: int
    window: int


def payload_of(workspace: str, content_type: str, key: PointKey) -> Payload:
    """The payload of a point."""
    scope = scope_of(workspace, content_type)
    return Payload(workspace, scope, content_type, key.item_id, key.seq, key.window)


def scope_of(workspace: str, content_type: str) -> str:
    """One word for both; no content type holds a space, so no two pairs share one."""
    return f"{content_type} {workspace}"


def condition(
    workspace: Workspace | str | None, content_type: ContentType | str | None
) -> tuple[str, str] | None:
    """The one field and value that a search or a listing filters by; None for everything."""
    if workspace is None:
        return None
    if content_type is None:
        return WORKSPACE, workspace
    return SCOPE, scope_of(workspace, content_type)
