"""Items: capture, read, trace, retire, supersede."""

import asyncio

import pytest

from tests.http.calls import Json, ask, assert_problem, document, item_ids, page, part, read, results, store
from tests.http.conftest import Client, SteadyClient

pytestmark = pytest.mark.anyio

MARKDOWN = "# SL45\n\nThe sill drains outward.\n\n## Rollers\n\nSL4500 rollers are stainless.\n"


async def test_a_new_capture_is_created(http_both: Client) -> None:
    """A new item is 201 with its place; the same capture again is 200 and unchanged."""
    created = await http_both.post("/v1/items", json=document("a", "sill", "jamb"))
    assert created.status_code == 201
    assert created.headers["location"] == "/v1/items/a"
    assert read(created) == {"item_id": "a", "superseded": None, "unchanged": False, "passages": 2}
    again = await http_both.post("/v1/items", json=document("a", "sill", "jamb"))
    assert again.status_code == 200
    assert read(again) == {"item_id": "a", "superseded": None, "unchanged": True, "passages": 2}


async def test_a_capture_without_an_id_gets_one(http: Client) -> None:
    """An item id is given by the service where the capture names none, and leads to the item."""
    body = {name: value for name, value in document("a", "sill").items() if name != "item_id"}
    created = await http.post("/v1/items", json=body)
    stored = await http.get(created.headers["location"])
    assert read(stored)["item_id"] == read(created)["item_id"]


async def test_recapture_supersedes(http_both: Client) -> None:
    """C16: a new version of a source takes the old one's place whole, and a shorter one leaves no tail."""
    await store(http_both, page("x", "old sill", "tail of the sill"))
    answer = await http_both.post(
        "/v1/items", json={**page("x", "new sill"), "item_id": "x2", "version": "v2"}
    )
    assert part(read(answer))["superseded"] == "x"
    found = await ask(http_both, "sill")
    assert [hit["text"] for hit in results(found)] == ["new sill"]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("markdown", MARKDOWN),
        (
            "html",
            "<main><h1>SL45</h1><p>The sill drains outward.</p><h2>Rollers</h2><p>SL4500 rollers rust.</p></main>",
        ),
        ("text", "The sill drains outward.\n\nSL4500 rollers are stainless.\n"),
    ],
)
async def test_text_is_split(http: Client, form: str, text: str) -> None:
    """A capture may bring its text instead of passages, in each of the three formats."""
    body = {name: value for name, value in document("a").items() if name != "passages"}
    await store(http, {**body, "text": text, "format": form})
    assert item_ids(await ask(http, "SL4500 rollers")) == ["a"]
    assert item_ids(await ask(http, "drains outward")) == ["a"]


async def test_text_is_unicode_whatever_it_states(http: Client) -> None:
    """Text in JSON is Unicode already: an encoding that the page states for its bytes is not applied to it."""
    body = {name: value for name, value in document("a").items() if name != "passages"}
    text = '<html><head><meta charset="iso-8859-1"></head><body><p>Wärme hält</p></body></html>'
    await store(http, {**body, "text": text, "format": "html"})
    (hit,) = results(await ask(http, "Wärme"))
    assert hit["text"] == "Wärme hält"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"text": "a", "format": "text"}, "invalid_input"),
        ({"passages": None}, "invalid_input"),
        ({"passages": None, "text": "a"}, "invalid_input"),
        ({"passages": None, "text": "a", "format": "pdf"}, "invalid_input"),
        ({"passages": None, "format": "text"}, "invalid_input"),
        ({"passages": []}, "empty_document"),
        ({"passages": None, "text": " ", "format": "markdown"}, "empty_document"),
        ({"passages": [{"text": " "}]}, "invalid_input"),
        ({"passages": [{"text": "a", "seq": 1}, {"text": "b", "seq": 1}]}, "invalid_input"),
        ({"passages": [{"text": "a", "seq": -1}]}, "invalid_input"),
        ({"passages": [{"text": "a", "seq": 10**30}]}, "invalid_input"),
        ({"passages": [{"text": "a\x00b"}]}, "invalid_text"),
        ({"passages": [{"text": "a", "colour": "red"}]}, "invalid_input"),
        ({"passages": "a"}, "invalid_input"),
        ({"title": " "}, "invalid_input"),
        ({"title": 5}, "invalid_input"),
        ({"content_type": "book"}, "unknown_content_type"),
        ({"content_type": None}, "unknown_content_type"),
        ({"source_type": "fax"}, "invalid_input"),
        ({"source_filename": None}, "invalid_input"),
        ({"source_type": "url"}, "invalid_input"),
        ({"source_type": "url", "source_url": "file:///etc/passwd"}, "invalid_input"),
        ({"source_type": "url", "source_url": "javascript:alert(1)"}, "invalid_input"),
        ({"source_url_ok": "yes"}, "invalid_input"),
        ({"item_id": ""}, "invalid_input"),
        ({"item_id": "a/b"}, "invalid_input"),
        ({"item_id": "a\x00"}, "invalid_input"),
        ({"fetched_at": "2026-01-01T00:00:00"}, "invalid_input"),
        ({"fetched_at": "0001-01-01T00:00:00+23:59"}, "invalid_input"),
        ({"fetched_at": "yesterday"}, "invalid_input"),
        ({"version": ""}, "invalid_input"),
        ({"workspace": "another"}, "invalid_input"),
    ],
)
def test_a_bad_capture_is_refused(steady: SteadyClient, changes: Json, code: str) -> None:
    """C9: a capture that cannot be stored is a clear 400, and nothing of it is stored."""
    answer = steady.post("/v1/items", json={**document("a", "sill"), **changes})
    assert_problem(answer, 400, code)
    assert steady.get("/v1/items/a").status_code == 404


