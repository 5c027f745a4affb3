"""Everything a caller can get wrong, and everything a text can be made of: an answer or a clear 4xx."""

import json

import pytest

from tests.http.calls import Json, assert_problem, read
from tests.http.conftest import SteadyClient

RETRIEVE = "/v1/retrieve"
SELECTION = "/v1/selection/passages"
SYSTEM = "/v1/systems/sl45/passages"
BAD_LIMITS = [
    "true",
    "false",
    "null",
    "0",
    "-1",
    "201",
    "8.0",
    "8.5",
    "1e1",
    "1e9",
    "1e999",
    '"8"',
    '""',
    "[]",
    "{}",
    "99999999999999999999999999",
]


@pytest.mark.parametrize("limit", BAD_LIMITS)
@pytest.mark.parametrize("asked", [("/v1/retrieve", '"query": "sill"'), (SELECTION, '"option_ids": ["a"]')])
def test_a_bad_limit_in_a_body(steady: SteadyClient, asked: tuple[str, str], limit: str) -> None:
    """C9: a limit that is no whole number from 1 to 200 is a 400 that says so, never an empty list."""
    path, subject = asked
    answer = steady.post(path, content=f'{{{subject}, "limit": {limit}}}')
    assert assert_problem(answer, 400, "invalid_limit")["field"] == "limit"


@pytest.mark.parametrize(
    "limit", ["0", "-1", "201", "8.0", "1e1", "true", "", "+8", " 8", "٨", "9" * 50, "0x8"]
)
def test_a_bad_limit_in_a_query(steady: SteadyClient, limit: str) -> None:
    """C9: the same rule holds where the limit stands in the query string."""
    assert_problem(steady.get(SYSTEM, params={"limit": limit}), 400, "invalid_limit")


@pytest.mark.parametrize("content_type", ["book", "PDP", "", " pdp", 5, True, [], "pdp\x00"])
def test_a_bad_content_type(steady: SteadyClient, content_type: object) -> None:
    """C9: an unknown content type is a 400 that lists the known ones, on every route."""
    for path, subject in ((RETRIEVE, {"query": ""}), (SELECTION, {"option_ids": []})):
        answer = steady.post(path, json={**subject, "content_type": content_type})
        assert "tech-doc" in str(assert_problem(answer, 400, "unknown_content_type")["detail"])
    if isinstance(content_type, str):
        assert_problem(steady.get(SYSTEM, params={"content_type": content_type}), 400, "unknown_content_type")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RETRIEVE, {}),
        (RETRIEVE, {"query": None}),
        (RETRIEVE, {"query": 5}),
        (RETRIEVE, {"query": ["sill"]}),
        (RETRIEVE, {"query": "sill", "Limit": 5}),
        (RETRIEVE, {"query": "sill", "workspace": "other"}),
        (RETRIEVE, {"query": "sill", "view": "all"}),
        (RETRIEVE, {"query": "sill", "explain": "yes"}),
        (RETRIEVE, {"query": "sill", "explain": 1}),
        (RETRIEVE, {"query": "sill", "cursor": 5}),
        (RETRIEVE, []),
        (RETRIEVE, "sill"),
        (RETRIEVE, None),
        (SELECTION, {}),
        (SELECTION, {"option_ids": None}),
        (SELECTION, {"option_ids": "a"}),
        (SELECTION, {"option_ids": [5]}),
        (SELECTION, {"option_ids": ["a"] * 10_001}),
        (SELECTION, {"option_ids": [], "query": "sill"}),
        ("/v1/selection/evidence", {}),
        ("/v1/selection/hand-off", {"options": []}),
        ("/v1/items", {}),
        ("/v1/items/a/supersede", {}),
        ("/v1/items/a/supersede", {"by": "b", "why": "c"}),
        ("/v1/items/a/retire", {"by": "b"}),
        ("/v1/facet-tags", {}),
    ],
)
def test_a_bad_body(steady: SteadyClient, path: str, body: object) -> None:
    """U16: a missing, unknown or ill-typed field is a 400 with a message that names it."""
    assert_problem(steady.post(path, json=body), 400, "invalid_input")


@pytest.mark.parametrize(
    "query",
    ["zzz=1", "Limit=5", "limit=5&zzz", "view=all", "explain=maybe", "explain=", "limit=5&limit=6", "=1"],
)
def test_a_bad_query_string(steady: SteadyClient, query: str) -> None:
    """U16: an unknown, repeated or malformed query parameter is a 400 with a message."""
    assert_problem(steady.get(f"{SYSTEM}?{query}"), 400, "invalid_input")


