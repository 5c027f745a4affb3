"""A service with keys, and clients that hold them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from litestar import Litestar
from litestar.testing import AsyncTestClient

from service.bootstrap import Application, keyring
from service.core.access import ApiKey, KeyScope
from service.ingest.keys import KeyOrder, MadeKey
from service.settings import Settings
from service.surfaces.http.app import create_app

Client = AsyncTestClient[Litestar]
ALL = frozenset(KeyScope)


@dataclass(frozen=True, slots=True)
class Locked:
    """A service that knows keys, and a client that holds none.

    The service runs in an event loop of its own, so keys are made as the command line does: by another connection.
    """

    client: Client
    settings: Settings

    @property
    def application(self) -> Application:
        """The use cases behind it."""
        application: Application = self.client.app.state.application
        return application

    async def make(
        self, *workspaces: str, scopes: frozenset[KeyScope] = ALL, rate: float | None = None
    ) -> MadeKey:
        """A new key."""
        async with keyring(self.settings) as control:
            return await control.create(KeyOrder("a key", frozenset(workspaces), scopes, rate))

    async def revoke(self, key_id: str) -> ApiKey:
        """A key that counts no more."""
        async with keyring(self.settings) as control:
            return await control.revoke(key_id)

    async def keys(self) -> dict[str, ApiKey]:
        """Every key by its id."""
        async with keyring(self.settings) as control:
            return {key.key_id: key for key in await control.list()}

    async def headers(
        self, *workspaces: str, scopes: frozenset[KeyScope] = ALL, rate: float | None = None
    ) -> dict[str, str]:
        """The headers of a caller with a new key."""
        return bearing((await self.make(*workspaces, scopes=scopes, rate=rate)).text)

    async def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: object = None
    ) -> httpx.Response:
        """A request with or without a body."""
        content = {} if body is None else {"json": body}
        return await self.client.request(method, path, headers=dict(headers or {}), **content)  # type: ignore[arg-type]


def bearing(key: str, workspace: str | None = None) -> dict[str, str]:
    """The headers of somebody who holds a key."""
    named = {} if workspace is None else {"X-Citewell-Workspace": workspace}
    return {"Authorization": f"Bearer {key}", **named}


@asynccontextmanager
async def locked_service(settings: Settings) -> AsyncIterator[Locked]:
    """A service in which one key was made."""
    async with AsyncTestClient(create_app(settings), raise_server_exceptions=False) as client:
        locked = Locked(client, settings)
        await locked.make("default")
        yield locked


@pytest.fixture
async def locked(sqlite_settings: Settings) -> AsyncIterator[Locked]:
    """A service with keys on SQLite."""
    async with locked_service(sqlite_settings) as service:
        yield service


@pytest.fixture
async def locked_both(settings: Settings) -> AsyncIterator[Locked]:
    """A service with keys on each kind of database."""
    async with locked_service(settings) as service:
        yield service
