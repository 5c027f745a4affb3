"""Short ways to say what a test sends, and to read what it got."""

import json
from collections.abc import Iterable, Mapping

import httpx

from tests.http.conftest import Client

Json = dict[str, object]

FETCHED = "2026-01-02T03:04:05Z"
VOCABULARY: Json = {
    "systems": [
        {
            "system_id": "sl45",
            "name": "Folding wall SL45",
            "operation_type": "folding",
            "material": "aluminium",
            "interior_exterior": "exterior",
            "use_cases": ["terrace"],
        },
        {"system_id": "old", "name": "Retired slider", "retired_at": "2020-01-01T00:00:00Z"},
    ],
    "attributes": [{"attribute_id": "thermal", "name": "thermal insulation"}],
    "factors": [{"factor_id": "climate", "name": "climate zone"}],
    "options": [
        {
            "option_id": "cold",
            "factor_id": "climate",
            "label": "freezing winters",
            "value": "alpine",
            "attribute_ids": ["thermal"],
        },
        {"option_id": "mild", "factor_id": "climate", "label": "mild seasons"},
    ],
}


def document(name: str, *texts: str, **changes: object) -> Json:
    """A capture of the upload `name` with one passage a text; its item id is the name."""
    return {
        "item_id": name,
        "title": "A document",
        "content_type": "tech-doc",
        "source_type": "upload",
        "source_filename": f"{name}.md",
        "version": "v1",
        "fetched_at": FETCHED,
        "passages": [{"text": text} for text in texts],
        **changes,
    }


def page(name: str, *texts: str, **changes: object) -> Json:
    """A capture of the web page `name`."""
    web = {"source_type": "url", "source_url": f"https://example.com/{name}", "source_filename": None}
    return document(name, *texts, **{**web, **changes})


def ndjson(bodies: Iterable[Mapping[str, object]]) -> bytes:
    """One JSON value a line."""
    return b"".join(json.dumps(body).encode() + b"\n" for body in bodies)


async def store(client: Client, *bodies: Json) -> None:
    """Store captures one by one."""
    for body in bodies:
        answer = await client.post("/v1/items", json=body)
        assert answer.status_code in (200, 201), answer.text[:500]


async def ask(client: Client, query: str, **options: object) -> Json:
    """The answer to a free-text retrieval."""
    answer = await client.post("/v1/retrieve", json={"query": query, **options})
    assert answer.status_code == 200, answer.text[:500]
    return read(answer)


async def put_vocabulary(client: Client, vocabulary: Json = VOCABULARY) -> None:
    """Put the sample vocabulary, or another."""
    answer = await client.put("/v1/vocabulary", json=vocabulary)
    assert answer.status_code == 200, answer.text[:500]


def read(answer: httpx.Response) -> Json:
    """A JSON object."""
    body = answer.json()
    assert isinstance(body, dict)
    return body


def results(body: Json) -> list[Json]:
    """The hits of an answer."""
    found = body["results"]
    assert isinstance(found, list)
    return found


def item_ids(body: Json) -> list[object]:
    """The item ids of the hits, in order."""
    return [_object(hit["provenance"])["item_id"] for hit in results(body)]


def passage_ids(body: Json) -> list[object]:
    """The passage ids of the hits, in order."""
    return [hit["passage_id"] for hit in results(body)]


def part(body: Json, *path: str) -> Json:
    """An object inside an object."""
    for name in path:
        body = _object(body[name])
    return body


def _object(value: object) -> Json:
    assert isinstance(value, dict)
    return value


def assert_problem(answer: httpx.Response, status: int, code: str) -> Json:
    """That an answer is RFC 9457 problem details with this status and code; gives its body."""
    body = read(answer)
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "request_id"} <= body.keys()
    assert body.keys() <= {"type", "title", "status", "detail", "code", "request_id", "field", "errors"}
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:citewell:problem:{code}"
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return body
