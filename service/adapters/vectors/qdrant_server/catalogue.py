"""Which collections a server has, whose and of what dimension they are, and which of them serves."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient, models

from service.adapters.vectors.deadlines import remaining
from service.adapters.vectors.qdrant_server.failures import CollectionExists, answered
from service.adapters.vectors.qdrant_server.schema import (
    OWNER,
    PAYLOAD_INDEXES,
    Layout,
    dimension_of,
    incarnation_of,
    owner_of,
)
from service.adapters.vectors.qdrant_server.settings import FORMER_PREFIX, CollectionSettings
from service.ports.vectors import CollectionMissing, CollectionName, DimensionMismatch, VectorStoreError


def whole_seconds(deadline: float) -> int:
    """What the server is told; the deadline itself is kept on this side."""
    return math.ceil(remaining(deadline))


class ForeignCollection(VectorStoreError):
    """The collection holds another database's points. Nothing of it was read or written."""


@dataclass(frozen=True, slots=True)
class Found:
    """A collection of ours: its name on the server, and what the server says about it."""

    theirs: str
    info: models.CollectionInfo
    dimension: int


class Catalogue:
    """Asks the server about collections, and remembers them until it learns otherwise."""

    def __init__(self, client: AsyncQdrantClient, settings: CollectionSettings) -> None:
        self._client = client
        self._settings = settings
        self._known: dict[CollectionName, Found] = {}

    @asynccontextmanager
    async def asking(self, collection: CollectionName, deadline: float) -> AsyncIterator[None]:
        """Calls about one collection. Raises VectorStoreError and nothing else of the client's."""
        try:
            async with answered(deadline):
                yield
        except (CollectionMissing, DimensionMismatch):
            self._known.pop(collection, None)  # somebody replaced it: learn about it anew
            raise

    async def known(self, collection: CollectionName, deadline: float) -> Found:
        """As it was when it was looked up last. Raises CollectionMissing, ForeignCollection."""
        if collection not in self._known:
            return await self.look_up(collection, deadline)
        return self._known[collection]

    async def look_up(self, collection: CollectionName, deadline: float) -> Found:
        """As it is now. Raises CollectionMissing if there is none, ForeignCollection if it is another's."""
        theirs = f"{self._settings.prefix}{collection}"
        try:
            info = await self._info(collection, theirs, deadline)
        except CollectionMissing:
            if collection not in self._settings.former:
                raise
            theirs, info = await self._former(collection, deadline)
        if not self._is_ours(info):
            raise ForeignCollection(
                f"the collection {theirs} belongs to another database: give each its own prefix"
            )
        found = Found(theirs, info, dimension_of(info))
        self._known[collection] = found
        return found

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> Found:
        """Make what is missing of it. Raises DimensionMismatch if it is of another dimension."""
        try:
            found = await self.look_up(collection, deadline)
        except CollectionMissing:
            await self._create(collection, Layout(dimension, self._settings), deadline)
            found = await self.look_up(collection, deadline)
        if found.dimension != dimension:
            raise DimensionMismatch("the collection holds vectors of another dimension")
        await self._claim(collection, found, deadline)
        for field, index in PAYLOAD_INDEXES.items():
            if field not in found.info.payload_schema:
                seconds = whole_seconds(deadline)
                async with self.asking(collection, deadline):
                    await self._client.create_payload_index(
                        found.theirs, field, index, wait=True, timeout=seconds
                    )
        return found

    async def names(self, deadline: float) -> tuple[CollectionName, ...]:
        """The collections that have this deployment's prefix, in order of name."""
        async with answered(deadline):
            found = await self._client.get_collections()
        prefix = self._settings.prefix
        ours = {one.name.removeprefix(prefix) for one in found.collections if one.name.startswith(prefix)}
        there = {one.name for one in found.collections}
        former = {name for name in self._settings.former if f"{FORMER_PREFIX}{name}" in there}
        return tuple(sorted(CollectionName(name) for name in ours | former))

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """Delete it; an unknown one is no error. Raises ForeignCollection."""
        try:
            found = await self.look_up(collection, deadline)
            seconds = whole_seconds(deadline)
            async with self.asking(collection, deadline):
                await self._client.delete_collection(found.theirs, timeout=seconds)
        except CollectionMissing:
            return
        finally:
            self._known.pop(collection, None)

    async def active(self, deadline: float) -> CollectionName | None:
        """The collection that the alias points at."""
        async with answered(deadline):
            known = await self._client.get_aliases()
        for alias in known.aliases:
            if alias.alias_name == self._settings.alias:
                return self._named(alias.collection_name)
        return None

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """Move the alias, in one step for every client of the server."""
        found = await self.look_up(collection, deadline)
        alias = self._settings.alias
        target = models.CreateAlias(collection_name=found.theirs, alias_name=alias)
        steps: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=target)]
        if await self.active(deadline) is not None:
            steps.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        seconds = whole_seconds(deadline)
        async with self.asking(collection, deadline):
            await self._client.update_collection_aliases(steps, timeout=seconds)

    def _named(self, theirs: str) -> CollectionName:
        """The name here of a collection there."""
        prefix = self._settings.prefix
        return CollectionName(theirs.removeprefix(prefix if theirs.startswith(prefix) else FORMER_PREFIX))

    async def _info(self, collection: CollectionName, theirs: str, deadline: float) -> models.CollectionInfo:
        async with self.asking(collection, deadline):
            return await self._client.get_collection(theirs)

    async def _former(self, collection: CollectionName, deadline: float) -> tuple[str, models.CollectionInfo]:
        """The collection under the prefix that all deployments once had, if this database filled it.

        Raises CollectionMissing if it did not, or if another database that did has claimed it meanwhile.
        """
        theirs = f"{FORMER_PREFIX}{collection}"
        info = await self._info(collection, theirs, deadline)
        if incarnation_of(info) != self._settings.former[collection] or not self._is_ours(info):
            raise CollectionMissing("no such vector collection of this database")
        return theirs, info

    def _is_ours(self, info: models.CollectionInfo) -> bool:
        deployment = self._settings.deployment
        return deployment is None or owner_of(info) in ("", deployment.database)

    async def _claim(self, collection: CollectionName, found: Found, deadline: float) -> None:
        """Write into a collection whose it is, if nobody has."""
        deployment = self._settings.deployment
        if deployment is None or owner_of(found.info):
            return
        seconds = whole_seconds(deadline)
        async with self.asking(collection, deadline):
            await self._client.update_collection(
                found.theirs, metadata={OWNER: deployment.database}, timeout=seconds
            )

    async def _create(self, collection: CollectionName, layout: Layout, deadline: float) -> None:
        seconds = whole_seconds(deadline)
        try:
            async with self.asking(collection, deadline):
                await self._client.create_collection(
                    f"{self._settings.prefix}{collection}",
                    vectors_config=layout.vectors,
                    hnsw_config=layout.graph,
                    quantization_config=layout.quantization,
                    shard_number=layout.settings.shards,
                    replication_factor=layout.settings.replicas,
                    write_consistency_factor=layout.confirming_replicas,
                    on_disk_payload=layout.on_disk,
                    metadata=layout.fresh_metadata(),
                    timeout=seconds,
                )
        except CollectionExists:
            return  # another process was faster, and its incarnation counts
