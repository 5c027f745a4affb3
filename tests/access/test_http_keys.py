"""HTTP with keys: who gets in, and for what."""

import asyncio
import re

import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.testing import AsyncTestClient

from service.core.access import EVERY_WORKSPACE, KeyScope
from service.ingest import key_ring
from service.settings import Settings
from service.surfaces.http.access import NEEDS
from service.surfaces.http.app import create_app
from tests.access.conftest import Locked, bearing, locked_service
from tests.http.calls import ask, assert_problem, document, item_ids, put_vocabulary, read, store

pytestmark = pytest.mark.anyio

SOMEBODY = "cw_0123456789abcdef_" + "x" * 43
QUERY = {"query": "sill"}


def routes() -> list[tuple[str, str, KeyScope | None]]:
    """Every method and path of the API with the scope that it needs."""
    found = []
    for route in create_app(Settings()).routes:
        if not isinstance(route, HTTPRoute) or route.path.startswith("/schema"):
            continue
        for handler in route.route_handlers:
            assert isinstance(handler, HTTPRouteHandler)
            methods = handler.http_methods - {"OPTIONS"}
            if methods:
                assert NEEDS in handler.opt, route.path
                path = re.sub(r"\{(\w+):\w+\}", "x", route.path)
                found += [(method, path, handler.opt[NEEDS]) for method in sorted(methods)]
    return sorted(found, key=str)


API = [route for route in routes() if route[1].startswith(("/v1", "/metrics", "/health"))]


def test_every_route_says_what_it_needs() -> None:
    """U17: reads, writes and operations are told apart, and only health is open."""
    assert {path for _, path, needed in API if needed is None} == {"/health/live", "/health/ready"}
    for method, path, needed in API:
        if needed is KeyScope.READ and method == "POST":
            assert path.startswith(("/v1/retrieve", "/v1/selection"))
        if method in ("PUT", "DELETE"):
            assert needed is KeyScope.WRITE
    assert len(API) >= 21


@pytest.mark.parametrize(("method", "path", "needed"), API)
async def test_a_route_and_the_keys(locked: Locked, method: str, path: str, needed: KeyScope | None) -> None:
    """U17: without a key 401, with a key of every other scope 403, with the right one neither."""
    if needed is None:
        assert (await locked.send(method, path)).status_code == 200
        return
    answer = await locked.send(method, path)
    assert_problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    others = await locked.headers("default", scopes=frozenset(KeyScope) - {needed})
    assert_problem(await locked.send(method, path, others), 403, "forbidden")
    reach = EVERY_WORKSPACE if path == "/metrics" else "default"
    right = await locked.headers(reach, scopes=frozenset({needed}))
    assert (await locked.send(method, path, right)).status_code not in (401, 403)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dTpw",
        f"Bearer {SOMEBODY}",
        "Bearer nonsense",
        f"Token {SOMEBODY}",
        SOMEBODY,
    ],
)
async def test_what_is_no_key(locked: Locked, header: str) -> None:
    """U17: anything but a good key is 401, and the answer does not tell which part was wrong."""
    assert_problem(
        await locked.send("POST", "/v1/retrieve", {"Authorization": header}, QUERY), 401, "unauthenticated"
    )


async def test_a_key_opens_the_service_it_was_made_for(locked_both: Locked) -> None:
    """U17: a good key gets in on both databases; a letter of its secret changed, it does not."""
    made = await locked_both.make("default")
    assert (await locked_both.send("POST", "/v1/retrieve", bearing(made.text), QUERY)).status_code == 200
    other = made.text[:-1] + ("A" if made.text[-1] != "A" else "B")
    refused = await locked_both.send("POST", "/v1/retrieve", bearing(other), QUERY)
    assert_problem(refused, 401, "unauthenticated")


async def test_a_key_is_stored_as_a_hash(locked_both: Locked) -> None:
    """U17: neither the key nor its secret is anywhere in the ledger."""
    made = await locked_both.make("default")
    secret = made.text.rpartition("_")[2]
    stored = await locked_both.keys()
    assert secret not in repr(stored)
    assert stored[made.key.key_id] == made.key


