"""What is refused, and by whom: how it is counted, how it is logged, and what HEAD is answered."""

import asyncio
from collections.abc import MutableMapping

import pytest
from structlog.testing import capture_logs

from service.settings import Settings
from service.surfaces.http import queue
from service.surfaces.http.app import create_app
from service.surfaces.http.causes import causes_of
from service.surfaces.http.templates import RouteTemplates
from tests.http.calls import assert_problem, document
from tests.http.conftest import Client, connected
from tests.http.listening import PATIENCE_S, Listening, listening, until
from tests.http.test_health import lose_database, samples
from tests.http.test_limits import narrow
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio
REQUESTS = "citewell_http_requests_total"


async def counted(server: Listening) -> dict[str, float]:
    """Requests by method, route and status; the page's own are left out."""
    found = samples((await server.client.get("/metrics")).text)
    return {
        name.removeprefix(REQUESTS): value
        for name, value in found.items()
        if name.startswith(f"{REQUESTS}{{") and "route=/metrics" not in name
    }


async def test_what_the_gate_refuses_is_counted_under_its_route(sqlite_settings: Settings) -> None:
    """U19: a request that finds no place is counted under the template of its path, whatever its ids are."""
    async with listening(narrow(sqlite_settings)) as server:
        held = server.hold("a")
        await server.until_begun("a")
        for path in (
            "/v1/vocabulary",
            "/v1/items/one",
            "/v1/items/two/",
            "/v1//items/three",
            "/",
            "/no/where",
        ):
            assert_problem(await server.client.get(path), 503, "overloaded")
        assert_problem(await server.client.post("/v1/retrieve", json={"query": "x"}), 503, "overloaded")
        assert await counted(server) == {
            "{method=GET,route=/v1/vocabulary,status=503}": 1.0,
            "{method=GET,route=/v1/items/{item_id},status=503}": 3.0,
            "{method=GET,route=/,status=503}": 1.0,
            "{method=GET,route=unmatched,status=503}": 1.0,
            "{method=POST,route=/v1/retrieve,status=503}": 1.0,
        }
        server.go_on.set()
        await held


async def test_what_comes_too_late_is_counted_under_its_route(sqlite_settings: Settings) -> None:
    """U19: a deadline that passes in the queue is counted under the template, as is one that passes at work."""
    async with listening(narrow(sqlite_settings, max_waiting=8, request_deadline=0.5)) as server:
        stuck = server.hold("a")
        await server.until_begun("a")
        assert_problem(await server.client.get("/v1/vocabulary"), 503, "deadline_exceeded")
        assert_problem(await stuck, 503, "deadline_exceeded")
        assert await counted(server) == {
            "{method=GET,route=/v1/vocabulary,status=503}": 1.0,
            "{method=GET,route=/held/{name},status=503}": 1.0,
        }


async def test_a_wrong_method_is_counted_under_its_route(sqlite_settings: Settings) -> None:
    """U19: 405 is counted under the path's template; `unmatched` are paths that lead nowhere and no others."""
    async with listening(sqlite_settings) as server:
        for method, path in (
            ("DELETE", "/v1/vocabulary"),
            ("PUT", "/v1/items/a"),
            ("GET", "/v1/items/import"),
        ):
            refused = await server.client.request(method, path)
            assert_problem(refused, 405, "method_not_allowed")
        assert (await server.client.get("/v1/items/nobody")).status_code == 404
        assert (await server.client.get("/v1/nowhere")).status_code == 404
        assert await counted(server) == {
            "{method=DELETE,route=/v1/vocabulary,status=405}": 1.0,
            "{method=PUT,route=/v1/items/{item_id},status=405}": 1.0,
            "{method=GET,route=/v1/items/import,status=405}": 1.0,
            "{method=GET,route=/v1/items/{item_id},status=404}": 1.0,
            "{method=GET,route=unmatched,status=404}": 1.0,
        }


async def test_every_reason_is_there_before_it_counts(sqlite_settings: Settings) -> None:
    """U19: each reason of the gate to refuse is on the page at zero from the start."""
    async with listening(sqlite_settings) as server:
        found = samples((await server.client.get("/metrics")).text)
        for reason in ("overloaded", "deadline_exceeded", "client_gone", "unavailable"):
            assert found[f"citewell_queue_rejected_total{{reason={reason}}}"] == 0.0


def test_every_route_is_found_by_its_path() -> None:
    """U19: the template of each route's path is the one that the router gives it."""
    app = create_app(Settings())
    templates = RouteTemplates(app)
    for route in app.routes:
        assert templates.of(route.path_format.replace("{", "").replace("}", "")) == route.path_format
    assert templates.of("/v1/items/a/b/c") is None
    assert templates.of("//v1/items//x/") == "/v1/items/{item_id}"


