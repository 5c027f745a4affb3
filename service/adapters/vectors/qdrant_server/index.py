"""The port over `AsyncQdrantClient`."""

import ssl
import uuid
from collections.abc import Collection, Sequence

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient, models

from service.adapters.vectors.checks import (
    checked_limit,
    checked_page,
    last_of_each,
    unit_rows,
    unit_vector,
)
from service.adapters.vectors.hits import best_first
from service.adapters.vectors.payload import KEY_FIELDS
from service.adapters.vectors.qdrant_server.catalogue import Catalogue, Found, whole_seconds
from service.adapters.vectors.qdrant_server.points import as_hit, as_struct, as_uuid, matching
from service.adapters.vectors.qdrant_server.schema import incarnation_of, search_parameters
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings, Transport
from service.model import Workspace
from service.ports.vectors import CollectionName, CollectionState, Hit, VectorPoint, VectorQuery

_BYTES_A_CALL = 1 << 19  # of vectors
_IDS_A_CALL = 1000
_LAST = (1 << 128) - 1


def connect(settings: ServerSettings) -> AsyncQdrantClient:
    """A client that has not connected yet. Raises OSError for an authority that cannot be read."""
    verify: ssl.SSLContext | bool = True
    roots: dict[str, bytes] = {}
    if settings.authority is not None:
        verify = ssl.create_default_context(cafile=settings.authority)
        roots = {"root_certificates": settings.authority.read_bytes()}  # gRPC looks at no other setting
    return AsyncQdrantClient(
        url=settings.url,
        api_key=settings.api_key,
        prefer_grpc=settings.transport is Transport.GRPC,
        grpc_port=settings.grpc_port,
        grpc_options=roots,
        timeout=settings.longest_call_seconds,
        check_compatibility=False,  # would ask the server from a thread of its own
        verify=verify,
        limits=httpx.Limits(max_connections=settings.connections),  # on localhost it would not keep any
    )


class ServerVectorIndex:
    """Collections on a server. Also keeps the active collection, as an alias."""

    def __init__(self, client: AsyncQdrantClient, settings: CollectionSettings) -> None:
        self._client = client
        self._catalogue = Catalogue(client, settings)
        self._parameters = search_parameters(settings)

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """The nearest points by the server's graph."""
        limit = checked_limit(query.limit)
        known = await self._catalogue.known(collection, deadline)
        vector = unit_vector(query.vector, known.dimension)
        seconds = whole_seconds(deadline)
        async with self._catalogue.asking(collection, deadline):
            found = await self._client.query_points(
                known.theirs,
                query=vector.tolist(),
                query_filter=matching(query.workspace, query.content_type),
                search_params=self._parameters,
                limit=limit,
                with_payload=KEY_FIELDS,
                timeout=seconds,
            )
        return best_first(as_hit(point) for point in found.points)

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """The collection and its payload indexes, made if they are missing."""
        found = await self._catalogue.ensure(collection, dimension, deadline)
        return await self._state(collection, found, deadline)

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: NDArray[np.float32],
        deadline: float,
    ) -> None:
        """Store the batch, some points at a time."""
        known = await self._catalogue.known(collection, deadline)
        rows = unit_rows(vectors, len(points), known.dimension)
        last = list(last_of_each(points).values())
        step = max(1, _BYTES_A_CALL // (4 * known.dimension))
        for start in range(0, len(last), step):
            some = [as_struct(points[at], rows[at].tolist()) for at in last[start : start + step]]
            seconds = whole_seconds(deadline)
            async with self._catalogue.asking(collection, deadline):
                await self._client.upsert(known.theirs, some, wait=True, timeout=seconds)

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """Remove points."""
        known = await self._catalogue.known(collection, deadline)
        every = [str(identity) for identity in ids]
        for start in range(0, len(every), _IDS_A_CALL):
            doomed = models.PointIdsList(points=[*every[start : start + _IDS_A_CALL]])
            seconds = whole_seconds(deadline)
            async with self._catalogue.asking(collection, deadline):
                await self._client.delete(known.theirs, doomed, wait=True, timeout=seconds)

    async def collections(self, deadline: float) -> tuple[CollectionName, ...]:
        """The server's collections that have this deployment's prefix, in order of name."""
        return await self._catalogue.names(deadline)

    async def describe(self, collection: CollectionName, deadline: float) -> CollectionState:
        """What the collection holds."""
        return await self._state(collection, await self._catalogue.look_up(collection, deadline), deadline)

    async def ids(
        self,
        collection: CollectionName,
        workspace: Workspace | None,
        after: uuid.UUID | None,
        limit: int,
        deadline: float,
    ) -> tuple[uuid.UUID, ...]:
        """A page of ids in ascending order."""
        most = checked_page(limit)
        if after is not None and after.int == _LAST:
            return ()
        start = None if after is None else str(uuid.UUID(int=after.int + 1))
        known = await self._catalogue.known(collection, deadline)
        seconds = whole_seconds(deadline)
        async with self._catalogue.asking(collection, deadline):
            records, _ = await self._client.scroll(
                known.theirs,
                scroll_filter=matching(workspace),
                limit=most,
                offset=start,
                with_payload=False,
                timeout=seconds,
            )
        return tuple(as_uuid(record) for record in records)

    async def count(self, collection: CollectionName, workspace: Workspace | None, deadline: float) -> int:
        """The exact number of points."""
        theirs = (await self._catalogue.known(collection, deadline)).theirs
        wanted, seconds = matching(workspace), whole_seconds(deadline)
        async with self._catalogue.asking(collection, deadline):
            counted = await self._client.count(theirs, count_filter=wanted, exact=True, timeout=seconds)
        return counted.count

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """Delete the collection, and with it an alias that points at it."""
        await self._catalogue.drop(collection, deadline)

    async def active(self, deadline: float) -> CollectionName | None:
        """The collection that the alias points at."""
        return await self._catalogue.active(deadline)

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """Move the alias."""
        await self._catalogue.activate(collection, deadline)

    async def health(self, deadline: float) -> None:
        """The server lists its collections: it is reachable, and the key is right."""
        await self._catalogue.names(deadline)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _state(self, collection: CollectionName, found: Found, deadline: float) -> CollectionState:
        points = await self.count(collection, None, deadline)
        return CollectionState(collection, found.dimension, points, incarnation_of(found.info))
