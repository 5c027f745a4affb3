"""The import: a stream of lines in, a stream of results out."""

import gzip
import json
import zlib
from collections.abc import Iterable

import httpx
import pytest

from service.errors import CitewellError, TooLarge, UnreadableDocument
from service.settings import Settings
from service.surfaces.http.lines import Line, LineCutter
from service.surfaces.http.outbox import IN_MEMORY, Outbox
from service.surfaces.http.unpacking import GRACE, PIECE, Gunzip
from tests.http.calls import Json, ask, assert_problem, document, item_ids, ndjson, read
from tests.http.conftest import Client, SteadyClient, connected

IMPORT = "/v1/items/import"


def told(answer: httpx.Response) -> list[Json]:
    """The result lines."""
    assert answer.status_code == 200, answer.text[:500]
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.anyio
async def test_one_result_for_each_line(http_both: Client) -> None:
    """Every line that is not blank has its result in order; a bad line stops no other."""
    content = b"\n".join(
        [
            json.dumps(document("a", "sill")).encode(),
            b"",
            b"no json",
            json.dumps({**document("b", "sill"), "colour": "red"}).encode(),
            b" \t\r",
            json.dumps(document("c", "sill \x00")).encode(),
            b'{"title": "\xff"}',
            json.dumps(document("a", "another sill", source_filename="other.md")).encode(),
            json.dumps(document("d", "sill", "sill")).encode() + b"\r",
            json.dumps(document("d", "sill", "sill")).encode(),
        ]
    )
    lines = told(await http_both.post(IMPORT, content=content))
    assert lines[0] == {"line": 1, "item_id": "a", "superseded": None, "unchanged": False, "passages": 1}
    assert [(line["line"], code_of(line)) for line in lines[1:6]] == [
        (3, "invalid_input"),
        (4, "invalid_input"),
        (6, "invalid_text"),
        (7, "invalid_text"),
        (8, "item_exists"),
    ]
    assert lines[6] == {"line": 9, "item_id": "d", "superseded": None, "unchanged": False, "passages": 2}
    assert lines[7] == {"line": 10, "item_id": "d", "superseded": None, "unchanged": True, "passages": 2}
    refused = lines[1]["error"]
    assert isinstance(refused, dict)
    assert refused.keys() == {"code", "title", "detail"}
    assert item_ids(await ask(http_both, "sill")) == ["a", "d", "d"]


@pytest.mark.anyio
async def test_versions_in_one_import(http_both: Client) -> None:
    """C16: of several captures of one source in an import the last is live."""
    bodies = [document(f"v{n}", f"sill {n}", source_filename="one.md") for n in range(5)]
    lines = told(await http_both.post(IMPORT, content=ndjson(bodies)))
    assert [line["superseded"] for line in lines] == [None, "v0", "v1", "v2", "v3"]
    assert item_ids(await ask(http_both, "sill")) == ["v4"]


@pytest.mark.anyio
async def test_many_lines(http: Client) -> None:
    """An import of many batches stores every line, and repeating it changes nothing."""
    content = ndjson(document(f"d{n:04}", f"sill {n}", f"jamb {n}") for n in range(2_500))
    lines = told(await http.post(IMPORT, content=content))
    assert [line["line"] for line in lines] == list(range(1, 2_501))
    assert not any(line["unchanged"] for line in lines)
    again = told(await http.post(IMPORT, content=content))
    assert all(line["unchanged"] for line in again)
    assert item_ids(await ask(http, "2499")) == ["d2499", "d2499"]


@pytest.mark.anyio
async def test_text_lines(http: Client) -> None:
    """A line may bring its text instead of passages, as a single capture may."""
    body = {key: value for key, value in document("a").items() if key != "passages"}
    content = ndjson(
        [{**body, "text": "# Sills\n\nThey drain.", "format": "markdown"}, {**body, "text": "x"}]
    )
    lines = told(await http.post(IMPORT, content=content))
    assert (lines[0]["item_id"], code_of(lines[1])) == ("a", "invalid_input")


@pytest.mark.anyio
async def test_gzip(http: Client) -> None:
    """A stream packed with gzip is unpacked, however many members it has."""
    first, second = ndjson([document("a", "sill")]), ndjson([document("b", "sill")])
    packed = gzip.compress(first) + gzip.compress(second) + b"\x00" * 100
    lines = told(await http.post(IMPORT, content=packed, headers={"content-encoding": "gzip"}))
    assert [line["item_id"] for line in lines] == ["a", "b"]


@pytest.mark.anyio
async def test_damaged_gzip(http: Client) -> None:
    """Damage ends the import with an error where it was met; what came before is stored."""
    whole = ndjson(document(f"d{n}", f"sill {n}") for n in range(50))
    for packed in (gzip.compress(whole)[:-12], gzip.compress(whole) + b"no gzip", b"no gzip at all"):
        lines = told(await http.post(IMPORT, content=packed, headers={"content-encoding": "gzip"}))
        assert code_of(lines[-1]) == "unreadable_document"
    assert len(item_ids(await ask(http, "sill", limit=200))) == 50