async def test_requests_that_are_read_are_bounded(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U20: bodies that are being read are so many at most; one more is refused unread, and health is told."""
    monkeypatch.setattr(queue, "READ_AHEAD", 3)
    async with listening(narrow(sqlite_settings, request_deadline=60.0)) as server:
        head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\n"
        reading = [await server.raw(head) for _ in range(4)]  # those that are read, and one that could work
        await until(lambda: server.gate._here == 4)
        refused = await server.client.post("/v1/retrieve", json={"query": "sill"})
        body = assert_problem(refused, 503, "overloaded")
        assert "nothing of this one was begun" in str(body["detail"])
        assert int(refused.headers["retry-after"]) >= 1
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert (await server.client.get(path)).status_code == 200
        for reader, writer in reading:
            writer.write(b'{"query":"sill"}')
            assert b" 200 " in await asyncio.wait_for(reader.readline(), PATIENCE_S)
            await until(lambda: server.gate.working == 0)
        await until(lambda: server.gate._here == 0)


GETS = sorted(
    route.path_format.replace("{", "").replace("}", "")
    for route in create_app(Settings()).routes
    if "GET" in getattr(route, "methods", ())
)


@pytest.mark.parametrize("path", GETS)
async def test_head_of_every_page_and_route(http: Client, path: str) -> None:
    """U16: whatever can be had with GET is answered to HEAD with the same status and headers, and no body."""
    whole, head = await http.get(path), await http.request("HEAD", path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    for name in ("content-security-policy", "cache-control", "etag"):
        assert head.headers.get(name) == whole.headers.get(name)


async def test_head_over_the_wire(sqlite_settings: Settings) -> None:
    """U16: HEAD is counted as HEAD, names the length that a GET has, and leaves the connection usable."""
    async with listening(sqlite_settings) as server:
        whole = await server.client.get("/v1/vocabulary")
        reader, writer = await server.raw(b"HEAD /v1/vocabulary HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for _ in range(3):
            told = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).lower()
            assert told.startswith(b"http/1.1 200 ")
            assert b"content-length: %d\r\n" % len(whole.content) in told
            writer.write(b"HEAD /v1/vocabulary HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await counted(server))["{method=HEAD,route=/v1/vocabulary,status=200}"] >= 3.0
        nothing = await server.client.head("/v1/nowhere")
        assert (nothing.status_code, nothing.content) == (404, b"")
        assert (await server.client.head("/v1/retrieve")).status_code == 405


async def test_allow_names_head(http: Client) -> None:
    """U16: where GET is allowed HEAD is too, and Allow says so; where it is not, neither is."""
    assert "HEAD" in (await http.delete("/v1/vocabulary")).headers["allow"]
    assert "HEAD" in (await http.options("/v1/items/a")).headers["allow"]
    assert "HEAD" not in (await http.get("/v1/retrieve")).headers["allow"]


def lines_of(logs: list[MutableMapping[str, object]], event: str) -> list[tuple[object, object]]:
    """Status and code of each line of a kind."""
    return [(line.get("status"), line.get("code")) for line in logs if line["event"] == event]


async def test_an_error_has_its_code_in_the_log(http: Client) -> None:
    """U19: the line of a request that failed holds the code of its problem, whoever found it; others have none."""
    with capture_logs() as logs:
        await http.post("/v1/items", json=document("a", "sill"))
        await http.get("/v1/items/nobody")
        await http.get("/v1/nowhere")
        await http.post("/v1/retrieve", json={"query": "x" * 300_000})
        await http.get("/v1/facet-tags", params={"limit": "many"})
        await http.delete("/v1/vocabulary")
        await http.get("/items/nobody")
    assert lines_of(logs, "request") == [
        (201, None),
        (404, "item_not_found"),
        (404, "not_found"),
        (400, "query_too_long"),
        (400, "invalid_limit"),
        (405, "method_not_allowed"),
        (404, "item_not_found"),
    ]


async def test_a_refusal_of_the_gate_has_its_code_in_the_log(sqlite_settings: Settings) -> None:
    """U19: so has the line of a request that found no place."""
    async with listening(narrow(sqlite_settings)) as server:
        held = server.hold("a")
        await server.until_begun("a")
        with capture_logs() as logs:
            await server.client.get("/v1/vocabulary")
        assert lines_of(logs, "request") == [(503, "overloaded")]
        server.go_on.set()
        await held


async def test_a_503_has_its_cause_in_the_log(
    postgres_server: PostgresServer, sqlite_settings: Settings
) -> None:
    """U19: why the store did not answer is logged, by the kind of every cause and with no word of a caller."""
    with postgres_server.database() as url:
        settings = sqlite_settings.model_copy(update={"database_url": url})
        async with connected(settings) as client:
            await client.post("/v1/items", json=document("a", "sill"))
            lose_database(postgres_server, url)
            with capture_logs() as logs:
                answers = [
                    await client.post("/v1/retrieve", json={"query": "secretword"}),
                    await client.get("/v1/items/secretword"),
                    await client.get("/items/secretword"),
                ]
    assert {answer.status_code for answer in answers} == {503}
    assert lines_of(logs, "request") == [(503, "store_unavailable")] * 3
    told = [line for line in logs if line["event"] == "unavailable"]
    assert len(told) == 3
    for line in told:
        assert (line["code"], line["log_level"]) == ("store_unavailable", "warning")
        assert any("asyncpg" in cause for cause in line["causes"])
    assert "secretword" not in str(told)


def test_causes_quote_no_values() -> None:
    """U19: a cause says what happened to the machine; of what may quote a value only its kind is told."""

    class DataError(OSError):
        """As drivers derive them."""

    failed = caused(
        RuntimeError("ours"), caused(OSError("no route to host"), DataError("'secret' is no number"))
    )
    module = DataError.__module__
    assert causes_of(failed) == ["builtins.OSError: no route to host", f"{module}.{DataError.__qualname__}"]
    assert causes_of(caused(RuntimeError("ours"), RuntimeError("secret"))) == ["builtins.RuntimeError"]
    assert causes_of(caused(RuntimeError("ours"), OSError("locked\n[SQL: SELECT 'secret']"))) == [
        "builtins.OSError: locked"
    ]
    looped = caused(RuntimeError("a"), RuntimeError("b"))
    assert looped.__cause__ is not None
    looped.__cause__.__cause__ = looped
    assert causes_of(looped) == ["builtins.RuntimeError"]


def caused(error: Exception, cause: Exception) -> Exception:
    """An error with its cause."""
    error.__cause__ = cause
    return error
