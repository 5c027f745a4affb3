"""A house with both arms on each kind of database."""

from collections.abc import AsyncIterator

import pytest

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from tests.vector_arm.parts import LyingIndex, Vectors, WordEncoder


@pytest.fixture
async def vectors(app: Application) -> AsyncIterator[Vectors]:
    """Both arms over an empty corpus; the index is real, and lies when a test tells it to."""
    index = LyingIndex(MemoryVectorIndex())
    made = Vectors(app, index, WordEncoder(), SqlVectorLedger(app.store.engines, "float32"))
    yield made
    await made.arm.close()
    await index.close()
