"""A restored instance is the one that was exported: the same bytes in every answer, and afterwards too."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from service.adapters.sql.engine import database_url, open_engines
from service.adapters.sql.store import SqlStore
from service.bootstrap import application, archiving
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from service.surfaces.cli.archive_files import writing
from tests.archive.conftest import Original
from tests.archive.parts import (
    CURSOR_REQUEST,
    OTHER,
    Watch,
    answers,
    asking,
    body,
    exported,
    filled,
    lines,
    more_captures,
    restored,
    settings_of,
    without_request_id,
)
from tests.builders import capture

pytestmark = pytest.mark.anyio


async def test_the_same_answers(original: Original, empty: Settings) -> None:
    """C12: a restored instance, on either database, answers every question with the same bytes."""
    await restored(empty, original.archive)
    async with asking(original.settings, original.key) as client:
        expected = await answers(client)
    async with asking(empty, original.key) as client:
        assert await answers(client) == expected


async def test_a_cursor_goes_on(original: Original, empty: Settings) -> None:
    """C12: a cursor that the exported instance gave goes on at the restored one, and no corpus has changed."""
    async with asking(original.settings, original.key) as client:
        first = (await client.post("/v1/retrieve", json=CURSOR_REQUEST)).json()
        next_page = {**CURSOR_REQUEST, "cursor": first["next_cursor"]}
        expected = await client.post("/v1/retrieve", json=next_page)
    await restored(empty, original.archive)
    async with asking(empty, original.key) as client:
        second = await client.post("/v1/retrieve", json=next_page)
    assert second.content == expected.content
    assert second.json()["results"]
    assert "corpus_changed" not in second.json()


async def test_both_go_on_alike(tmp_path: Path, empty: Settings) -> None:
    """C16: after further captures both instances agree: identities, next keys, what supersedes what."""
    source = settings_of(tmp_path / "source")
    key = await filled(source)
    await exported(source, tmp_path / "archive.ndjson")
    await restored(empty, tmp_path / "archive.ndjson")
    async with asking(source, key) as client:
        expected = await more_captures(client)
    async with asking(empty, key) as client:
        assert await more_captures(client) == expected
    assert keys_of(await later_archive(source, tmp_path)) == keys_of(await later_archive(empty, tmp_path))


async def later_archive(settings: Settings, folder: Path) -> list[bytes]:
    """The lines of an archive of now."""
    await exported(settings, folder / "later.ndjson")
    return lines(folder / "later.ndjson")


def keys_of(archive: list[bytes]) -> list[tuple[object, ...]]:
    """The counter and the keys of items, passages and changes, without the moments at which they were made."""
    names = ("record", "seq", "item_key", "passage_key", "item_id", "source_hash", "content_hash")
    read = [json.loads(line) for line in archive[1:-1]]
    return [
        tuple(record.get(name) for name in names)
        for record in read
        if record["record"] in ("counter", "item", "passage", "change")
    ]


async def test_across_databases_and_back(
    original: Original, postgres_settings: Settings, tmp_path: Path
) -> None:
    """C12: from SQLite to PostgreSQL and back, an archive is the same bytes but for its header."""
    await restored(postgres_settings, original.archive)
    await exported(postgres_settings, tmp_path / "there.ndjson")
    back = settings_of(tmp_path / "back")
    await restored(back, tmp_path / "there.ndjson")
    await exported(back, tmp_path / "again.ndjson")
    assert body(tmp_path / "there.ndjson") == body(original.archive)
    assert body(tmp_path / "again.ndjson") == body(original.archive)


async def test_a_restored_database_has_a_new_name(original: Original, empty: Settings) -> None:
    """C12: a restored database is named anew, so that no index folder of another database is trusted."""
    engines = open_engines(database_url(empty.resolved_database_url))
    async with archiving(empty):
        before = await SqlStore(engines).database_id()
    summary = await restored(empty, original.archive)
    after = await SqlStore(engines).database_id()
    await engines.close()
    assert len({before, after, summary.header.database_id}) == 3


async def test_a_stale_index_folder(original: Original, tmp_path: Path) -> None:
    """C12: an index folder that another database left behind is not used: it is built from the rows."""
    home = tmp_path / "home"
    async with application(settings_of(home)) as app:
        await app.capturing.capture(DEFAULT_WORKSPACE, capture("left", "SL45 left behind", item_id="left"))
    for file in home.glob("citewell.db*"):
        file.unlink()
    await restored(settings_of(home), original.archive)
    async with asking(original.settings, original.key) as client:
        expected = await answers(client)
    async with asking(settings_of(home), original.key) as client:
        assert await answers(client) == expected


async def test_a_server_that_runs_meanwhile(original: Original, empty: Settings) -> None:
    """C14: a process that served the empty database answers exactly as soon as the import is committed."""
    async with asking(original.settings, original.key) as client:
        expected = await answers(client)
    async with asking(empty, original.key) as client:
        open_still = await client.post("/v1/retrieve", json={"query": "SL45"}, headers={"Authorization": ""})
        assert open_still.status_code in (200, 401)
        await restored(empty.model_copy(update={"data_dir": empty.data_dir / "other"}), original.archive)
        got: list[bytes] = []
        for _ in range(100):  # whether there are keys at all is believed for two seconds
            answer = await client.post("/v1/retrieve", json={"query": "SL45 sill", "explain": True})
            got = [without_request_id(answer)]
            if got == expected[:1]:
                break
            await asyncio.sleep(0.1)
        assert got == expected[:1]
        assert await answers(client) == expected


async def test_one_workspace(original: Original, empty: Settings, tmp_path: Path) -> None:
    """C10: an archive of one workspace holds nothing of another, and gives the same passages and keys."""
    await exported(original.settings, tmp_path / "one.ndjson", OTHER)
    records = [json.loads(line) for line in lines(tmp_path / "one.ndjson")]
    assert {record["workspace"] for record in records if "workspace" in record} == {OTHER}
    assert {record["item_id"] for record in records if record["record"] == "item"} == {
        f"o{n}" for n in range(5)
    }
    assert [record["name"] for record in records if record["record"] == "api_key"] == ["öne"]
    await restored(empty, tmp_path / "one.ndjson")
    await exported(empty, tmp_path / "again.ndjson")
    assert body(tmp_path / "again.ndjson") == body(tmp_path / "one.ndjson")


async def test_one_moment(tmp_path: Path, settings: Settings) -> None:
    """C16: of what is written while an export runs, nothing is in it, however late its rows are read."""
    async with application(settings) as app, archiving(settings) as archive:
        for n in range(3):
            await app.capturing.capture(DEFAULT_WORKSPACE, capture(f"s{n}", "one", item_id=f"i{n}"))
        await exported(settings, tmp_path / "before.ndjson")
        writes, seen = 0, []
        async with archive._archive.reading(None) as snapshot:
            async for rows in snapshot.batches():
                seen += [dict(row) for row in rows.rows]
                await app.capturing.capture(
                    DEFAULT_WORKSPACE, capture("s0", f"version {writes}", item_id=f"n{writes}")
                )
                writes += 1
    expected = [json.loads(line) for line in lines(tmp_path / "before.ndjson")[1:-1]]
    assert writes > 3
    assert seen == [{name: value for name, value in row.items() if name != "record"} for row in expected]


async def test_packed(original: Original, empty: Settings, tmp_path: Path) -> None:
    """An archive named .gz is gzipped and restores; the same lines give the same packed bytes."""
    for name in ("a.ndjson.gz", "b.ndjson.gz"):
        with writing(tmp_path / name) as sink:
            sink.write(original.archive.read_bytes())
    assert gzip.decompress((tmp_path / "a.ndjson.gz").read_bytes()) == original.archive.read_bytes()
    assert (tmp_path / "a.ndjson.gz").read_bytes() == (tmp_path / "b.ndjson.gz").read_bytes()
    summary = await restored(empty, tmp_path / "a.ndjson.gz")
    assert summary.counts["item"] == 65


async def test_memory_is_bounded(tmp_path: Path) -> None:
    """Progress is told in portions: neither way holds the whole of an archive."""
    settings = settings_of(tmp_path / "many")
    async with application(settings) as app:
        for n in range(4):
            texts = [f"word{k} sill" for k in range(1_000)]
            await app.capturing.capture(DEFAULT_WORKSPACE, capture(f"s{n}", *texts))
    watch = Watch()
    async with archiving(settings) as archive:
        with writing(tmp_path / "many.ndjson") as sink:
            await archive.export(sink, None, watch)
    counts = [count for count, _ in watch.told]
    assert max(b - a for a, b in zip([0, *counts], counts, strict=False)) <= 500
    assert watch.told[-1][1] == 1.0
    summary = await restored(settings_of(tmp_path / "copy"), tmp_path / "many.ndjson")
    assert summary.counts["passage"] == 4_000
