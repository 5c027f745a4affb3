"""The collections that are open, and the lock of their root."""

import asyncio
import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
        self._one_claim = threading.Lock()  # claims are made in worker threads
        self._open: dict[CollectionName, tuple[ServedCollection, GraphKeeper]] = {}
        self._one_opener = asyncio.Lock()
        self._drops: set[asyncio.Task[None]] = set()
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
        with _usable_folder():
            await asyncio.to_thread(self._claim)
            return await asyncio.to_thread(folders.names, self._settings.root)

    async def in_use(self) -> list[ServedCollection]:
        """The collections that are open. Raises VectorStoreUnavailable if the root is not ours."""
        with _usable_folder():
            await asyncio.to_thread(self._claim)
        return [served for served, _ in self._open.values()]

    async def drop(self, name: CollectionName) -> None:
        """Close it and delete it. Once begun it is carried through, even if the caller stops waiting."""
        drop = asyncio.create_task(self._drop(folders.checked(name)))
        self._drops.add(drop)
        drop.add_done_callback(self._drops.discard)
        await asyncio.shield(drop)

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

    async def _drop(self, name: CollectionName) -> None:
        async with self._one_opener:
            with _usable_folder():
                await asyncio.to_thread(self._claim)
                if name in self._open:
                    served, keeper = self._open.pop(name)
                    await keeper.close()
                    await served.close()
                await asyncio.to_thread(folders.remove, self._settings.root, name)

    async def _opened(self, name: CollectionName, dimension: int | None, deadline: float) -> ServedCollection:
        async with until(deadline), self._one_opener:
            if name not in self._open or self._closed:
                with _usable_folder():
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
        return Found(name, folders.create(collection, dimension), Opening.CREATE)

    def _claim(self) -> None:
        if self._closed:
            raise VectorStoreUnavailable("the vector store is closed")
        with self._one_claim:
            try:
                self._lock = self._lock or folders.RootLock(self._settings.root)
            except BlockingIOError as error:
                raise VectorStoreUnavailable("another process holds the vector store") from error


@contextmanager
def _usable_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise VectorStorageFull("the vector store has no room on its disk") from error
        raise VectorStoreUnavailable("the vector store's folder cannot be used") from error
