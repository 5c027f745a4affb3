"""What only real servers show: the same bytes everywhere, streams both ways, clients that go away."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.calls import VOCABULARY, Json, document, ndjson, page
from tests.http.processes import served
from tests.postgres import PostgresServer

WORDS = (
    "sill",
    "jamb",
    "SL45",
    "freezing",
    "aluminium",
    "NW-SL45/2",
    "折り戸",
    "wärme",
    "winters",
    "thermal",
)
REQUESTS: tuple[tuple[str, str, Json | None], ...] = (
    ("POST", "/v1/retrieve", {"query": "SL45 sill", "explain": True}),
    ("POST", "/v1/retrieve", {"query": " ".join(WORDS), "limit": 200, "view": "summary"}),
    ("POST", "/v1/retrieve", {"query": "warme 折り戸 nw-sl45/2", "limit": 5, "content_type": "blog"}),
    ("POST", "/v1/retrieve", {"query": "unheard"}),
    ("GET", "/v1/systems/sl45/passages?limit=50&explain=true", None),
    ("POST", "/v1/selection/passages", {"option_ids": ["mild", "cold"], "limit": 100, "explain": True}),
    ("POST", "/v1/selection/evidence", {"option_ids": ["cold"]}),
    ("POST", "/v1/selection/hand-off", {"option_ids": ["cold"]}),
    ("GET", "/v1/items/d7", None),
    ("GET", "/v1/items/p3/supersession", None),
    ("GET", "/v1/vocabulary", None),
)


def corpus() -> Iterator[Json]:
    """Uploads and pages with many equal scores, and pages in two versions."""
    for n in range(60):
        texts = [" ".join(WORDS[(n + k * m) % len(WORDS)] for k in range(4)) for m in (1, 3, 7)]
        kind = "blog" if n % 3 else "tech-doc"
        yield document(f"d{n}", *texts, content_type=kind, title=f"Guide {WORDS[n % 5]}")
        if n < 10:
            yield page(f"p{n}", "old sill", source_url_ok=n % 2 == 0)
            yield page(f"p{n}", "new SL45 sill", item_id=f"q{n}", version="v2", source_url_ok=n % 2 == 0)


def answers(client: httpx.Client) -> list[bytes]:
    """What a server that is given the corpus answers, byte for byte, pages that follow included."""
    assert client.put("/v1/vocabulary", json=VOCABULARY).status_code == 200
    stored = client.post("/v1/items/import", content=ndjson(corpus()))
    assert "error" not in stored.text
    tag = client.post("/v1/facet-tags", json={"item_id": "d9", "facet_type": "factor", "facet_id": "climate"})
    client.post(f"/v1/facet-tags/{tag.json()['tag_id']}/accept")
    told = [client.request(method, path, json=body) for method, path, body in REQUESTS]
    step = told[1].json()["next_action"]
    following = client.request(step["http"]["method"], step["http"]["path"], json=step["http"]["body"])
    return [answer.content for answer in (*told, stored, following)]


def test_the_same_bytes_everywhere(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """C12: two processes with other hash seeds, and the other database, answer the same bytes."""
    with served(tmp_path / "a", hash_seed=1) as client:
        first = answers(client)
    with served(tmp_path / "b", hash_seed=4242) as client:
        assert answers(client) == first
    with (
        postgres_server.database() as url,
        served(tmp_path / "c", hash_seed=7, database_url=url) as client,
    ):
        assert answers(client) == first


def test_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    """C12: a new process on the same data answers the same bytes, with its index and after losing it."""
    query = {"query": " ".join(WORDS), "limit": 200, "explain": True}
    with served(tmp_path) as client:
        answers(client)
        before = client.post("/v1/retrieve", json=query).content
    with served(tmp_path) as client:
        assert client.post("/v1/retrieve", json=query).content == before
    for folder in sorted((tmp_path / "lexical").rglob("*"), reverse=True):
        folder.rmdir() if folder.is_dir() else folder.unlink()
    with served(tmp_path) as client:
        assert client.post("/v1/retrieve", json=query).content == before


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server that the tests below share."""
    with served(tmp_path_factory.mktemp("server"), max_body_bytes="2000000") as client:
        yield client


