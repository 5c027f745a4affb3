"""A database with everything in it, the questions it is asked, and short ways to export and restore."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from service.adapters.sql.rollout import SqlFlagLedger
from service.bootstrap import Application, application, archiving, keyring
from service.core.access import KeyScope
from service.ingest.archive import ArchiveSummary
from service.ingest.keys import KeyOrder
from service.model import DEFAULT_WORKSPACE, Workspace
from service.ports.flag import FlagChange, FlagEvidence, Verdict
from service.ports.store import IngestMark
from service.settings import Settings
from service.surfaces.cli.archive_files import reading, writing
from tests.http.calls import VOCABULARY, Json, document, ndjson, page, put_vocabulary
from tests.http.conftest import Client, connected

OTHER = Workspace("öther workspace")
MOMENT = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
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
    ("POST", "/v1/retrieve", {"query": " ".join(WORDS), "limit": 200}),
    ("POST", "/v1/retrieve", {"query": "warme 折り戸 nw-sl45/2", "limit": 5, "content_type": "blog"}),
    ("POST", "/v1/retrieve", {"query": "unheard"}),
    ("GET", "/v1/systems/sl45/passages?limit=50&explain=true", None),
    ("GET", "/v1/systems/old/passages", None),
    ("POST", "/v1/selection/passages", {"option_ids": ["mild", "cold"], "limit": 100, "explain": True}),
    ("POST", "/v1/selection/evidence", {"option_ids": ["cold"]}),
    ("POST", "/v1/selection/hand-off", {"option_ids": ["cold"]}),
    ("GET", "/v1/items/d7", None),
    ("GET", "/v1/items/d3", None),
    ("GET", "/v1/items/p3", None),
    ("GET", "/v1/items/p3/supersession", None),
    ("GET", "/v1/items/none", None),
    ("GET", "/v1/vocabulary", None),
    ("GET", "/v1/facet-tags?limit=100", None),
)
CURSOR_REQUEST: Json = {"query": " ".join(WORDS), "limit": 7}


@dataclass(slots=True)
class Watch:
    """Remembers what it was told. Implements ArchiveWatch."""

    told: list[tuple[int, float | None]] = field(default_factory=list)

    def advanced(self, rows: int, fraction: float | None) -> None:
        """Remember."""
        self.told.append((rows, fraction))


def settings_of(folder: Path, database_url: str = "") -> Settings:
    """Settings of an instance at home in a folder."""
    return Settings(data_dir=folder, database_url=database_url, index_grace=0.2)


async def filled(settings: Settings) -> str:
    """Fill a database with something of every kind; the key that all requests need afterwards."""
    async with connected(settings) as client:
        await _documents(client)
        await _decisions(client)
        headers = {"X-Citewell-Workspace": "%C3%B6ther%20workspace"}
        other = ndjson(document(f"o{n}", f"another SL45 sill {n}") for n in range(5))
        assert (await client.post("/v1/items/import", content=other, headers=headers)).status_code == 200
    async with application(settings) as app:
        await _rest(app)
    async with keyring(settings) as control:
        await control.create(KeyOrder("öne", frozenset({OTHER}), frozenset({KeyScope.READ}), 12.5))
        gone = await control.create(KeyOrder("gone", frozenset({DEFAULT_WORKSPACE}), frozenset(KeyScope)))
        await control.revoke(gone.key.key_id)
        made = await control.create(KeyOrder("all", frozenset({"*"}), frozenset(KeyScope)))
    return made.text


async def _documents(client: Client) -> None:
    await put_vocabulary(client, VOCABULARY)
    stored = await client.post("/v1/items/import", content=ndjson(_corpus()))
    assert "error" not in stored.text
    assert (await client.post("/v1/items/d3/retire")).status_code == 200
    body = {"by": "d5"}
    assert (await client.post("/v1/items/d4/supersede", json=body)).status_code == 200


async def _decisions(client: Client) -> None:
    for n, decision in ((9, "accept"), (10, "reject"), (11, "accept"), (12, "")):
        named = {"item_id": f"d{n}", "facet_type": "factor", "facet_id": "climate"}
        tag = (await client.post("/v1/facet-tags", json=named)).json()["tag_id"]
        if decision:
            assert (await client.post(f"/v1/facet-tags/{tag}/{decision}")).status_code == 200


async def _rest(app: Application) -> None:
    mark = IngestMark(hashlib.sha256(b"a file").hexdigest(), "0" * 64, 17, finished=False)
    async with app.store.transaction(DEFAULT_WORKSPACE) as transaction:
        await transaction.mark_ingest(mark)
    ledger = SqlFlagLedger(app.store.engines)
    evidence = FlagEvidence("report.json", Verdict.GO, "abc", MOMENT)
    for workspace, state, seen in ((None, "shadow", None), (OTHER, "5%", evidence), (OTHER, None, None)):
        async with ledger.changing(workspace) as change:
            await change.record(
                FlagChange(workspace, MOMENT, "ops", change.before, state, "why nöt", seen, forced=False)
            )


def _corpus() -> list[Json]:
    """Uploads and pages with many equal scores, and pages in two versions; every text in JSON's way."""
    bodies = []
    for n in range(40):
        texts = [" ".join(WORDS[(n + k * m) % len(WORDS)] for k in range(4)) for m in (1, 3, 7)]
        kind = "blog" if n % 3 else "tech-doc"
        title = f'Guide "{WORDS[n % 5]}"\n\u2028\t\\'
        bodies.append(document(f"d{n}", *texts, content_type=kind, title=title, resource_types=["cad", "é"]))
    for n in range(10):
        bodies.append(page(f"p{n}", "old sill", item_id=f"p{n}", source_url_ok=n % 2 == 0))
        bodies.append(page(f"p{n}", "new SL45 sill", item_id=f"q{n}", version="v2", source_url_ok=n % 2 == 0))
    return bodies


