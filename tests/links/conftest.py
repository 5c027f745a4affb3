"""Fixtures of the link tests."""

from collections.abc import AsyncIterator

import pytest

from tests.links.site import Site


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@pytest.fixture
async def site(anyio_backend: str) -> AsyncIterator[Site]:
    """A server on 127.0.0.1 without pages."""
    async with Site() as running:
        yield running
