"""The active collection, where the store itself keeps it."""

from collections.abc import AsyncIterator

import pytest

from service.adapters.vectors.memory import MemoryVectorIndex
from service.adapters.vectors.qdrant_server.index import ServerVectorIndex
from service.ports.vectors import CollectionMissing
from tests.vectors.conftest import in_memory_server
from tests.vectors.parts import COLLECTION, DIMENSION, OTHER, soon

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
]


@pytest.fixture(params=["memory", "server"])
async def pointing(request: pytest.FixtureRequest) -> AsyncIterator[MemoryVectorIndex | ServerVectorIndex]:
    """An empty store that keeps the pointer."""
    store = MemoryVectorIndex() if request.param == "memory" else in_memory_server()
    yield store
    await store.close()


async def test_the_pointer_moves_in_one_step(pointing: MemoryVectorIndex | ServerVectorIndex) -> None:
    """E16: nothing serves before the first switch; then what was activated last does, and the old one stays."""
    await pointing.ensure(COLLECTION, DIMENSION, soon())
    await pointing.ensure(OTHER, DIMENSION, soon())
    assert await pointing.active(soon()) is None

    await pointing.activate(COLLECTION, soon())
    assert await pointing.active(soon()) == COLLECTION
    await pointing.activate(OTHER, soon())
    await pointing.activate(OTHER, soon())

    assert await pointing.active(soon()) == OTHER
    assert await pointing.collections(soon()) == (COLLECTION, OTHER)


async def test_a_missing_collection_cannot_serve(pointing: MemoryVectorIndex | ServerVectorIndex) -> None:
    """E16: activating what does not exist is an error and leaves the pointer where it is."""
    await pointing.ensure(COLLECTION, DIMENSION, soon())
    await pointing.activate(COLLECTION, soon())

    with pytest.raises(CollectionMissing):
        await pointing.activate(OTHER, soon())

    assert await pointing.active(soon()) == COLLECTION
    await pointing.drop(COLLECTION, soon())
    assert await pointing.active(soon()) is None
