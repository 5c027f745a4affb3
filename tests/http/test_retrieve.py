"""The three ways to retrieve, over HTTP."""

from datetime import datetime

import httpx
import pytest

from tests.http.calls import (
    FETCHED,
    Json,
    ask,
    assert_problem,
    document,
    item_ids,
    ndjson,
    page,
    part,
    passage_ids,
    put_vocabulary,
    read,
    results,
    store,
)
from tests.http.conftest import Client

pytestmark = pytest.mark.anyio

PROVENANCE = {
    "item_id",
    "title",
    "content_type",
    "source_type",
    "source_url",
    "source_url_ok",
    "source_filename",
    "resource_types",
    "version",
    "fetched_at",
}
ENVELOPE = {"results", "shown", "has_more", "next_cursor", "next_action", "arms"}
SELECTED: Json = {"option_ids": ["cold"]}
WALKS: tuple[tuple[str, str, Json], ...] = (
    ("POST", "/v1/retrieve", {"query": "aluminium winters"}),
    ("POST", "/v1/selection/passages", SELECTED),
    ("GET", "/v1/systems/sl45/passages", {}),
)

MISSES: tuple[tuple[str, str, Json], ...] = (
    ("GET", "/v1/systems/nobody/passages", {}),
    ("GET", "/v1/systems/%00/passages", {}),
    ("POST", "/v1/selection/passages", {"option_ids": []}),
    ("POST", "/v1/selection/passages", {"option_ids": ["nobody", "\x00", ""]}),
    ("POST", "/v1/retrieve", {"query": "unheard"}),
    ("POST", "/v1/retrieve", {"query": ""}),
    ("POST", "/v1/retrieve", {"query": " \t\n "}),
    ("POST", "/v1/retrieve", {"query": "?!… ()"}),
    ("POST", "/v1/retrieve", {"query": "sill", "content_type": "blog"}),
)


async def send(client: Client, method: str, path: str, fields: Json) -> httpx.Response:
    """A request with its fields in the body, or in the query of a GET."""
    if method == "GET":
        query = {name: str(value).lower() if value is True else str(value) for name, value in fields.items()}
        return await client.get(path, params=query)
    return await client.request(method, path, json=fields)


async def fill(client: Client, documents: int = 25) -> None:
    """A corpus in which every walk of WALKS has more than a page, with many equal scores."""
    await put_vocabulary(client)
    same = "aluminium folding wall for freezing winters"
    bodies = (document(f"d{n:02}", same, same, "aluminium winters " * (n + 1)) for n in range(documents))
    await client.post("/v1/items/import", content=ndjson(bodies))


async def follow(client: Client, step: Json) -> httpx.Response:
    """The answer to a next action's HTTP call, sent exactly as it stands."""
    call = part(step, "http")
    method, path = str(call["method"]), str(call["path"])
    if call["body"] is None:
        return await client.request(method, path)
    return await client.request(method, path, json=call["body"])


async def test_by_system(http: Client) -> None:
    """C5: a system's name, id and faceting words find passages, and a retired system still retrieves."""
    await put_vocabulary(http)
    await store(
        http,
        document("name", "the folding wall"),
        document("id", "SL45 sill"),
        document("material", "aluminium frame"),
        document("case", "on a terrace"),
        document("place", "exterior paint"),
        document("other", "SL4500 rollers"),
        document("slider", "a slider track"),
    )
    found = read(await http.get("/v1/systems/sl45/passages"))
    assert set(item_ids(found)) == {"name", "id", "material", "case", "place"}
    assert item_ids(read(await http.get("/v1/systems/old/passages"))) == ["slider"]


async def test_by_selection(http: Client) -> None:
    """C6: option labels and values, factor names and the names of influenced attributes find passages."""
    await put_vocabulary(http)
    await store(
        http,
        document("label", "freezing nights"),
        document("value", "alpine villages"),
        document("factor", "any climate"),
        document("attribute", "insulation values"),
        document("other", "seasons of the year"),
    )
    found = read(await http.post("/v1/selection/passages", json=SELECTED))
    assert set(item_ids(found)) == {"label", "value", "factor", "attribute"}
    both = read(await http.post("/v1/selection/passages", json={"option_ids": ["mild", "cold", "unknown"]}))
    assert set(item_ids(both)) == {"label", "value", "factor", "attribute", "other"}


async def test_by_query(http: Client) -> None:
    """C7: free text finds passages, the better match first."""
    await store(http, document("a", "the sill drains"), document("b", "the sill of the SL45 drains outward"))
    assert item_ids(await ask(http, "SL45 sill")) == ["b", "a"]