async def exported(settings: Settings, path: Path, workspace: Workspace | None = None) -> ArchiveSummary:
    """Export to a file."""
    async with archiving(settings) as archive:
        with writing(path) as sink:
            return await archive.export(sink, workspace, Watch())


async def restored(settings: Settings, path: Path) -> ArchiveSummary:
    """Restore from a file."""
    with reading(path) as source:
        async with archiving(settings) as archive:
            return await archive.restore(source, Watch())


@asynccontextmanager
async def asking(settings: Settings, key: str) -> AsyncIterator[Client]:
    """A client with a key."""
    async with connected(settings) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        yield client


async def answers(client: Client) -> list[bytes]:
    """What an instance answers to every request, byte for byte; the second of a walk's pages too."""
    told = [await client.request(method, path, json=body) for method, path, body in REQUESTS]
    first = await client.post("/v1/retrieve", json=CURSOR_REQUEST)
    cursor = first.json()["next_cursor"]
    second = await client.post("/v1/retrieve", json={**CURSOR_REQUEST, "cursor": cursor})
    return [without_request_id(answer) for answer in (*told, first, second)]


async def more_captures(client: Client) -> list[bytes]:
    """What an instance answers to further writes, and to questions after them."""
    bodies = [
        document("d7", "a second version of SL45", item_id="d7b"),
        document("fresh", "a new SL45 sill", item_id=None),
        document("d3", "retired, and here again: SL45", item_id=None),
        page("p1", "newest SL45 sill", item_id=None),
    ]
    told = [await client.post("/v1/items", json=body) for body in bodies]
    assert {answer.status_code for answer in told} <= {200, 201}
    return [*(without_request_id(answer) for answer in told), *await answers(client)]


def without_request_id(answer: httpx.Response) -> bytes:
    """The body; of a problem, without the one field that is of the request and not of the answer."""
    if answer.is_success:
        return answer.content
    return json.dumps({**answer.json(), "request_id": None}).encode()


def lines(path: Path) -> list[bytes]:
    """The lines of an archive, header first."""
    return path.read_bytes().splitlines(keepends=True)


def body(path: Path) -> bytes:
    """An archive without its header."""
    return b"".join(lines(path)[1:])


def sealed(changed: Sequence[bytes]) -> bytes:
    """An archive of these lines, header first and end last, whose end vouches for them again."""
    rows, counts = changed[1:-1], dict[str, int]()
    for row in rows:
        kind = json.loads(row)["record"]
        counts[kind] = counts.get(kind, 0) + 1
    digest = hashlib.sha256(b"".join(rows)).hexdigest()
    end = {"record": "end", "counts": dict(sorted(counts.items())), "sha256": digest}
    return b"".join([*changed[:-1], json.dumps(end).encode() + b"\n"])


def run_filled(settings: Settings) -> str:
    """Fill a database, outside of any event loop."""
    return asyncio.run(filled(settings))
