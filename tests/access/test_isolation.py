"""Two workspaces with the same ids and the same texts: neither can tell that the other is there."""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest
from litestar.routes import HTTPRoute
from sqlalchemy import event

from service.core.access import KeyScope
from tests.access.conftest import ALL, Locked
from tests.http.calls import Json, assert_problem, document, ndjson, read

pytestmark = pytest.mark.anyio

REQUESTS = 1_000
QUERY: Json = {"query": "threshold sill", "limit": 3, "explain": True}
SELECTION: Json = {"option_ids": ["cold", "nothing"], "explain": True}
# Not among the alternating requests: what signs in and out changes cookies only, and tests of its own have the
# others: /status tells how old things are, the document is the same for everybody.
ELSEWHERE = {"/sign-out", "/status", "/schema", "/schema/openapi.json", "/schema/{path:str}"}
Call = tuple[str, str, object]


def vocabulary(mark: str) -> Json:
    """The same ids with another workspace's words."""
    return {
        "systems": [{"system_id": "sl45", "name": f"Folding wall {mark}"}],
        "factors": [{"factor_id": "climate", "name": f"climate {mark}"}],
        "options": [{"option_id": "cold", "factor_id": "climate", "label": f"winter {mark}"}],
    }


def texts_of(mark: str, number: int) -> tuple[str, str]:
    """A document's passages: the first is the same in every workspace."""
    return f"the threshold sill number {number}", f"only in {mark} {number}"


async def fill(service: Locked, headers: dict[str, str], mark: str, items: int) -> None:
    """Documents with the same ids and first passages everywhere; a second passage says whose they are."""
    await service.send("PUT", "/v1/vocabulary", headers, vocabulary(mark))
    for number in range(items):
        capture = document(f"doc{number}", *texts_of(mark, number))
        answer = await service.send("POST", "/v1/items", headers, capture)
        assert answer.status_code == 201, answer.text
    tag = {"item_id": "doc1", "facet_type": "factor", "facet_id": "climate"}
    tag_id = read(await service.send("POST", "/v1/facet-tags", headers, tag))["tag_id"]
    await service.send("POST", f"/v1/facet-tags/{tag_id}/accept", headers)


@dataclass(frozen=True, slots=True)
class Own:
    """What a workspace has of its own: its mark, a cursor of each walk, a tag."""

    mark: str
    cursor: str
    selection_cursor: str
    tag_id: str


async def own(service: Locked, headers: dict[str, str], mark: str) -> Own:
    """What the workspace's first pages bring."""
    first = read(await service.send("POST", "/v1/retrieve", headers, QUERY))
    selected = read(await service.send("POST", "/v1/selection/passages", headers, {**SELECTION, "limit": 1}))
    tags = read(await service.send("GET", "/v1/facet-tags", headers))["results"]
    assert isinstance(tags, list)
    return Own(mark, str(first["next_cursor"]), str(selected["next_cursor"]), str(tags[0]["tag_id"]))


def every_route(mine: Own) -> list[Call]:
    """Every route: reads, pages and health, and writes that are repeated or refused, so that nothing changes."""
    captures = ndjson([document("doc1", *texts_of(mine.mark, 1)), {"title": "no document"}]).decode()
    return [
        *calls(),
        ("POST", "/v1/retrieve", {**QUERY, "cursor": mine.cursor}),
        ("POST", "/v1/selection/passages", {**SELECTION, "limit": 1, "cursor": mine.selection_cursor}),
        ("POST", "/v1/items", document("doc0", *texts_of(mine.mark, 0))),
        ("POST", "/v1/items", document("doc0", "other words under a taken id")),
        ("POST", "/v1/items/import", captures),
        ("POST", "/v1/items/nothing/supersede", {"by": "doc1"}),
        ("PUT", "/v1/vocabulary", {"factors": [{"factor_id": " ", "name": "refused"}]}),
        ("POST", "/v1/facet-tags", {"item_id": "doc1", "facet_type": "factor", "facet_id": "nothing"}),
        ("POST", f"/v1/facet-tags/{mine.tag_id}/accept", None),
        ("POST", "/v1/facet-tags/nothing/reject", None),
        ("GET", "/health/live", None),
        ("GET", "/health/ready", None),
        ("GET", "/metrics", None),
        ("GET", f"/?q=threshold+sill&workspace={mine.mark}", None),
        ("GET", f"/items/doc1?workspace={mine.mark}", None),
        ("GET", f"/items/nothing?workspace={mine.mark}", None),
        ("GET", f"/reports?workspace={mine.mark}", None),
        ("GET", "/sign-in", None),
        ("GET", "/static/page.css", None),
    ]