async def test_options(http: Client) -> None:
    """C8: the limit is 8 unless stated, and content_type narrows the answer on every route."""
    await fill(http)
    await store(http, document("post", "aluminium freezing", content_type="blog"))
    for method, path, fields in WALKS:
        assert read(await send(http, method, path, fields))["shown"] == 8
        assert read(await send(http, method, path, {**fields, "limit": 3}))["shown"] == 3
        narrowed = read(await send(http, method, path, {**fields, "content_type": "blog"}))
        assert item_ids(narrowed) == ["post"]


async def test_a_miss_is_empty(http_both: Client) -> None:
    """C9: what nothing matches is an empty list and no error, on both databases."""
    await put_vocabulary(http_both)
    await store(http_both, document("a", "the sill drains"))
    for method, path, fields in MISSES:
        answer = await send(http_both, method, path, fields)
        assert answer.status_code == 200, answer.text
        body = read(answer)
        assert (body["results"], body["shown"], body["has_more"], body["next_cursor"]) == ([], 0, False, None)


async def test_result_shape(http: Client) -> None:
    """C10: a hit has the ten fields of provenance and its own, and `explain` only when asked."""
    await store(
        http,
        page(
            "sill",
            "the sill drains",
            source_url_ok=True,
            resource_types=["Guide"],
            fetched_at="2026-01-02T04:04:05+01:00",
            passages=[{"seq": 7, "heading": "Sills", "text": "the sill drains"}],
        ),
    )
    (hit,) = results(await ask(http, "sill"))
    assert hit.keys() == {"passage_id", "heading", "seq", "text", "score", "provenance"}
    assert (hit["passage_id"], hit["heading"], hit["seq"]) == ("sill#7", "Sills", 7)
    assert part(hit, "provenance") == {
        "item_id": "sill",
        "title": "A document",
        "content_type": "tech-doc",
        "source_type": "url",
        "source_url": "https://example.com/sill",
        "source_url_ok": True,
        "source_filename": None,
        "resource_types": ["Guide"],
        "version": "v1",
        "fetched_at": FETCHED,
    }
    (explained,) = results(await ask(http, "sill", explain=True))
    assert part(explained, "explain")["lexical_rank"] == 1


async def test_provenance_is_never_partial(http: Client) -> None:
    """C10: fields without a value are null, not absent, and the time is ISO 8601 in UTC."""
    await store(http, {key: value for key, value in document("a", "sill").items() if key != "fetched_at"})
    (hit,) = results(await ask(http, "sill"))
    assert part(hit, "provenance").keys() == PROVENANCE
    assert hit["heading"] is None
    moment = datetime.fromisoformat(str(part(hit, "provenance")["fetched_at"]))
    assert moment.utcoffset() is not None


async def test_scores(http: Client) -> None:
    """C11: every score is above 0, and none is greater than the one before it."""
    await fill(http)
    for method, path, fields in WALKS:
        scores = [
            hit["score"] for hit in results(read(await send(http, method, path, {**fields, "limit": 200})))
        ]
        assert all(isinstance(score, float) and score > 0 for score in scores)
        assert scores == sorted(scores, key=lambda score: -float(str(score)))


@pytest.mark.parametrize(("method", "path", "fields"), WALKS)
async def test_prefix_and_pages(http: Client, method: str, path: str, fields: Json) -> None:
    """C13: a smaller limit gives a prefix of a larger one, and the pages together give the one-shot list."""
    await fill(http)
    whole = passage_ids(read(await send(http, method, path, {**fields, "limit": 200})))
    assert len(whole) == 75
    for limit in (1, 2, 7, 8, 50):
        assert passage_ids(read(await send(http, method, path, {**fields, "limit": limit}))) == whole[:limit]
    walked: list[object] = []
    cursor: Json = {}
    while True:
        body = read(await send(http, method, path, {**fields, "limit": 9, **cursor}))
        walked += passage_ids(body)
        if not body["has_more"]:
            break
        cursor = {"cursor": body["next_cursor"]}
    assert walked == whole


@pytest.mark.parametrize(("method", "path", "fields"), WALKS)
async def test_next_action_pages(http: Client, method: str, path: str, fields: Json) -> None:
    """U5: following next_action as it stands walks all pages and then reads the best item of the last one."""
    await fill(http)
    narrowed = {**fields, "limit": 20, "content_type": "tech-doc", "view": "summary", "explain": True}
    body = read(await send(http, method, path, narrowed))
    walked = passage_ids(body)
    while part(body, "next_action")["do"] == "next_page":
        answer = await follow(http, part(body, "next_action"))
        assert answer.status_code == 200, answer.text
        body = read(answer)
        assert all("explain" in hit for hit in results(body))
        walked += passage_ids(body)
    assert walked == passage_ids(read(await send(http, method, path, {**fields, "limit": 200})))
    assert part(body, "next_action")["do"] == "read_item"
    assert read(await follow(http, part(body, "next_action")))["item_id"] == item_ids(body)[0]


