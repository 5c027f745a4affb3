"""The three stores behind the port."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient

from service.adapters.vectors.memory import MemoryVectorIndex
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.adapters.vectors.qdrant_server.index import ServerVectorIndex
from service.adapters.vectors.qdrant_server.settings import CollectionSettings
from service.ports.vectors import VectorIndex


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


def in_memory_server() -> ServerVectorIndex:
    """The server adapter over the client's in-memory mode, which one event loop uses at a time."""
    return ServerVectorIndex(AsyncQdrantClient(":memory:"), CollectionSettings())


@pytest.fixture(params=["memory", "edge", "server"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorIndex]:
    """An empty store of each kind in turn."""
    stores: dict[str, VectorIndex] = {
        "memory": MemoryVectorIndex(),
        "edge": EdgeVectorIndex(EdgeSettings(tmp_path / "vectors")),
        "server": in_memory_server(),
    }
    store = stores[request.param]
    yield store
    await store.close()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[EdgeVectorIndex]:
    """An empty embedded store."""
    store = EdgeVectorIndex(EdgeSettings(tmp_path / "vectors"))
    yield store
    await store.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A child that is killed on purpose may be collected before its end was read: no fault of the test's."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
