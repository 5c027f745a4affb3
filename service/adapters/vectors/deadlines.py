"""Deadlines of vector calls, as points in time of `time.monotonic()`."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.ports.vectors import VectorStoreTimeout


def remaining(deadline: float) -> float:
    """Seconds left. Raises VectorStoreTimeout when there are none, so that no work begins."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise VectorStoreTimeout("the deadline passed before the vector store was asked")
    return left


@asynccontextmanager
async def until(deadline: float) -> AsyncIterator[None]:
    """Cancel the block at the deadline. Raises VectorStoreTimeout then, and for a timeout inside."""
    left = remaining(deadline)
    try:
        async with asyncio.timeout(left):
            yield
    except TimeoutError as error:
        raise VectorStoreTimeout("the vector store did not answer before the deadline") from error
