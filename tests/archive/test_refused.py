"""Archives that are not restored, databases that are not filled, and what a failure leaves behind: nothing."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from service.bootstrap import application, archiving, keyring
from service.core.access import KeyScope
from service.errors import CitewellError, Conflict, NotFound, StorageFull, UnreadableDocument
from service.ingest.archive_lines import FORMAT, Header, encoded_header
from service.ingest.keys import KeyOrder
from service.model import DEFAULT_WORKSPACE, Vocabulary, Workspace
from service.settings import Settings
from service.surfaces.cli.archive_files import reading
from tests.archive.conftest import Original
from tests.archive.parts import Watch, body, exported, lines, restored, sealed, settings_of
from tests.builders import capture
from tests.faults.tmpfs import small_disk

pytestmark = pytest.mark.anyio

Change = Callable[[list[bytes]], bytes]


def with_fields(kind: str, **fields: object) -> Change:
    """Changes fields of the first record of a kind, and lets the end vouch for it."""

    def change(archive: list[bytes]) -> bytes:
        place = place_of(archive, kind)
        archive[place] = json.dumps({**json.loads(archive[place]), **fields}).encode() + b"\n"
        return sealed(archive)

    return change


def place_of(archive: Sequence[bytes], kind: str) -> int:
    """Where the first record of a kind stands, from 0."""
    return next(n for n, line in enumerate(archive) if json.loads(line)["record"] == kind)


def without(kind: str, name: str) -> Change:
    """Takes a field from the first record of a kind, and lets the end vouch for it."""

    def change(archive: list[bytes]) -> bytes:
        place = place_of(archive, kind)
        record = json.loads(archive[place])
        del record[name]
        archive[place] = json.dumps(record).encode() + b"\n"
        return sealed(archive)

    return change


def replaced(archive: list[bytes], place: int, line: bytes) -> bytes:
    """An archive with one line instead of another; the end does not know."""
    return b"".join([*archive[:place], line, *archive[place + 1 :]])


def header(**changes: object) -> bytes:
    """A header whose seal is right."""
    fields: dict[str, object] = {
        "format": FORMAT,
        "schema": "0001",
        "database_id": "x",
        "workspace": None,
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return encoded_header(Header(**{**fields, **changes}))  # type: ignore[arg-type]


DAMAGES: dict[str, tuple[Change, str]] = {
    "nothing in it": (lambda _: b"", "line 1 of the archive is missing"),
    "no header": (lambda a: b"".join(a[1:]), "line 1 of the archive is not the header"),
    "a header that was altered": (
        lambda a: replaced(a, 0, a[0].replace(b'"workspace":null', b'"workspace":"a"')),
        "line 1 of the archive was altered",
    ),
    "a newer format": (
        lambda a: replaced(a, 0, header(format=FORMAT + 1)),
        f"line 1 of the archive names the format {FORMAT + 1}; this version reads {FORMAT}",
    ),
    "a newer schema": (
        lambda a: replaced(a, 0, header(schema="9999")),
        "line 1 of the archive names the schema 9999",
    ),
    "cut off between lines": (lambda a: b"".join(a[:-1]), "is not the end: the archive was cut off"),
    "cut off in the middle": (lambda a: b"".join(a[:50]), "line 50 of the archive is the last one"),
    "cut off within a line": (lambda a: b"".join(a[:50]) + a[50][:-20], "line 51 of the archive is not JSON"),
    "a header alone": (lambda a: a[0], "line 1 of the archive is the last one"),
    "one letter altered": (
        lambda a: b"".join(a).replace(b"old sill", b"odd sill", 1),
        "does not vouch for the lines before it",
    ),
    "a line too few": (lambda a: b"".join([*a[:70], *a[71:]]), "does not vouch"),
    "two lines exchanged": (lambda a: b"".join([*a[:70], a[71], a[70], *a[72:]]), "does not vouch"),
    "a line twice": (lambda a: sealed([*a[:3], a[2], *a[3:]]), "contradicts another"),
    "kinds in another order": (
        lambda a: sealed([a[0], *a[2:-1], a[1], a[-1]]),
        "is a counter where none may stand",
    ),
    "something behind the end": (lambda a: b"".join([*a, b"{}\n"]), "stands behind the end"),
    "a second archive behind the end": (lambda a: b"".join([*a, *a]), "stands behind the end"),
    "a blank line": (lambda a: replaced(a, 5, b"\n"), "line 6 of the archive is not JSON"),
    "no object": (lambda a: replaced(a, 5, b"[1]\n"), "line 6 of the archive is no record"),
    "brackets without end": (lambda a: replaced(a, 5, b"[" * 100_000), "line 6 of the archive is not JSON"),
    "not UTF-8": (lambda a: replaced(a, 5, b'{"record": "\xff"}\n'), "line 6 of the archive is not JSON"),
    "not a number": (lambda a: replaced(a, 5, b'{"record": NaN}\n'), "line 6 of the archive is not JSON"),
    "an unknown kind": (
        lambda a: replaced(a, 5, b'{"record":"poem"}\n'),
        "line 6 of the archive is of the un",
    ),
    "no counter": (lambda a: sealed([a[0], *a[2:]]), "the archive has no counter"),
    "two counters": (lambda a: sealed([a[0], a[1], *a[1:]]), "is a second counter"),
    "a counter behind its rows": (with_fields("counter", item_key=3), "item_key is behind its rows"),
    "a field too few": (without("item", "title"), "line 3 of the archive lacks or has too much: title"),
    "a field too many": (with_fields("item", colour="red"), "lacks or has too much: colour"),
    "null where none may be": (with_fields("item", title=None), "line 3 of the archive has a wrong title"),
    "a number for a text": (with_fields("item", title=7), "has a wrong title"),
    "a NUL": (with_fields("item", title="a\x00b"), "has a wrong title"),
    "a lone surrogate": (with_fields("item", title="\ud800"), "has a wrong title"),
    "an unknown content type": (with_fields("item", content_type="poem"), "has a wrong content_type"),
    "a hash that is too long": (with_fields("item", source_hash="0" * 65), "has a wrong source_hash"),
    "a truth for a number": (with_fields("item", item_key=True), "has a wrong item_key"),
    "a number below 0": (with_fields("item", item_key=-1), "has a wrong item_key"),
    "a number beyond any key": (with_fields("item", item_key=10**400), "has a wrong item_key"),
    "a number for a truth": (with_fields("passage", scorable=1), "has a wrong scorable"),
    "a seq beyond its column": (with_fields("passage", seq=2**31), "has a wrong seq"),
    "no moment": (with_fields("item", fetched_at="yesterday"), "has a wrong fetched_at"),
    "a moment without a zone": (with_fields("item", fetched_at="2026-01-01T00:00:00"), "wrong fetched_at"),
    "a moment before time": (with_fields("item", fetched_at="0001-01-01T00:00:00+14:00"), "wrong fetched_at"),
    "a text for a list": (with_fields("item", resource_types="cad"), "has a wrong resource_types"),
    "numbers in a list": (with_fields("item", resource_types=[1]), "has a wrong resource_types"),
    "an unknown scope": (with_fields("api_key", scopes=["all"]), "has a wrong scopes"),
    "an endless rate": (with_fields("api_key", rate=10**400), "has a wrong rate"),
    "a passage of no item": (with_fields("passage", item_key=999), "contradicts another"),
}


def names_in(folder: Path) -> list[str]:
    """What a folder holds."""
    return sorted(path.name for path in folder.iterdir())


async def assert_still_empty(settings: Settings, original: Original) -> None:
    """Nothing was stored: the archive as it was can be restored now, and is whole."""
    await restored(settings, original.archive)
    again = settings.data_dir.parent / "again.ndjson"
    await exported(settings, again)
    assert body(again) == body(original.archive)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_archive(original: Original, tmp_path: Path, damage: str) -> None:
    """C16: an archive that was cut off or altered is refused with its line and a code; nothing is stored."""
    change, reason = DAMAGES[damage]
    damaged = tmp_path / "damaged.ndjson"
    damaged.write_bytes(change(lines(original.archive)))
    empty = settings_of(tmp_path / "empty")
    with pytest.raises(UnreadableDocument, match="nothing was stored") as refusal:
        await restored(empty, damaged)
    assert refusal.value.code == "unreadable_document"
    assert reason in refusal.value.detail
    await assert_still_empty(empty, original)


POSTGRES_DAMAGES = ("cut off between lines", "one letter altered", "a line twice", "a passage of no item")


@pytest.mark.parametrize("damage", POSTGRES_DAMAGES)
async def test_a_damaged_archive_on_postgresql(
    original: Original, postgres_settings: Settings, tmp_path: Path, damage: str
) -> None:
    """C16: what shows only while rows are stored, or at the end, rolls everything back on PostgreSQL too."""
    change, reason = DAMAGES[damage]
    damaged = tmp_path / "damaged.ndjson"
    damaged.write_bytes(change(lines(original.archive)))
    with pytest.raises(UnreadableDocument) as refusal:
        await restored(postgres_settings, damaged)
    assert reason in refusal.value.detail
    await assert_still_empty(postgres_settings, original)


@pytest.mark.parametrize("cut", [10, 1_000, -4, -1])
async def test_a_cut_gzip(original: Original, tmp_path: Path, cut: int) -> None:
    """C16: a gzip that ends early is refused, even if only its checksum is missing."""
    packed = gzip.compress(original.archive.read_bytes())
    (tmp_path / "cut.gz").write_bytes(packed[:cut])
    with pytest.raises(UnreadableDocument, match="cut off"):
        await restored(settings_of(tmp_path / "empty"), tmp_path / "cut.gz")
    await assert_still_empty(settings_of(tmp_path / "empty"), original)


async def test_a_database_with_items(original: Original, empty: Settings, tmp_path: Path) -> None:
    """Into a database that holds anything nothing is imported: it answers as before."""
    async with application(empty) as app:
        await app.capturing.capture(DEFAULT_WORKSPACE, capture("mine", "my own"))
    await exported(empty, tmp_path / "before.ndjson")
    with pytest.raises(Conflict, match="not empty, it has rows of: item, passage, change"):
        await restored(empty, original.archive)
    await exported(empty, tmp_path / "after.ndjson")
    assert body(tmp_path / "before.ndjson") == body(tmp_path / "after.ndjson")


async def test_a_database_with_keys(original: Original, sqlite_settings: Settings) -> None:
    """A database with an API key is not empty: an import would say who may ask."""
    async with keyring(sqlite_settings) as control:
        await control.create(KeyOrder("mine", frozenset({"default"}), frozenset({KeyScope.READ})))
    with pytest.raises(Conflict, match="it has rows of: api_key"):
        await restored(sqlite_settings, original.archive)


async def test_a_database_that_was_emptied(original: Original, sqlite_settings: Settings) -> None:
    """A database that ever changed is not empty: what follows its log would not see another's."""
    async with application(sqlite_settings) as app, app.store.transaction(DEFAULT_WORKSPACE) as transaction:
        await transaction.replace_vocabulary(Vocabulary())
    with pytest.raises(Conflict, match="it has rows of: change"):
        await restored(sqlite_settings, original.archive)


