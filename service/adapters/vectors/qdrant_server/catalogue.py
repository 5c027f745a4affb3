"""Which collections a server has, of what dimension, and which of them serves."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qdrant_client import AsyncQdrantClient, models

from service.adapters.vectors.deadlines import remaining
from service.adapters.vectors.qdrant_server.failures import CollectionExists, answered
from service.adapters.vectors.qdrant_server.schema import PAYLOAD_INDEXES, Layout, dimension_of
from service.adapters.vectors.qdrant_server.settings import CollectionSettings
from service.ports.vectors import CollectionMissing, CollectionName, DimensionMismatch


def whole_seconds(deadline: float) -> int:
    """What the server is told; the deadline itself is kept on this side."""
    return math.ceil(remaining(deadline))


class Catalogue:
    """Asks the server about collections, and remembers their dimensions until it learns otherwise."""

    def __init__(self, client: AsyncQdrantClient, settings: CollectionSettings) -> None:
        self._client = client
        self._settings = settings
        self._dimensions: dict[CollectionName, int] = {}

    def theirs(self, collection: CollectionName) -> str:
        """The collection's name on the server."""
        return f"{self._settings.prefix}{collection}"

    @asynccontextmanager
    async def asking(self, collection: CollectionName, deadline: float) -> AsyncIterator[None]:
        """Calls about one collection. Raises VectorStoreError and nothing else of the client's."""
        try:
            async with answered(deadline):
                yield
        except (CollectionMissing, DimensionMismatch):
            self._dimensions.pop(collection, None)  # somebody replaced it: learn about it anew
            raise

    async def dimension(self, collection: CollectionName, deadline: float) -> int:
        """Of its vectors. Raises CollectionMissing if there is none."""
        if collection not in self._dimensions:
            await self.info(collection, deadline)
        return self._dimensions[collection]

    async def info(self, collection: CollectionName, deadline: float) -> models.CollectionInfo:
        """What the server says about it. Raises CollectionMissing if there is none."""
        async with self.asking(collection, deadline):
            info = await self._client.get_collection(self.theirs(collection))
        self._dimensions[collection] = dimension_of(info)
        return info

    async def ensure(
        self, collection: CollectionName, dimension: int, deadline: float
    ) -> models.CollectionInfo:
        """Make what is missing of it. Raises DimensionMismatch if it is of another dimension."""
        try:
            info = await self.info(collection, deadline)
        except CollectionMissing:
            await self._create(collection, Layout(dimension, self._settings), deadline)
            info = await self.info(collection, deadline)
        if dimension_of(info) != dimension:
            raise DimensionMismatch("the collection holds vectors of another dimension")
        for field, index in PAYLOAD_INDEXES.items():
            if field not in info.payload_schema:
                seconds = whole_seconds(deadline)
                async with self.asking(collection, deadline):
                    await self._client.create_payload_index(
                        self.theirs(collection), field, index, wait=True, timeout=seconds
                    )
        return info

    async def names(self, deadline: float) -> tuple[CollectionName, ...]:
        """The collections that have this deployment's prefix, in order of name."""
        async with answered(deadline):
            found = await self._client.get_collections()
        prefix = self._settings.prefix
        ours = (one.name.removeprefix(prefix) for one in found.collections if one.name.startswith(prefix))
        return tuple(sorted(CollectionName(name) for name in ours))

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """Delete it; an unknown one is no error."""
        seconds = whole_seconds(deadline)
        try:
            async with self.asking(collection, deadline):
                await self._client.delete_collection(self.theirs(collection), timeout=seconds)
        except CollectionMissing:
            return
        finally:
            self._dimensions.pop(collection, None)

    async def active(self, deadline: float) -> CollectionName | None:
        """The collection that the alias points at."""
        async with answered(deadline):
            known = await self._client.get_aliases()
        for alias in known.aliases:
            if alias.alias_name == self._settings.alias:
                return CollectionName(alias.collection_name.removeprefix(self._settings.prefix))
        return None

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """Move the alias, in one step for every client of the server."""
        await self.info(collection, deadline)
        alias = self._settings.alias
        target = models.CreateAlias(collection_name=self.theirs(collection), alias_name=alias)
        steps: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=target)]
        if await self.active(deadline) is not None:
            steps.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        seconds = whole_seconds(deadline)
        async with self.asking(collection, deadline):
            await self._client.update_collection_aliases(steps, timeout=seconds)

    async def _create(self, collection: CollectionName, layout: Layout, deadline: float) -> None:
        seconds = whole_seconds(deadline)
        try:
            async with self.asking(collection, deadline):
                await self._client.create_collection(
                    self.theirs(collection),
                    vectors_config=layout.vectors,
                    hnsw_config=layout.graph,
                    quantization_config=layout.quantization,
                    shard_number=layout.settings.shards,
                    replication_factor=layout.settings.replicas,
                    write_consistency_factor=layout.confirming_replicas,
                    on_disk_payload=True,
                    metadata=layout.fresh_metadata(),
                    timeout=seconds,
                )
        except CollectionExists:
            return  # another process was faster, and its incarnation counts
