"""Points as the client speaks of them. Whatever a server answers is checked here."""

from uuid import UUID

import msgspec
from qdrant_client import models

from service.model import ContentType, ItemId, Workspace
from service.ports.vectors import Hit, MalformedAnswer, PointKey, VectorPoint


class Key(msgspec.Struct, frozen=True):
    """The part of a payload that a hit needs."""

    item_id: str
    seq: int
    window: int


KEY_FIELDS = ["item_id", "seq", "window"]


def as_struct(point: VectorPoint, vector: list[float]) -> models.PointStruct:
    """The point to store."""
    payload = {
        "workspace": point.workspace,
        "content_type": point.content_type.value,
        "item_id": point.key.item_id,
        "seq": point.key.seq,
        "window": point.key.window,
    }
    return models.PointStruct(id=str(point.id), vector=vector, payload=payload)


def as_hit(point: models.ScoredPoint) -> Hit:
    """The hit. Raises MalformedAnswer if its payload is not one of ours."""
    try:
        key = msgspec.convert(point.payload, Key)
    except msgspec.ValidationError as error:
        raise MalformedAnswer("a payload of the vector store is not whole") from error
    return Hit(PointKey(ItemId(key.item_id), key.seq, key.window), point.score)


def as_uuid(record: models.Record) -> UUID:
    """The id. Raises MalformedAnswer if it is none of ours."""
    match record.id:
        case UUID() as identity:
            return identity
        case str() as text:
            try:
                return UUID(text)
            except ValueError as error:
                raise MalformedAnswer("an id of the vector store is no UUID") from error
        case _:
            raise MalformedAnswer("an id of the vector store is no UUID")


def matching(workspace: Workspace | None, content_type: ContentType | None = None) -> models.Filter | None:
    """Points of the workspace and content type; None stands for all."""
    wanted = (("workspace", workspace), ("content_type", content_type and content_type.value))
    conditions = [
        models.FieldCondition(key=key, match=models.MatchValue(value=value))
        for key, value in wanted
        if value is not None
    ]
    return models.Filter(must=[*conditions]) if conditions else None
