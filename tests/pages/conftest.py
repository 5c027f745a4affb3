"""Fixtures of the pages' tests: a filled house for many tests, a house with keys, and a real browser."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from playwright.async_api import Browser, async_playwright

from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.pages.house import Site, filled_app, site
from tests.pages.keys import Keys, keys_made

Client = TestClient[Litestar]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One event loop for all async tests here: the browser lives as long as it."""
    return "asyncio"


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client to the filled house. Nothing that a page does changes it."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("house"))
    with TestClient(filled_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Keys of a service that has no documents."""
    return keys_made(Settings(data_dir=tmp_path_factory.mktemp("keyed")))


@pytest.fixture(scope="session")
def keyed(keys: Keys) -> Iterator[Client]:
    """A client to the service that needs a key."""
    with TestClient(create_app(keys.settings), raise_server_exceptions=False) as client:
        client.follow_redirects = False
        yield client


@pytest.fixture
def locked(keyed: Client) -> Client:
    """The same client as a stranger; it follows no redirect by itself."""
    keyed.cookies.clear()
    return keyed


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The filled house on a port, for browsers."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("served"))
    with site(settings, filled_app(settings)) as running:
        yield running


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """The system's Chromium; skips, saying so, where it is not installed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    async with async_playwright() as playwright:
        unboxed = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = await playwright.chromium.launch(executable_path=path, args=unboxed)
        yield launched
        await launched.close()
