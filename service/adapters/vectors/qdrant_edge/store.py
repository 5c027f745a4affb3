"""The collections that are open, and the lock of their root."""

import asyncio

import structlog

from service.adapters.vectors.deadlines import remaining, until
from service.adapters.vectors.qdrant_edge import folders
from service.adapters.vectors.qdrant_edge.collection import ServedCollection
from service.adapters.vectors.qdrant_edge.graph import GraphKeeper
from service.adapters.vectors.qdrant_edge.launch import Opening
from service.adapters.vectors.qdrant_edge.settings import MEBIBYTE, EdgeSettings
from service.adapters.vectors.qdrant_edge.supervisor import Found
from service.ports.vectors import (
    CollectionMissing,
    CollectionName,
    VectorStorageFull,
    VectorStoreUnavailable,
)

_NEW_COLLECTION_BYTES = 16 * MEBIBYTE  # generous: an empty shard takes 3
_log = structlog.get_logger(__name__)


class OpenStore:
    """Opens collections when they are first needed, and each only once."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._lock: folders.RootLock | None = None
        self._open: dict[CollectionName, tuple[ServedCollection, GraphKeeper]] = {}
        self._one_opener = asyncio.Lock()
        self._closed = False

    async def served(self, name: CollectionName, deadline: float) -> ServedCollection:
        """The collection. Raises CollectionMissing if there is none."""
        remaining(deadline)
        if name in self._open and not self._closed:
            return self._open[name][0]
        return await self._opened(name, None, deadline)

    async def ensured(self, name: CollectionName, dimension: int, deadline: float) -> ServedCollection:
        """The collection, created with this dimension if there is none."""
        remaining(deadline)
        if name in self._open and not self._closed:
            return self._open[name][0]
        return await self._opened(name, dimension, deadline)

    async def names(self) -> list[CollectionName]:
        """Every collection on disk."""
        await asyncio.to_thread(self._claim)
        return await asyncio.to_thread(folders.names, self._settings.root)

    async def in_use(self) -> list[ServedCollection]:
        """The collections that are open. Raises VectorStoreUnavailable if the root is not ours."""
        await asyncio.to_thread(self._claim)
        return [served for served, _ in self._open.values()]

    async def drop(self, name: CollectionName) -> None:
        """Close it and delete it."""
        async with self._one_opener:
            await asyncio.to_thread(self._claim)
            if name in self._open:
                served, keeper = self._open.pop(name)
                await keeper.close()
                await served.close()
            await asyncio.to_thread(folders.remove, self._settings.root, folders.checked(name))

    async def close(self) -> None:
        """Close everything; nothing can be opened again."""
        self._closed = True
        async with self._one_opener:
            for served, keeper in self._open.values():
                await keeper.close()
                await served.close()
            self._open.clear()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    async def _opened(self, name: CollectionName, dimension: int | None, deadline: float) -> ServedCollection:
        async with until(deadline), self._one_opener:
            if name not in self._open or self._closed:
                found = await asyncio.to_thread(self._find, name, dimension)
                served = ServedCollection(found, self._settings)
                self._open[name] = served, GraphKeeper(served, self._settings)
            return self._open[name][0]

    def _find(self, name: CollectionName, dimension: int | None) -> Found:
        self._claim()
        collection = folders.folder(self._settings.root, name)
        try:
            meta = folders.read_meta(collection)
        except ValueError as error:
            _log.warning("vector_collection_damaged", collection=name, error=str(error))
            folders.set_aside(self._settings.root, name)
            meta = None
        if meta is not None:
            folders.remove_leftovers(collection, meta)
            return Found(name, meta, Opening.LOAD)
        if dimension is None:
            raise CollectionMissing("no such vector collection")
        if folders.free_bytes(self._settings.root) < self._settings.reserve_bytes + _NEW_COLLECTION_BYTES:
            raise VectorStorageFull("the vector store has no room on its disk")
        try:
            return Found(name, folders.create(collection, dimension), Opening.CREATE)
        except OSError as error:
            raise VectorStorageFull("the vector store cannot write to its disk") from error

    def _claim(self) -> None:
        if self._closed:
            raise VectorStoreUnavailable("the vector store is closed")
        if self._lock is None:
            try:
                self._lock = folders.RootLock(self._settings.root)
            except BlockingIOError as error:
                raise VectorStoreUnavailable("another process holds the vector store") from error
            except OSError as error:
                raise VectorStoreUnavailable("the vector store's folder cannot be used") from error