@pytest.mark.anyio
async def test_over_long_lines(sqlite_settings: Settings) -> None:
    """A line over the bound is an error of its own, and the lines around it are stored."""
    async with connected(sqlite_settings.model_copy(update={"max_line_bytes": 2_000})) as client:
        bodies = [document("a", "sill"), document("b", "x" * 5_000), document("c", "sill")]
        lines = told(await client.post(IMPORT, content=ndjson(bodies)))
        assert [code_of(line) for line in lines] == [None, "too_large", None]
        assert item_ids(await ask(client, "sill")) == ["a", "c"]


@pytest.mark.anyio
async def test_imports_are_not_bounded_as_bodies_are(sqlite_settings: Settings) -> None:
    """The bound on request bodies is not one on imports."""
    async with connected(sqlite_settings.model_copy(update={"max_body_bytes": 1_000})) as client:
        lines = told(await client.post(IMPORT, content=ndjson(document(f"d{n}", "sill") for n in range(20))))
        assert len(lines) == 20


def test_empty_imports(steady: SteadyClient) -> None:
    """Nothing in, nothing out."""
    for content in (b"", b"\n\n \n", b"\xef\xbb\xbf"):
        assert told(steady.post(IMPORT, content=content)) == []


def test_forms_of_imports(steady: SteadyClient) -> None:
    """U16: an import that is a form, or packed in an unknown way, is 415 before anything is read."""
    for headers in ({"content-type": "multipart/form-data; boundary=x"}, {"content-encoding": "br"}):
        assert_problem(steady.post(IMPORT, content=b"x", headers=headers), 415, "unsupported_media_type")
    for media_type in ("application/x-ndjson", "application/json", "text/plain"):
        assert told(steady.post(IMPORT, content=b"\n", headers={"content-type": media_type})) == []


def code_of(line: Json) -> object:
    """The error code of a result line, or None."""
    error = line.get("error")
    return error["code"] if isinstance(error, dict) else None


def cut(chunks: Iterable[bytes], longest: int = 100) -> list[Line]:
    """The lines of a stream."""
    cutter = LineCutter(longest)
    found = [line for chunk in chunks for line in cutter.feed(chunk)]
    return [*found, *cutter.finish()]


def test_lines_do_not_depend_on_chunks() -> None:
    """However a stream is cut into chunks, its lines are the same."""
    stream = b"\xef\xbb\xbfone\r\n\n" + b"x" * 150 + b"\n two \n" + b"y" * 100 + b"\nlast"
    whole = cut([stream])
    assert [(line.number, line.data) for line in whole] == [
        (1, b"one"),
        (3, b""),
        (4, b"two"),
        (5, b"y" * 100),
        (6, b"last"),
    ]
    assert [line.number for line in whole if isinstance(line.error, TooLarge)] == [3]
    for size in (1, 2, 3, 7, 64):
        again = cut(stream[start : start + size] for start in range(0, len(stream), size))
        assert [(line.number, line.data) for line in again] == [(line.number, line.data) for line in whole]


def unpacked(packed: bytes, size: int = 1_000) -> bytes:
    """What a packed stream holds, fed in chunks."""
    gunzip = Gunzip()
    pieces = [
        piece for start in range(0, len(packed), size) for piece in gunzip.feed(packed[start : start + size])
    ]
    gunzip.finish()
    assert all(len(piece) <= PIECE for piece in pieces)
    return b"".join(pieces)


def test_unpacking_is_whole_at_every_size() -> None:
    """A stream whose pieces end exactly at the bound is unpacked to its last byte."""
    for length in (0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 257):
        data = (b"sill jamb head " * (length // 15 + 1))[:length]
        for size in (1, 100, 10**6):
            assert unpacked(gzip.compress(data), size) == data


def test_bombs_are_refused_early() -> None:
    """A stream that swells beyond all reason is refused long before it is unpacked."""
    packer = zlib.compressobj(wbits=31)
    bomb = packer.compress(b"\n" * 4 * GRACE) + packer.flush()
    pieces = Gunzip().feed(bomb)
    assert sum(len(next(pieces)) for _ in range(GRACE // PIECE)) == GRACE
    with pytest.raises(TooLarge):
        next(pieces)


@pytest.mark.parametrize("packed", [b"x", gzip.compress(b"sill")[:-1], gzip.compress(b"sill") + b"\x1f"])
def test_damage_is_noticed(packed: bytes) -> None:
    """What is no gzip, or not all of one, is an error."""
    with pytest.raises(CitewellError) as caught:
        unpacked(packed)
    assert isinstance(caught.value, UnreadableDocument)


@pytest.mark.anyio
async def test_the_outbox_keeps_order() -> None:
    """What is put comes out once and in order, whether it stayed in memory or not."""
    outbox = Outbox()
    sent = bytes(range(256)) * (3 * IN_MEMORY // 256)
    got = b""
    for start in range(0, len(sent), 100_000):
        outbox.put(sent[start : start + 100_000])
        if start % 300_000 == 0:
            got += await outbox.take()
    outbox.close()
    while data := await outbox.take():
        got += data
    assert got == sent
    outbox.discard()


@pytest.mark.anyio
async def test_an_import_is_counted_by_its_route(http: Client) -> None:
    """U19: an import is a request like any other to the metrics."""
    await http.post(IMPORT, content=ndjson([document("a", "sill")]))
    page = await http.get("/metrics")
    assert (
        'citewell_http_requests_total{method="POST",route="/v1/items/import",status="200"} 1.0' in page.text
    )
    assert read(await http.get("/v1/items/a"))["item_id"] == "a"