@pytest.mark.parametrize(
    "path", [RETRIEVE, "/v1/items", "/v1/vocabulary", "/health/live", "/health/ready", "/metrics", "/schema"]
)
def test_query_strings_where_none_belong(steady: SteadyClient, path: str) -> None:
    """U16: a route without query parameters refuses every one."""
    method = {RETRIEVE: "POST", "/v1/items": "POST"}.get(path, "GET")
    body: Json | None = {"query": ""} if method == "POST" else None
    assert_problem(steady.request(method, f"{path}?page=2", json=body), 400, "invalid_input")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_input"),
        (b" ", "invalid_input"),
        (b"{", "invalid_input"),
        (b"query=sill", "invalid_input"),
        (b"null", "invalid_input"),
        (b'{"query": "sill",}', "invalid_input"),
        (b'{"query": NaN}', "invalid_input"),
        (b'{"query": "a\x00b"}', "invalid_input"),
        (b"[" * 200_000, "invalid_input"),
        (b'{"query": ' + b"[" * 200_000, "invalid_input"),
        (b'{"query": ' + b'{"a":' * 200_000, "invalid_input"),
        (b'{"query": "\xff"}', "invalid_text"),
        (b'{"query": "\xed\xa0\x80"}', "invalid_text"),
        (b'{"query": "\\ud800"}', "invalid_text"),
        (b'{"query": "\\udc00 sill"}', "invalid_text"),
        (b'{"query": "\\ud800\\u0041"}', "invalid_text"),
        (b"\xff\xfe{\x00}\x00", "invalid_input"),
    ],
)
def test_a_body_that_is_no_json(steady: SteadyClient, content: bytes, code: str) -> None:
    """C21: bytes that are no JSON, no UTF-8 or half of a surrogate pair are a 400."""
    assert_problem(steady.post(RETRIEVE, content=content), 400, code)


@pytest.mark.parametrize(
    "query",
    [
        'title:"SL45" OR body:* AND NOT (x~2)^3 +must -never [a TO z] {b TO c} \\ / regex.*',
        "'; DROP TABLE items; --",
        "100% _ % \\% ? :name $1 @@ <> && || !",
        "NUL \x00 inside",
        "control \x01\x1b[31m\x7f\u2028\u2029\ufffe",
        "🚪🪟👩‍👩‍👧‍👦 \U0010ffff",
        "שלום עולם \u202eabc مرحبا",
        "折り戸のすきま 접이식 문",
        "e\u0301 \ufb01 \u2177 \u2167 \uff41\uff42\uff43 ß \u1e9e \u0130 \u0131",
        "word " * 10_000,
        " ".join(f"w{number}" for number in range(10_000)),
        "x" * 100_000,
        "漢" * 100_000,
        "a-" * 50_000,
        "/".join(["SL45"] * 20_000),
        "\n\t\r\v\f",
        "\u200b\u00ad\ufeff",
    ],
)
def test_any_query_text(steady: SteadyClient, query: str) -> None:
    """C21: query text is data: whatever it is made of, there is an answer."""
    answer = steady.post(RETRIEVE, json={"query": query})
    assert answer.status_code == 200, answer.text
    assert read(answer)["results"] == []


def test_too_long_a_query(steady: SteadyClient) -> None:
    """C21: a text that is no query any more is a clear 400."""
    assert_problem(steady.post(RETRIEVE, json={"query": "x" * 200_001}), 400, "query_too_long")


@pytest.mark.parametrize(
    "system_id", ["%00", "%ff%fe", "%F0%9F%9A%AA", "a%20b", "'%20OR%201=1", "x" * 8_000, "%2e%2e", "sl45%0a"]
)
def test_any_system_id(steady: SteadyClient, system_id: str) -> None:
    """C9: a system id that no system has is an empty list, whatever it is made of."""
    answer = steady.get(f"/v1/systems/{system_id}/passages")
    assert answer.status_code == 200, answer.text
    assert read(answer)["results"] == []


def test_messages_do_not_echo_at_length(steady: SteadyClient) -> None:
    """An error's detail quotes no more than a short excerpt of what was sent."""
    body = {"query": "sill", "x" * 50_000: 1}
    detail = assert_problem(steady.post(RETRIEVE, json=body), 400, "invalid_input")["detail"]
    assert len(str(detail)) < 400
    problem = assert_problem(steady.get(SYSTEM, params={"y" * 5_000: "1"}), 400, "invalid_input")
    assert len(json.dumps(problem)) < 700