async def test_a_second_import(original: Original, empty: Settings) -> None:
    """An archive is imported once: the second time the database is not empty."""
    await restored(empty, original.archive)
    with pytest.raises(Conflict, match="not empty"):
        await restored(empty, original.archive)


async def test_an_unknown_workspace(original: Original, tmp_path: Path) -> None:
    """Nothing is exported of a workspace that is not there, and no file says that there was a backup."""
    with pytest.raises(NotFound, match="nothing was ever stored"):
        await exported(original.settings, tmp_path / "none.ndjson", Workspace("misspelt"))
    assert names_in(tmp_path) == []


async def test_a_full_disk_under_the_database(original: Original, tmp_path: Path) -> None:
    """C16: an import that finds the disk full is refused whole; with space the same import goes through."""
    with small_disk(tmp_path / "disk", 4) as disk:
        settings = settings_of(tmp_path / "home", f"sqlite:///{tmp_path / 'disk' / 'citewell.db'}")
        async with archiving(settings) as archive:
            disk.fill()
            with reading(original.archive) as source, pytest.raises(StorageFull):
                await archive.restore(source, Watch())
            disk.free()
        nothing = await exported(settings, tmp_path / "nothing.ndjson")
        assert nothing.counts == {"counter": 1}
        await restored(settings, original.archive)


async def test_a_full_disk_under_the_archive(original: Original, tmp_path: Path) -> None:
    """An export that finds the disk full leaves the archive that was there, and nothing else."""
    with small_disk(tmp_path / "disk", 1) as disk:
        target = tmp_path / "disk" / "archive.ndjson"
        target.write_bytes(b"an older archive\n")
        disk.fill()
        with pytest.raises(StorageFull):
            await exported(original.settings, target)
        assert target.read_bytes() == b"an older archive\n"
        assert names_in(target.parent) == ["archive.ndjson", "ballast"]


@pytest.mark.parametrize("name", ["absent/archive.ndjson", ""])
async def test_a_place_that_cannot_be_written(original: Original, tmp_path: Path, name: str) -> None:
    """A folder that is not there, or a folder in the file's place, is said in one sentence."""
    with pytest.raises(CitewellError) as refusal:
        await exported(original.settings, tmp_path / name)
    assert refusal.value.code == "invalid_input"