def calls() -> list[Call]:
    """Every read, with hits and without, with errors too."""
    query, selection = QUERY, SELECTION
    return [
        ("POST", "/v1/retrieve", query),
        ("POST", "/v1/retrieve", {"query": "only red blue 1", "explain": True}),
        ("POST", "/v1/retrieve", {"query": "sill", "cursor": "bm9uc2Vuc2U"}),
        ("POST", "/v1/retrieve", {"query": 5}),
        ("GET", "/v1/systems/sl45/passages?limit=2&explain=true", None),
        ("GET", "/v1/systems/nothing/passages", None),
        ("POST", "/v1/selection/passages", selection),
        ("POST", "/v1/selection/evidence", selection),
        ("POST", "/v1/selection/hand-off", selection),
        ("GET", "/v1/items/doc1", None),
        ("GET", "/v1/items/doc1/supersession", None),
        ("GET", "/v1/items/nothing", None),
        ("GET", "/v1/vocabulary", None),
        ("GET", "/v1/facet-tags", None),
        ("GET", "/v1/facet-tags?item_id=nothing", None),
        ("GET", "/v1/flag/shadow-report", None),
        ("POST", "/v1/facet-tags/nothing/accept", None),
        ("POST", "/v1/items/nothing/retire", None),
    ]


async def test_a_thousand_alternating_requests(locked_both: Locked) -> None:
    """U18: no answer depends on another workspace's rows, in any route, count, cursor or error."""
    alone, beside = await locked_both.headers("red"), await locked_both.headers("blue")
    await fill(locked_both, alone, "red", 6)
    reds = every_route(await own(locked_both, alone, "red"))
    before = [(await ask(locked_both, alone, call)) for call in reds]
    await fill(locked_both, beside, "blue", 9)  # the same ids, and more of them
    blues = every_route(await own(locked_both, beside, "blue"))
    others = [(await ask(locked_both, beside, call)) for call in blues]
    assert "blue" in "".join(answer.text for answer in others)
    assert {answer.status_code for answer in before} == {200, 400, 403, 404, 409}
    assert_every_route_is_among(locked_both, reds)

    order = random.Random(7)  # noqa: S311 - an order, not a secret
    for number in range(REQUESTS):
        which = order.randrange(len(before))
        mine = number % 2 == 0
        call = (reds if mine else blues)[which]
        answer = await ask(locked_both, alone if mine else beside, call)
        expected = (before if mine else others)[which]
        assert answer.status_code == expected.status_code, call
        assert _without_id(answer.text, answer.headers) == _without_id(expected.text, expected.headers), call
        assert ("blue" if mine else "only in red") not in answer.text.replace("only red blue 1", "")


async def ask(service: Locked, headers: dict[str, str], call: Call) -> httpx.Response:
    """One request; a text is sent as lines."""
    method, path, body = call
    if isinstance(body, str):
        lines = {**headers, "Content-Type": "application/x-ndjson"}
        return await service.client.request(method, path, headers=lines, content=body)
    return await service.send(method, path, headers, body)


def assert_every_route_is_among(service: Locked, asked: list[Call]) -> None:
    """Whatever route is added is asked too, or its absence is accounted for."""
    for route in service.client.app.routes:
        if not isinstance(route, HTTPRoute) or route.path in ELSEWHERE:
            continue
        shape = re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(route.path)))
        sent = {method for method, path, _ in asked if shape.fullmatch(urlsplit(path).path)}
        missing = {str(method) for method in route.methods} - {"OPTIONS", "HEAD"} - sent
        assert not missing or (route.path == "/sign-in"), (route.path, missing)


def _without_id(text: str, headers: "object") -> str:
    """An answer's text without the id of its request, and without the time that a report counts from."""
    without = text.replace(str(headers["x-request-id"]), "")  # type: ignore[index]
    return re.sub(r'"since":"[^"]*"', "", without)


async def test_cursors_of_another_workspace(locked_both: Locked) -> None:
    """U7: a cursor of the same request in another workspace is refused."""
    red, blue = await locked_both.headers("red"), await locked_both.headers("blue")
    for headers, mark in ((red, "red"), (blue, "blue")):
        await fill(locked_both, headers, mark, 6)
    body = {"query": "threshold sill", "limit": 2}
    for path, asked in (
        ("/v1/retrieve", body),
        ("/v1/selection/passages", {"option_ids": ["cold"], "limit": 1}),
    ):
        first = read(await locked_both.send("POST", path, red, asked))
        cursor = first["next_cursor"]
        assert cursor
        goes_on = {**asked, "cursor": cursor}
        assert (await locked_both.send("POST", path, red, goes_on)).status_code == 200
        assert_problem(await locked_both.send("POST", path, blue, goes_on), 400, "invalid_cursor")