async def test_a_revoked_key_is_refused(locked_both: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    """U17: a revocation counts when the store is asked again; the key stays on record; again changes nothing."""
    monkeypatch.setattr(key_ring, "FRESH_S", 0.0)
    made = await locked_both.make("default")
    assert (await locked_both.send("GET", "/v1/vocabulary", bearing(made.text))).status_code == 200
    revoked = await locked_both.revoke(made.key.key_id)
    assert_problem(
        await locked_both.send("GET", "/v1/vocabulary", bearing(made.text)), 401, "unauthenticated"
    )
    assert (await locked_both.revoke(made.text)).revoked_at == revoked.revoked_at
    assert made.key.key_id in await locked_both.keys()


async def test_the_service_stays_locked_without_a_living_key(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U17: revoking the last key opens nothing."""
    monkeypatch.setattr(key_ring, "FRESH_S", 0.0)
    for key_id in await locked.keys():
        await locked.revoke(key_id)
    assert_problem(await locked.send("GET", "/v1/vocabulary"), 401, "unauthenticated")


async def test_the_first_key_locks_a_running_service(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U17: a service that was open asks for keys once one was made, without a restart."""
    monkeypatch.setattr(key_ring, "FRESH_S", 0.0)
    async with AsyncTestClient(create_app(sqlite_settings)) as client:
        service = Locked(client, sqlite_settings)
        assert (await service.send("POST", "/v1/retrieve", None, QUERY)).status_code == 200
        headers = await service.headers("default")
        assert_problem(await service.send("POST", "/v1/retrieve", None, QUERY), 401, "unauthenticated")
        assert (await service.send("POST", "/v1/retrieve", headers, QUERY)).status_code == 200


async def test_last_use_is_noted(settings: Settings) -> None:
    """U17: when a key was used last is on record, without a write for every request."""
    async with locked_service(settings) as service:
        used, unused = await service.make("default"), await service.make("default")
        for _ in range(3):
            await service.send("GET", "/v1/vocabulary", bearing(used.text))
    found = await service.keys()
    last_use = found[used.key.key_id].last_used_at
    assert last_use is not None
    assert last_use >= used.key.created_at
    assert found[unused.key.key_id].last_used_at is None


async def test_a_key_with_a_rate(locked: Locked) -> None:
    """U20: past its rate a key is answered 429 with the seconds to wait; another key is not."""
    slow = await locked.headers("default", rate=0.5)
    quick = await locked.headers("default")
    answers = [await locked.send("POST", "/v1/retrieve", slow, QUERY) for _ in range(4)]
    assert answers[0].status_code == 200
    refused = answers[-1]
    assert_problem(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    for _ in range(4):
        assert (await locked.send("POST", "/v1/retrieve", quick, QUERY)).status_code == 200
    assert (await locked.send("GET", "/health/ready", slow)).status_code == 200


async def test_a_rate_for_every_key(sqlite_settings: Settings) -> None:
    """U20: CITEWELL_KEY_RATE counts for keys without a rate of their own."""
    async with locked_service(sqlite_settings.model_copy(update={"key_rate": 0.5})) as service:
        headers = await service.headers("default")
        unlimited = await service.headers("default", rate=1e6)
        sent = [await service.send("POST", "/v1/retrieve", headers, QUERY) for _ in range(4)]
        assert sent[-1].status_code == 429
        both = await asyncio.gather(
            *(service.send("POST", "/v1/retrieve", unlimited, QUERY) for _ in range(20))
        )
        assert {answer.status_code for answer in both} == {200}


async def test_the_workspace_of_a_request(locked: Locked) -> None:
    """U17: a key's only workspace needs no header; among several the header chooses; another is refused."""
    both = await locked.make("a", "b")
    for name in ("a", "b"):
        stored = await locked.send(
            "POST", "/v1/items", bearing(both.text, name), document(name, f"sill of {name}")
        )
        assert stored.status_code == 201
    for name in ("a", "b"):
        only = await locked.headers(name)
        assert item_ids(read(await locked.send("POST", "/v1/retrieve", only, QUERY))) == [name]
        chosen = await locked.send("POST", "/v1/retrieve", bearing(both.text, name), QUERY)
        assert item_ids(read(chosen)) == [name]
    assert_problem(await locked.send("POST", "/v1/retrieve", bearing(both.text), QUERY), 403, "forbidden")
    assert_problem(
        await locked.send("POST", "/v1/retrieve", bearing(both.text, "c"), QUERY), 403, "forbidden"
    )
    assert_problem(
        await locked.send("POST", "/v1/retrieve", bearing(both.text, "%00"), QUERY), 400, "invalid_input"
    )


async def test_a_workspace_with_any_name(locked: Locked) -> None:
    """U17: a workspace's name is percent-encoded in the header, so it may be in any script."""
    headers = await locked.headers("Türen & Fenster/窓")
    named = {**headers, "X-Citewell-Workspace": "T%C3%BCren%20%26%20Fenster%2F%E7%AA%93"}
    assert (await locked.send("POST", "/v1/items", named, document("a", "sill"))).status_code == 201
    assert item_ids(read(await locked.send("POST", "/v1/retrieve", headers, QUERY))) == ["a"]


async def test_naming_workspaces_leaves_no_trace(locked: Locked) -> None:
    """U18: reading workspaces that nobody wrote to opens no index, however many are named."""
    everywhere = await locked.make(EVERY_WORKSPACE)
    before = set(locked.application.lexical.status())
    for number in range(50):
        answer = await locked.send("POST", "/v1/retrieve", bearing(everywhere.text, f"w{number}"), QUERY)
        assert read(answer)["results"] == []
    assert set(locked.application.lexical.status()) == before


async def test_drills_are_for_operators(locked: Locked) -> None:
    """E14: forcing an arm needs the scope operate, by each way to retrieve; a malformed order is refused."""
    reader = await locked.headers("default", scopes=frozenset({KeyScope.READ}))
    operator = await locked.headers("default")
    forced = {**QUERY, "force_arm": "error"}
    assert_problem(await locked.send("POST", "/v1/retrieve", reader, forced), 403, "forbidden")
    assert (await locked.send("POST", "/v1/retrieve", operator, forced)).status_code == 200
    path = "/v1/systems/s/passages?force_arm=slow:1ms"
    assert_problem(await locked.send("GET", path, reader), 403, "forbidden")
    assert (await locked.send("GET", path, operator)).status_code == 200
    wrong = {**QUERY, "force_arm": "explode"}
    assert_problem(await locked.send("POST", "/v1/retrieve", operator, wrong), 400, "invalid_input")


async def test_metrics_tell_of_every_workspace(locked: Locked) -> None:
    """U18: they are for an operator of all workspaces, not for one of a single workspace."""
    assert_problem(await locked.send("GET", "/metrics", await locked.headers("default")), 403, "forbidden")
    everywhere = await locked.headers(EVERY_WORKSPACE)
    assert (await locked.send("GET", "/metrics", everywhere)).status_code == 200


async def test_an_open_service_needs_no_key(sqlite_settings: Settings) -> None:
    """U17: while no key was ever made everything works without one, in any workspace."""
    async with AsyncTestClient(create_app(sqlite_settings)) as client:
        await put_vocabulary(client)
        await store(client, document("a", "a sill"))
        assert item_ids(await ask(client, "sill")) == ["a"]
        elsewhere = await client.post(
            "/v1/retrieve", json=QUERY, headers={"X-Citewell-Workspace": "elsewhere"}
        )
        assert read(elsewhere)["results"] == []


async def test_who_decided_is_on_record(locked: Locked) -> None:
    """C4: without a name in the request, a tag's history holds the key's name."""
    headers = await locked.headers("default")
    await locked.send("PUT", "/v1/vocabulary", headers, {"factors": [{"factor_id": "f", "name": "climate"}]})
    await locked.send("POST", "/v1/items", headers, document("a", "sill"))
    tag = {"item_id": "a", "facet_type": "factor", "facet_id": "f"}
    tag_id = read(await locked.send("POST", "/v1/facet-tags", headers, tag))["tag_id"]
    accepted = read(await locked.send("POST", f"/v1/facet-tags/{tag_id}/accept", headers))
    assert "a key" in str(accepted)
