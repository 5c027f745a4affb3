"""Points as the client speaks of them. Whatever a server answers is checked here."""

from uuid import UUID

import msgspec
from qdrant_client import models

from service.adapters.vectors.payload import KeyPayload, condition, payload_of
from service.model import ContentType, ItemId, Workspace
from service.ports.vectors import Hit, MalformedAnswer, PointKey, VectorPoint


def as_struct(point: VectorPoint, vector: list[float]) -> models.PointStruct:
    """The point to store."""
    payload = payload_of(point.workspace, point.content_type.value, point.key)
    return models.PointStruct(id=str(point.id), vector=vector, payload=msgspec.structs.asdict(payload))


def as_hit(point: models.ScoredPoint) -> Hit:
    """The hit. Raises MalformedAnswer if its payload is not one of ours."""
    try:
        key = msgspec.convert(point.payload, KeyPayload)
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
    wanted = condition(workspace, content_type)
    if wanted is None:
        return None
    field, value = wanted
    return models.Filter(must=[models.FieldCondition(key=field, match=models.MatchValue(value=value))])
