"""U17: a service that needs no key is not open to every web site that its user visits."""

import json
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest

from service.bootstrap import keyring
from service.core.access import KeyScope
from service.ingest.keys import KeyOrder
from service.settings import Settings
from tests.access.conftest import Locked, bearing
from tests.http.calls import assert_problem, document, ndjson, read
from tests.http.conftest import Client, connected
from tests.http.listening import listening

pytestmark = pytest.mark.anyio

REBOUND = "rebound.example:8000"
OWN = "http://testserver.local"
FOREIGN = (
    {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": OWN},
    {"Origin": "https://elsewhere.example"},
    {"Origin": f"{OWN}:8001"},
    {"Origin": "null"},
    {"Origin": "http://[bad"},
)
NATIVE: tuple[dict[str, str], ...] = (
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": OWN},
)


@pytest.fixture
async def http(sqlite_settings: Settings) -> AsyncIterator[Client]:
    """A client to a service that needs no key."""
    async with connected(sqlite_settings) as client:
        yield client


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000"])
async def test_own_names(sqlite_settings: Settings, host: str) -> None:
    """U17: without keys a loopback address answers under this machine's own names."""
    async with listening(sqlite_settings) as server:
        assert (await server.client.get("/v1/vocabulary", headers={"Host": host})).status_code == 200


async def test_names_of_others(sqlite_settings: Settings) -> None:
    """U17: under any other name it does not: a site that leads its name here (DNS rebinding) reads nothing."""
    async with listening(sqlite_settings) as server:
        for host in (REBOUND, "localhost.example", "127.0.0.1.example", "[::1].example", "[::2]", "x", ""):
            named = {"Host": host, "Sec-Fetch-Site": "same-origin", "Origin": f"http://{host}"}
            sent = (
                await server.client.get("/v1/vocabulary", headers=named),
                await server.client.get("/metrics", headers=named),
                await server.client.post("/v1/retrieve", headers=named, json={"query": "sill"}),
                await server.client.post("/v1/items", headers=named, json=document("a", "sill")),
            )
            for answer in sent:
                assert "localhost" in str(assert_problem(answer, 403, "forbidden")["detail"])
            assert (await server.client.get("/", headers=named)).status_code == 403
            assert (await server.client.get("/health/ready", headers=named)).status_code == 200


async def test_keys_open_every_name(sqlite_settings: Settings) -> None:
    """U17: where keys exist, a key is what counts: the name and the site are the caller's affair."""
    async with keyring(sqlite_settings) as control:
        made = await control.create(KeyOrder("k", frozenset({"default"}), frozenset(KeyScope)))
    async with listening(sqlite_settings) as server:
        headers = {**bearing(made.text), "Host": REBOUND, **FOREIGN[0]}
        stored = await server.client.post("/v1/items", headers=headers, json=document("a", "sill"))
        assert stored.status_code == 201


async def everything_that_writes(client: Client, headers: Mapping[str, str]) -> list[httpx.Response]:
    """What a page can send without asking first: no content type, or one that forms have."""
    line, plain = ndjson([document("new", "a sill")]), {**headers, "Content-Type": "text/plain"}
    return [
        await client.post("/v1/items/import", content=line, headers=plain),
        await client.post("/v1/items", content=json.dumps(document("one", "a sill")), headers=dict(headers)),
        await client.post("/v1/items/old/retire", headers=dict(headers)),
        await client.put("/v1/vocabulary", json={}, headers=dict(headers)),
        await client.post("/v1/retrieve", json={"query": "sill"}, headers=dict(headers)),
    ]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_other_sites_write_nothing(http: Client, headers: dict[str, str]) -> None:
    """U17: without keys, what another site lets a browser send is refused and changes nothing."""
    assert (await http.post("/v1/items", json=document("old", "a sill"))).status_code == 201
    for answer in await everything_that_writes(http, headers):
        assert "another site" in str(assert_problem(answer, 403, "forbidden")["detail"])
    found = read(await http.post("/v1/retrieve", json={"query": "sill"}))
    assert found["shown"] == 1


@pytest.mark.parametrize("headers", NATIVE)
async def test_what_is_no_other_site(http: Client, headers: dict[str, str]) -> None:
    """U17: programs, which say nothing of a site, and the service's own pages are let through."""
    assert (await http.post("/v1/items", json=document("old", "a sill"))).status_code == 201
    for answer in await everything_that_writes(http, headers):
        assert answer.status_code in (200, 201), answer.text


async def test_links_from_other_sites(http: Client) -> None:
    """U17: a link from another site leads to a page: reading changes nothing, and only the visitor sees it."""
    assert (await http.get("/?q=sill", headers=FOREIGN[0])).status_code == 200


async def test_a_cookie_speaks_for_nobody_else(locked: Locked) -> None:
    """U20: a key that came in a page's cookie gives no turn to requests without a key; one in a header does."""
    made = await locked.make("default")
    gate = locked.client.app.state.gate
    assert (await locked.send("GET", "/?q=x", {"Cookie": f"citewell_key={made.text}"})).status_code == 200
    assert not gate._callers
    await locked.send("GET", "/v1/vocabulary", bearing(made.text))
    assert list(gate._callers.values()) == [made.key.key_id.encode()]
    await locked.send("GET", "/v1/vocabulary", {"Authorization": f"bearer   {made.text} "})
    assert len(gate._callers) == 1, "one key is one caller, however its header is written"