def test_a_real_server_answers(server: httpx.Client) -> None:
    """A server reached over TCP stores, answers and says what it cannot do, as the application does."""
    assert server.get("/health/ready").json()["ready"] is True
    assert server.post("/v1/items", json=document("one", "sill of one")).status_code == 201
    assert server.post("/v1/retrieve", json={"query": "sill of one"}).json()["shown"] == 1
    assert server.get("/nowhere").json()["code"] == "not_found"
    assert server.get("/schema").json()["openapi"].startswith("3.1")


def test_a_body_that_is_too_large(server: httpx.Client) -> None:
    """U16: a client that sends too much gets its 413, and the connection stays of use."""
    for body in (b'{"query":"' + b"x" * 3_000_000 + b'"}', b" " * 3_000_000):
        answer = server.post("/v1/retrieve", content=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert server.get("/health/live").status_code == 200


def test_a_client_that_sends_all_before_it_reads(server: httpx.Client) -> None:
    """An import whose results outgrow every buffer does not wait for a client that is still sending."""
    sent = 120_000
    answer = server.post("/v1/items/import", content=b"x\n" * sent)
    lines = answer.text.splitlines()
    assert len(answer.content) > 2 * 6_000_000  # the most that the two sockets hold
    assert [json.loads(lines[place])["line"] for place in (0, sent // 2, -1)] == [1, sent // 2 + 1, sent]
    assert len(lines) == sent


def test_results_come_while_lines_are_sent(server: httpx.Client) -> None:
    """A sender that pauses is told what became of its lines before it sends the next one."""
    with socket.create_connection(server_address(server), timeout=60) as raw:
        head = b"POST /v1/items/import HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        raw.sendall(head + b"Connection: close\r\n\r\n")
        for name in ("talk-1", "talk-2"):
            line = ndjson([document(name, f"conversation {name}")])
            raw.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            told = b""
            while f'"{name}"'.encode() not in told:
                told += raw.recv(10_000)
            assert server.get(f"/v1/items/{name}").status_code == 200
        raw.sendall(b"0\r\n\r\n")
        assert b'"line"' not in b"".join(iter(lambda: raw.recv(10_000), b""))


def test_clients_that_go_away(server: httpx.Client) -> None:
    """C16: requests and imports that are cut off leave whole items or none, and the server goes on."""
    body = json.dumps(document("gone", *(f"departure {n}" for n in range(200)))).encode()
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
    for path in ("/v1/items", "/v1/items/import", "/v1/retrieve"):
        for share in (0.0, 0.5, 1.0):
            with socket.create_connection(server_address(server), timeout=10) as raw:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                raw.sendall(head.format(path, len(body)).encode() + body[: int(len(body) * share)])
    assert server.get("/health/ready").status_code == 200
    found = server.post("/v1/retrieve", json={"query": "departure", "limit": 200}).json()
    assert found["shown"] in (0, 200)
    again = server.post("/v1/items", content=body)
    assert again.status_code in (200, 201)
    assert server.post("/v1/retrieve", json={"query": "departure", "limit": 200}).json()["shown"] == 200


@pytest.mark.anyio
async def test_readers_during_writes(server: httpx.Client) -> None:
    """C16: while a source is captured again and again, every reader sees one version, whole."""
    versions, passages = 12, 30
    base = str(server.base_url)
    seen: set[str] = set()
    done = threading.Event()

    async def write(client: httpx.AsyncClient) -> None:
        for version in range(versions):
            texts = [f"quicksilver v{version}" for _ in range(passages)]
            body = {**page("swap", *texts), "item_id": f"swap-{version}"}
            assert (await client.post("/v1/items", json=body)).status_code == 201
        done.set()

    async def read(client: httpx.AsyncClient) -> None:
        while not done.is_set():
            answer = await client.post("/v1/retrieve", json={"query": "quicksilver", "limit": 200})
            assert answer.status_code == 200, answer.text[:500]
            texts = [hit["text"] for hit in answer.json()["results"]]
            assert len(set(texts)) <= 1
            assert len(texts) in (0, passages)
            seen.update(texts)

    async with httpx.AsyncClient(base_url=base, timeout=60) as client:
        await asyncio.gather(write(client), *(read(client) for _ in range(4)))
    assert seen


def server_address(client: httpx.Client) -> tuple[str, int]:
    """Where a client's server listens."""
    port = client.base_url.port
    assert port is not None
    return client.base_url.host, port