@pytest.mark.parametrize(("method", "path", "fields"), WALKS)
async def test_next_action_of_a_miss(http: Client, method: str, path: str, fields: Json) -> None:
    """U5: a miss that a filter may have caused leads to the same request without it."""
    await fill(http, documents=1)
    body = read(await send(http, method, path, {**fields, "content_type": "blog"}))
    assert body["results"] == []
    assert read(await follow(http, part(body, "next_action")))["shown"] == 3


async def test_envelope(http: Client) -> None:
    """U2: an answer has these fields and no others, and says which arms ran and why not."""
    await store(http, document("a", "sill"))
    body = await ask(http, "sill")
    assert body.keys() == ENVELOPE
    assert part(body, "next_action").keys() == {"do", "http", "cli"}
    assert part(body, "next_action", "http").keys() == {"method", "path", "body"}


async def test_arms(http: Client) -> None:
    """C27: with the flag off the answer is the lexical one, a success, and says so."""
    await store(http, document("a", "sill"))
    assert (await ask(http, "sill"))["arms"] == {
        "lexical": {"state": "ran", "source": "index"},
        "vector": {"state": "off", "reason": "off"},
    }


async def test_cursors_are_bound(http: Client) -> None:
    """U7: a cursor of another query, another filter or another route is refused."""
    await fill(http)
    cursor = (await ask(http, "aluminium", limit=2))["next_cursor"]
    for body in (
        {"query": "winters", "cursor": cursor},
        {"query": "aluminium", "cursor": cursor, "content_type": "tech-doc"},
        {"query": "aluminium", "cursor": f"{cursor}x"},
        {"query": "aluminium", "cursor": ""},
        {"query": "aluminium", "cursor": "é" * 5_000},
    ):
        assert_problem(await http.post("/v1/retrieve", json=body), 400, "invalid_cursor")
    assert_problem(
        await http.post("/v1/selection/passages", json={**SELECTED, "cursor": cursor}), 400, "invalid_cursor"
    )
    answer = await http.get("/v1/systems/sl45/passages", params={"cursor": str(cursor)})
    assert_problem(answer, 400, "invalid_cursor")


async def test_a_changed_corpus_is_said(http: Client) -> None:
    """U7: a page whose cursor is older than the corpus says so, and only such a page."""
    await fill(http, documents=3)
    first = await ask(http, "aluminium", limit=2)
    unchanged = await ask(http, "aluminium", limit=2, cursor=first["next_cursor"])
    assert "corpus_changed" not in first
    assert "corpus_changed" not in unchanged
    await store(http, document("new", "aluminium"))
    changed = await ask(http, "aluminium", limit=2, cursor=first["next_cursor"])
    assert changed["corpus_changed"] is True


async def test_views(http: Client) -> None:
    """U3: the summary cuts a long text between words and says so; brief and full show all of it."""
    text = "sill " * 200
    await store(http, document("a", text))
    (summary,) = results(await ask(http, "sill", view="summary"))
    assert summary["text_truncated"] is True
    assert len(str(summary["text"])) <= 280
    for view in ("brief", "full"):
        (hit,) = results(await ask(http, "sill", view=view))
        assert hit["text"] == text
        assert "text_truncated" not in hit


async def test_same_bytes(http: Client) -> None:
    """C12: the same request to the same corpus gives the same bytes; times are in a header."""
    await fill(http, documents=4)
    asked = {"query": "aluminium winters", "explain": True}
    answers = [await http.post("/v1/retrieve", json=asked) for _ in range(3)]
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].headers["server-timing"].startswith("total;dur=")


async def test_no_answer_holds_more_than_200_hits(http: Client) -> None:
    """U3: an answer is bounded by 200 hits, and the limit may not ask for more."""
    await store(http, document("a", *(f"sill number {n}" for n in range(230))))
    body = await ask(http, "sill", limit=200)
    assert (body["shown"], body["has_more"]) == (200, True)
    assert_problem(
        await http.post("/v1/retrieve", json={"query": "sill", "limit": 201}), 400, "invalid_limit"
    )


async def test_stale_items_are_gone(http_both: Client) -> None:
    """C14: a retired and a superseded item are in no answer from the moment the write is acknowledged."""
    await put_vocabulary(http_both)
    await store(http_both, document("a", "SL45 sill"), document("b", "SL45 jamb"), document("c", "SL45 head"))
    await http_both.post("/v1/items/a/retire")
    await http_both.post("/v1/items/b/supersede", json={"by": "c"})
    assert item_ids(await ask(http_both, "SL45")) == ["c"]
    assert item_ids(read(await http_both.get("/v1/systems/sl45/passages"))) == ["c"]
