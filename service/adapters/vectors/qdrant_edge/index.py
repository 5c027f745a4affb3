"""The embedded vector store: collections in a folder, each served by a process of its own."""

import uuid
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from service.adapters.vectors.checks import (
    checked_limit,
    checked_page,
    last_of_each,
    unit_rows,
    unit_vector,
)
from service.adapters.vectors.deadlines import until
from service.adapters.vectors.hits import best_first
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.adapters.vectors.qdrant_edge.store import OpenStore
from service.adapters.vectors.qdrant_edge.wire import (
    Count,
    Counted,
    Delete,
    Hits,
    Ids,
    Page,
    PointRow,
    Search,
    Upsert,
    pack_ids,
    unpack_ids,
)
from service.model import ItemId, Workspace
from service.ports.vectors import (
    CollectionName,
    CollectionState,
    DimensionMismatch,
    Hit,
    PointKey,
    VectorPoint,
    VectorQuery,
)

_FRAME_BYTES = 1 << 17  # of vectors: a few ms of a shard's time, so that searches hardly wait for writes
_IDS_A_FRAME = 4096
_LAST = (1 << 128) - 1


class EdgeVectorIndex:
    """Qdrant Edge behind the port. One at a time may use a root; it locks it when it is first called."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._store = OpenStore(settings)

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """Exact while the collection is small, by its graph when it is large."""
        limit = checked_limit(query.limit)
        served = await self._store.served(collection, deadline)
        vector = unit_vector(query.vector, served.supervisor.meta.dimension)
        request = Search(query.workspace, query.content_type, limit)
        found, _ = await served.call(request, vector.tobytes(), Hits, deadline)
        return best_first(
            Hit(PointKey(ItemId(item_id), seq, window), score) for item_id, seq, window, score in found.hits
        )

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """The collection, created if it is missing; opened either way."""
        served = await self._store.ensured(collection, dimension, deadline)
        if served.supervisor.meta.dimension != dimension:
            raise DimensionMismatch("the collection holds vectors of another dimension")
        return await served.describe(deadline)

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: NDArray[np.float32],
        deadline: float,
    ) -> None:
        """Store the batch, a frame at a time."""
        served = await self._store.served(collection, deadline)
        rows = unit_rows(vectors, len(points), served.supervisor.meta.dimension)
        last = last_of_each(points)
        ids = list(last)
        step = max(1, _FRAME_BYTES // (4 * served.supervisor.meta.dimension))
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            request = Upsert([_row(identity, points[last[identity]]) for identity in some])
            body = rows[[last[identity] for identity in some]].tobytes()
            await served.write(request, some, body, deadline)

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """Remove points."""
        served = await self._store.served(collection, deadline)
        every = list(ids)
        for start in range(0, len(every), _IDS_A_FRAME):
            some = every[start : start + _IDS_A_FRAME]
            await served.write(Delete(), some, pack_ids(some), deadline)

    async def collections(self, deadline: float) -> tuple[CollectionName, ...]:
        """Every collection on disk, in order of name."""
        async with until(deadline):
            return tuple(await self._store.names())

    async def describe(self, collection: CollectionName, deadline: float) -> CollectionState:
        """What the collection holds."""
        served = await self._store.served(collection, deadline)
        return await served.describe(deadline)

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
        served = await self._store.served(collection, deadline)
        if after is not None and after.int == _LAST:
            return ()
        start = None if after is None else uuid.UUID(int=after.int + 1).bytes
        _, body = await served.call(Page(workspace, start, most), b"", Ids, deadline)
        return tuple(unpack_ids(body))

    async def count(self, collection: CollectionName, workspace: Workspace | None, deadline: float) -> int:
        """The exact number of points."""
        served = await self._store.served(collection, deadline)
        counted, _ = await served.call(Count(workspace), b"", Counted, deadline)
        return counted.points

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """End the collection's process and delete its folder."""
        async with until(deadline):
            await self._store.drop(collection)

    async def health(self, deadline: float) -> None:
        """Every collection in use answers."""
        async with until(deadline):
            for served in await self._store.in_use():
                await served.describe(deadline)

    async def outside_graph(self, collection: CollectionName, deadline: float) -> int:
        """How many points are not in the HNSW graph (yet), and so are searched one by one."""
        served = await self._store.served(collection, deadline)
        await served.supervisor.channel(deadline)
        return served.outside_graph

    async def close(self) -> None:
        """End every process, after it wrote everything to disk, and unlock the root."""
        await self._store.close()


def _row(identity: uuid.UUID, point: VectorPoint) -> PointRow:
    key = point.key
    return identity.bytes, point.workspace, point.content_type.value, key.item_id, key.seq, key.window
