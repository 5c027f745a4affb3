"""U20: imports of one key leave a slot to other keys' imports."""

import asyncio

import pytest

from service.bootstrap import keyring
from service.core.access import KeyScope
from service.ingest.keys import KeyOrder
from service.settings import Settings
from service.surfaces.http.queue import Work
from tests.access.conftest import bearing
from tests.http.calls import document, ndjson
from tests.http.listening import PATIENCE_S, listening, until

pytestmark = pytest.mark.anyio


async def test_one_key_never_holds_the_last_import(sqlite_settings: Settings) -> None:
    """U20: of two slots for imports one key holds one, known before or not; another key's import is not kept."""
    settings = sqlite_settings.model_copy(update={"max_in_flight": 16})
    async with keyring(settings) as control:
        red, blue = [
            (await control.create(KeyOrder(name, frozenset({name}), frozenset(KeyScope)))).text
            for name in ("red", "blue")
        ]
    head = (
        "POST /v1/items/import HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"
        f"authorization: Bearer {red}\r\n\r\n"
    ).encode()
    async with listening(settings) as server:
        first, _ = await server.raw(head)
        await asyncio.wait_for(first.readuntil(b" 200 "), PATIENCE_S)
        for _ in range(2):
            await server.raw(head)
        await until(lambda: server.gate.lanes()[Work.IMPORT] == (1, 2))
        line = ndjson([document("a", "sill")])
        answer = await server.client.post("/v1/items/import", content=line, headers=bearing(blue))
        assert answer.json()["item_id"] == "a"
        assert server.gate.lanes()[Work.IMPORT] == (1, 2)