async def test_too_large_a_passage(http: Client) -> None:
    """A passage over its bound is 413."""
    assert_problem(await http.post("/v1/items", json=document("a", "x" * 200_001)), 413, "too_large")


async def test_an_id_is_never_rewritten(http: Client) -> None:
    """An item id that other content has is a conflict."""
    await store(http, document("a", "sill"))
    answer = await http.post("/v1/items", json=document("a", "other", source_filename="other.md"))
    assert_problem(answer, 409, "item_exists")


async def test_items_and_chains_are_readable_stale_or_not(http_both: Client) -> None:
    """C17: a stale item is readable whole, leads to its successor, and its chain resolves to the head."""
    for number in (1, 2, 3):
        await store(http_both, {**page("x", f"sill {number}"), "item_id": f"x{number}"})
    item = read(await http_both.get("/v1/items/x1"))
    assert (item["stale"], item["superseded_by"]) == (True, "x2")
    assert item["passages"] == [{"seq": 0, "heading": None, "text": "sill 1", "scorable": True}]
    assert part(item, "next_action", "http") == {"method": "GET", "path": "/v1/items/x2", "body": None}
    for name in ("x1", "x2", "x3"):
        chain = read(await http_both.get(f"/v1/items/{name}/supersession"))
        assert (chain["item_id"], chain["head"]) == (name, "x3")
        links = chain["chain"]
        assert isinstance(links, list)
        assert [link["item_id"] for link in links] == ["x1", "x2", "x3"]
    live = read(await http_both.get("/v1/items/x3"))
    assert (live["stale"], live["next_action"]) == (False, None)


async def test_retire(http_both: Client) -> None:
    """C14: retiring makes an item stale at once; doing it again changes nothing. A body may be absent or {}."""
    await store(http_both, document("a", "sill"))
    assert read(await http_both.post("/v1/items/a/retire")) == {"item_id": "a", "changed": True}
    assert (await ask(http_both, "sill"))["results"] == []
    assert read(await http_both.post("/v1/items/a/retire", json={})) == {"item_id": "a", "changed": False}
    assert read(await http_both.get("/v1/items/a"))["retired_at"] is not None


async def test_supersede(http_both: Client) -> None:
    """C17: an item is pointed at its successor once; a cycle and a second successor are refused."""
    await store(http_both, document("a", "sill"), document("b", "jamb"), document("c", "head"))
    done = await http_both.post("/v1/items/a/supersede", json={"by": "b"})
    assert read(done) == {"item_id": "a", "changed": True, "superseded_by": "b"}
    again = await http_both.post("/v1/items/a/supersede", json={"by": "b"})
    assert read(again) == {"item_id": "a", "changed": False, "superseded_by": "b"}
    cycle = await http_both.post("/v1/items/b/supersede", json={"by": "a"})
    assert_problem(cycle, 409, "supersession_cycle")
    itself = await http_both.post("/v1/items/b/supersede", json={"by": "b"})
    assert_problem(itself, 409, "supersession_cycle")
    other = await http_both.post("/v1/items/a/supersede", json={"by": "c"})
    assert_problem(other, 409, "already_superseded")


async def test_unknown_items(http_both: Client) -> None:
    """An item that is not there is 404 on every route, whatever its id is made of, on both databases."""
    await store(http_both, document("b", "jamb"))
    for item_id in ("nobody", "a%00b", "%ff", "a b", "..%2e", "a" * 5_000, "%F0%9F%9A%AA"):
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/supersession", None),
            ("POST", "/retire", None),
            ("POST", "/supersede", {"by": "b"}),
        ):
            answer = await http_both.request(method, f"/v1/items/{item_id}{path}", json=body)
            assert_problem(answer, 404, "item_not_found")


async def test_unknown_successors(http_both: Client) -> None:
    """A successor that is not there is refused, and the item stays live."""
    await store(http_both, document("a", "sill"))
    for by, status in (("nobody", 404), ("a\x00", 400), ("", 404)):
        answer = await http_both.post("/v1/items/a/supersede", json={"by": by})
        assert answer.status_code == status
    assert item_ids(await ask(http_both, "sill")) == ["a"]


async def test_concurrent_captures_of_one_source(http_both: Client) -> None:
    """C16: of many captures of one source at once, one is live in the end and all are in one chain."""
    bodies = [{**page("x", f"sill {number}"), "item_id": f"x{number}"} for number in range(8)]
    answers = await asyncio.gather(*(http_both.post("/v1/items", json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {201}
    (hit,) = results(await ask(http_both, "sill"))
    head = part(hit, "provenance")["item_id"]
    chain = read(await http_both.get(f"/v1/items/{head}/supersession"))
    links = chain["chain"]
    assert isinstance(links, list)
    assert len(links) == 8
    assert links[-1]["item_id"] == head
