"""A server on loopback that speaks Qdrant's REST, holds real points, and misbehaves as it is told.

The points are kept by the client's own in-memory mode, which compares every vector.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import AsyncQdrantClient, models

from tests.vectors.fault_server import LoopbackServer, http, result

Answering = Callable[[], Awaitable[bytes]]
Fault = Callable[[str, Answering], Awaitable[bytes]]  # is told the method and path, and how to answer well
Search = Callable[[str, models.QueryRequest], Awaitable[list[models.ScoredPoint]]]
DONE = {"operation_id": 0, "status": "completed"}
_VECTOR = TypeAdapter(list[float])
_SELECTOR: TypeAdapter[models.PointsSelector] = TypeAdapter(models.PointsSelector)


async def well(asked: str, answer: Answering) -> bytes:
    """No fault."""
    return await answer()


def refusal(status: int, said: str) -> bytes:
    """How a Qdrant server says no."""
    return http(status, json.dumps({"status": {"error": said}, "time": 0.0}).encode())


def dumped(value: BaseModel) -> object:
    """As JSON has it; a score that is no number stays none."""
    return value.model_dump(mode="json", exclude_none=True)


def vector_of(request: models.QueryRequest) -> list[float]:
    """The vector whose nearest are asked for."""
    query = request.query.nearest if isinstance(request.query, models.NearestQuery) else request.query
    return _VECTOR.validate_python(query)


class Refused(Exception):
    """The request cannot be carried out."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.response = refusal(status, said)


@dataclass(slots=True)
class QdrantServer(LoopbackServer):
    """What the service asks of a server. `fault` has every request, `lie` every search."""

    points: AsyncQdrantClient = field(default_factory=lambda: AsyncQdrantClient(":memory:"))
    fault: Fault = well
    lie: Search | None = None

    async def answer(self, method: str, path: str, body: bytes) -> bytes:
        """As Qdrant would, but for the fault."""
        route = urlsplit(path).path

        async def answered() -> bytes:
            try:
                return result(await self._answered(method, route, body))
            except Refused as refused:
                return refused.response

        return await self.fault(f"{method} {route}", answered)

    async def truth(self, collection: str, request: models.QueryRequest) -> list[models.ScoredPoint]:
        """The nearest points."""
        found = await self.points.query_points(
            collection,
            query=vector_of(request),
            query_filter=request.filter,
            limit=request.limit or 10,
            with_payload=request.with_payload or False,
        )
        return found.points

    async def names(self) -> list[str]:
        """Its collections."""
        return [one.name for one in (await self.points.get_collections()).collections]

    async def replace(self, collection: str, dimension: int) -> None:
        """Put an empty collection of that dimension in its place."""
        await self.points.delete_collection(collection)
        await self._create(collection, dimension, {})

    async def _answered(self, method: str, route: str, body: bytes) -> object:
        match method, *route.strip("/").split("/"):
            case "GET", "collections":
                return dumped(await self.points.get_collections())
            case "GET", "aliases":
                return dumped(await self.points.get_aliases())
            case "POST", "collections", "aliases":
                wanted = models.ChangeAliasesOperation.model_validate_json(body)
                return await self.points.update_collection_aliases(wanted.actions)
            case "PUT", "collections", name:
                return await self._made(name, models.CreateCollection.model_validate_json(body))
            case method, "collections", name, *rest:
                if name not in await self.names():
                    raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
                return await self._of(name, method, "/".join(rest), body)
        raise Refused(404, "")

    async def _of(self, name: str, method: str, what: str, body: bytes) -> object:
        if what.startswith("points"):
            return await self._points_of(name, method, what, body)
        match method, what:
            case "GET", "":
                return dumped(await self.points.get_collection(name))
            case "DELETE", "":
                return await self.points.delete_collection(name)
            case "PUT", "index":
                return DONE  # in memory every point is looked at
        raise Refused(404, "")

    async def _points_of(self, name: str, method: str, what: str, body: bytes) -> object:
        match method, what:
            case "PUT", "points":
                await self.points.upsert(name, models.PointsList.model_validate_json(body).points)
                return DONE
            case "POST", "points/delete":
                await self.points.delete(name, _SELECTOR.validate_json(body))
                return DONE
            case "POST", "points/query":
                return await self._searched(name, models.QueryRequest.model_validate_json(body))
            case "POST", "points/scroll":
                return await self._listed(name, models.ScrollRequest.model_validate_json(body))
            case "POST", "points/count":
                counted = models.CountRequest.model_validate_json(body)
                return dumped(await self.points.count(name, counted.filter))
        raise Refused(404, "")

    async def _made(self, name: str, wanted: models.CreateCollection) -> bool:
        assert isinstance(wanted.vectors, models.VectorParams)
        return await self._create(name, wanted.vectors.size, wanted.metadata or {})

    async def _create(self, name: str, dimension: int, metadata: models.Payload) -> bool:
        vectors = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        return await self.points.create_collection(name, vectors, metadata=metadata)

    async def _searched(self, name: str, request: models.QueryRequest) -> object:
        vectors = (await self.points.get_collection(name)).config.params.vectors
        assert isinstance(vectors, models.VectorParams)
        expected, got = vectors.size, len(vector_of(request))
        if expected != got:
            raise Refused(400, f"Wrong input: Vector dimension error: expected dim: {expected}, got {got}")
        found = await (self.lie or self.truth)(name, request)
        return {"points": [point.model_dump(exclude_none=True) for point in found]}

    async def _listed(self, name: str, request: models.ScrollRequest) -> object:
        records, after = await self.points.scroll(
            name,
            scroll_filter=request.filter,
            limit=request.limit or 10,
            offset=request.offset,
            with_payload=False,
        )
        return {"points": [dumped(record) for record in records], "next_page_offset": after}
