"""Points as Edge holds them, and as they are spoken of between processes."""

import math
from uuid import UUID

import msgspec
from qdrant_edge import Point, Record, ScoredPoint

from service.adapters.vectors.payload import KeyPayload, Payload, payload_of
from service.adapters.vectors.qdrant_edge.engine import Damaged
from service.adapters.vectors.qdrant_edge.wire import HitRow, PointRow
from service.model import ItemId, Workspace
from service.ports.vectors import PointKey, point_id


def as_point(row: PointRow, vector: list[float]) -> Point:
    """The point to store."""
    identity, workspace, content_type, item_id, seq, window = row
    stored = payload_of(workspace, content_type, PointKey(ItemId(item_id), seq, window))
    return Point(UUID(bytes=identity), vector, msgspec.structs.asdict(stored))


def as_hit(point: ScoredPoint) -> HitRow:
    """The hit. Raises Damaged for what no sound shard answers."""
    try:
        key = msgspec.convert(point.payload, KeyPayload)
    except msgspec.ValidationError as error:
        raise Damaged("a payload is not whole") from error
    if not math.isfinite(point.score):
        raise Damaged("a score is not finite")
    return key.item_id, key.seq, key.window, point.score


def as_row(record: Record) -> PointRow:
    """The point as it was given. Raises Damaged if its id does not belong to its payload."""
    try:
        stored = msgspec.convert(record.payload, Payload)
    except msgspec.ValidationError as error:
        raise Damaged("a payload is not whole") from error
    identity = as_uuid(record.id)
    key = PointKey(ItemId(stored.item_id), stored.seq, stored.window)
    if point_id(Workspace(stored.workspace), key) != identity:
        raise Damaged("a payload belongs to another point")
    return identity.bytes, stored.workspace, stored.content_type, stored.item_id, stored.seq, stored.window


def as_uuid(identity: int | UUID | str) -> UUID:
    """The id. Raises Damaged when it is of another kind."""
    if not isinstance(identity, UUID):
        raise Damaged("a point has a foreign id")
    return identity