async def test_writes_stay_where_they_are_made(locked_both: Locked) -> None:
    """U18: retiring, superseding, deciding and replacing touches no row of another workspace with the same ids."""
    red, blue = await locked_both.headers("red"), await locked_both.headers("blue")
    for headers, mark in ((red, "red"), (blue, "blue")):
        await fill(locked_both, headers, mark, 4)
    watched = [call for call in calls() if call[0] == "GET" or "/v1/retrieve" in call[1]]
    before = [
        (await locked_both.send(method, path, blue, body)).content for method, path, body in watched[:2]
    ]
    tags = read(await locked_both.send("GET", "/v1/facet-tags", red))["results"]
    assert isinstance(tags, list)
    for method, path, body in (
        ("POST", "/v1/items/doc0/retire", None),
        ("POST", "/v1/items/doc1/supersede", {"by": "doc2"}),
        ("POST", f"/v1/facet-tags/{tags[0]['tag_id']}/reject", None),
        ("PUT", "/v1/vocabulary", {}),
        ("POST", "/v1/items", document("doc3", "the threshold sill is new", item_id="doc3b")),
    ):
        assert (await locked_both.send(method, path, red, body)).status_code in (200, 201)
    after = [(await locked_both.send(method, path, blue, body)).content for method, path, body in watched[:2]]
    assert after == before
    assert "climate blue" in (await locked_both.send("GET", "/v1/vocabulary", blue)).text
    assert read(await locked_both.send("GET", "/v1/items/doc0", blue))["retired_at"] is None


async def test_not_found_and_not_yours_are_the_same(locked_both: Locked) -> None:
    """U18: another workspace's id costs the same statements and gets the same answer as one that is nowhere."""
    red, blue = await locked_both.headers("red"), await locked_both.headers("blue")
    await fill(locked_both, blue, "blue", 3)
    await locked_both.send("POST", "/v1/items", red, document("mine", "a sill"))
    tags = read(await locked_both.send("GET", "/v1/facet-tags", blue))["results"]
    assert isinstance(tags, list)
    foreign_tag = str(tags[0]["tag_id"])
    pairs = [
        (("GET", "/v1/items/doc1", None), ("GET", "/v1/items/docx", None)),
        (("GET", "/v1/items/doc1/supersession", None), ("GET", "/v1/items/docx/supersession", None)),
        (("POST", "/v1/items/doc1/retire", None), ("POST", "/v1/items/docx/retire", None)),
        (
            ("POST", "/v1/items/mine/supersede", {"by": "doc1"}),
            ("POST", "/v1/items/mine/supersede", {"by": "docx"}),
        ),
        (
            ("POST", f"/v1/facet-tags/{foreign_tag}/accept", None),
            ("POST", "/v1/facet-tags/tag-x/accept", None),
        ),
        (("GET", "/v1/facet-tags?item_id=doc1", None), ("GET", "/v1/facet-tags?item_id=docx", None)),
        (("GET", "/v1/systems/sl45/passages", None), ("GET", "/v1/systems/slxx/passages", None)),
    ]
    for foreign, nowhere in pairs:
        seen = []
        for method, path, body in (foreign, nowhere):
            await locked_both.send(method, path, red, body)  # whatever is remembered is remembered now
            with statements(locked_both) as said:
                answer = await locked_both.send(method, path, red, body)
            text = _without_id(answer.text, answer.headers)
            for name in ("doc1", "docx", foreign_tag, "tag-x", "sl45", "slxx"):
                text = text.replace(name, "…")
            seen.append((answer.status_code, text, tuple(said)))
        assert seen[0] == seen[1], foreign


@contextmanager
def statements(service: Locked) -> Iterator[list[str]]:
    """The SQL that is sent while the block runs."""
    said: list[str] = []
    engines = service.application.store.engines
    watched = [engine.sync_engine for engine in (engines.read, engines.glance, engines.write)]

    def hear(*told: object) -> None:
        said.append(str(told[2]))

    for engine in watched:
        event.listen(engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        for engine in watched:
            event.remove(engine, "before_cursor_execute", hear)


async def test_a_reader_sees_nothing_of_the_instance(locked: Locked) -> None:
    """U18: counts over all workspaces are for operators; health tells a stranger states only."""
    reader = await locked.headers("red", scopes=frozenset({KeyScope.READ, KeyScope.WRITE}))
    await fill(locked, await locked.headers("blue", scopes=ALL), "blue", 3)
    assert_problem(await locked.send("GET", "/metrics", reader), 403, "forbidden")
    assert_problem(await locked.send("GET", "/v1/flag/shadow-report", reader), 403, "forbidden")
    for path in ("/health/live", "/health/ready"):
        text = (await locked.send("GET", path, reader)).text
        assert "blue" not in text
        assert not any(character.isdigit() for character in text)
