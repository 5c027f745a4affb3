"""Files of captures, one a line."""

import gzip
from pathlib import Path

import pytest

from service.bootstrap import Application
from service.ingest import line_files
from service.ingest.file_ledger import name_hash
from service.model import DEFAULT_WORKSPACE
from service.ports.store import IngestMark
from tests.builders import ask, ids, texts
from tests.ingest.parts import Watch, capture_line, codes, ingest, request, stored_item, write_lines

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten lines, so that a small file has many."""
    monkeypatch.setattr(line_files, "BATCH_LINES", 10)


async def mark_of(app: Application, name: str) -> IngestMark:
    """What is remembered of a file."""
    return (await app.store.ingest_marks(DEFAULT_WORKSPACE, [name_hash(name)]))[name_hash(name)]


async def test_every_line_is_a_document(app: Application, tmp_path: Path) -> None:
    """Captures and BEIR lines, packed or not, are stored and searchable; blank lines count for numbers only."""
    write_lines(tmp_path / "own.ndjson", [capture_line(1, "alpha sill"), "", capture_line(2, "beta sill")])
    write_lines(tmp_path / "corpus.jsonl.gz", [{"_id": "b1", "title": "M > S", "text": "gamma sill"}])
    report = await ingest(app, request(tmp_path))
    assert (report.files, report.stored, report.passages, report.failed) == (2, 3, 3, 0)
    assert sorted(ids(await ask(app, "sill"))) == ["b1", "n1", "n2"]
    assert (await mark_of(app, "own.ndjson")).done == 3


async def test_a_finished_file_is_not_read_again(app: Application, tmp_path: Path) -> None:
    """An unchanged file that was read to its end is skipped whole, and nothing is written."""
    path = write_lines(tmp_path / "a.jsonl", [capture_line(n, f"sill {n}") for n in range(25)])
    await ingest(app, request(tmp_path))
    item, head = await stored_item(app, "n7"), await app.store.head()
    watch = Watch()
    report = await ingest(app, request(tmp_path), watch)
    assert (report.unchanged_files, report.stored, report.unchanged) == (1, 0, 0)
    assert (await stored_item(app, "n7"), await app.store.head()) == (item, head)
    assert watch.done == watch.size == path.stat().st_size


async def test_an_interrupted_file_goes_on_where_it_was(app: Application, tmp_path: Path) -> None:
    """The next run begins at the line after the last stored one: no line is decoded twice."""
    write_lines(tmp_path / "a.jsonl", [capture_line(n, f"sill {n}") for n in range(1, 46)])
    report = await ingest(app, request(tmp_path), Watch(stop_after=2))
    assert (report.interrupted, report.stored) == (True, 20)
    mark = await mark_of(app, "a.jsonl")
    assert (mark.done, mark.finished) == (20, False)
    report = await ingest(app, request(tmp_path))
    assert (report.interrupted, report.stored, report.unchanged) == (False, 25, 0)
    assert (await mark_of(app, "a.jsonl")).finished


async def test_a_changed_file_is_read_from_its_start(app: Application, tmp_path: Path) -> None:
    """C16: a file that grew and changed is read anew; what is unchanged in it stays as it is."""
    path = write_lines(tmp_path / "a.jsonl", [capture_line(n, f"sill {n}", item_id=None) for n in range(20)])
    await ingest(app, request(tmp_path))
    lines = [capture_line(n, "a new sill" if n == 3 else f"sill {n}", item_id=None) for n in range(22)]
    write_lines(path, lines)
    report = await ingest(app, request(tmp_path))
    assert (report.stored, report.superseded, report.unchanged) == (3, 1, 19)
    assert texts(await ask(app, "new")) == ["a new sill"]
    assert texts(await ask(app, "note 3"))[0] == "a new sill", "the old version of note 3 is gone"


BAD_LINES: list[tuple[object, str]] = [
    ("not json", "invalid_input"),
    ('{"item_id": "x"', "invalid_input"),
    (capture_line(1001, "x", surprise=1), "invalid_input"),
    (capture_line(1002, "x", content_type="poem"), "unknown_content_type"),
    (capture_line(1003, "x", passages=[]), "empty_document"),
    (capture_line(1004, "  "), "invalid_input"),
    (capture_line(1005, "a\x00b"), "invalid_text"),
    (capture_line(1006, "x", source_type="url"), "invalid_input"),
    (capture_line(1007, "x", fetched_at="2024-03-05T08:30:00"), "invalid_input"),
    (capture_line(1008, "x", item_id="a/b"), "invalid_input"),
    ({"_id": "b1", "title": "T", "text": ""}, "empty_document"),
]


async def test_bad_lines_stop_nothing(sqlite_app: Application, tmp_path: Path) -> None:
    """Every bad line is reported with its number and stable code; the lines around it are stored."""
    lines = [capture_line(0, "first sill"), *(line for line, _ in BAD_LINES), capture_line(1, "last sill")]
    path = write_lines(tmp_path / "a.jsonl", lines)
    with path.open("ab") as stream:
        stream.write(b'{"title": "\xff\xfe"}\n')
    watch = Watch()
    report = await ingest(sqlite_app, request(tmp_path), watch)
    expected = [("a.jsonl", number, code) for number, (_, code) in enumerate(BAD_LINES, start=2)]
    assert codes(watch.failures) == [*expected, ("a.jsonl", len(lines) + 1, "invalid_text")]
    assert (report.stored, report.failed) == (2, len(BAD_LINES) + 1)
    assert sorted(texts(await ask(sqlite_app, "sill"))) == ["first sill", "last sill"]


async def test_failures_are_reported_until_they_are_mended(sqlite_app: Application, tmp_path: Path) -> None:
    """A file with a bad line is never taken for finished, even across an interruption after that line."""
    write_lines(
        tmp_path / "a.jsonl", ["not json" if n == 5 else capture_line(n, f"sill {n}") for n in range(1, 46)]
    )
    await ingest(sqlite_app, request(tmp_path), Watch(stop_after=3))
    for _ in range(2):
        watch = Watch()
        await ingest(sqlite_app, request(tmp_path), watch)
        assert codes(watch.failures) == [("a.jsonl", 5, "invalid_input")]
    mark = await mark_of(sqlite_app, "a.jsonl")
    assert (mark.done, mark.finished) == (4, False)


async def test_an_id_stands_for_one_content(sqlite_app: Application, tmp_path: Path) -> None:
    """In one import an id that comes again with other content is refused; the same again is no error."""
    lines = [capture_line(1, "sill one"), capture_line(1, "sill two"), capture_line(1, "sill one")]
    write_lines(tmp_path / "a.jsonl", lines)
    watch = Watch()
    report = await ingest(sqlite_app, request(tmp_path), watch)
    assert (report.stored, report.unchanged) == (1, 1)
    assert codes(watch.failures) == [("a.jsonl", 2, "item_exists")]
    assert texts(await ask(sqlite_app, "sill")) == ["sill one"]


async def test_a_truncated_gzip_gives_what_it_holds(sqlite_app: Application, tmp_path: Path) -> None:
    """Every line before the damage is stored; the file is reported, also when it is read again."""
    path = write_lines(tmp_path / "a.jsonl.gz", [capture_line(n, f"sill {n * 7919}") for n in range(2_000)])
    path.write_bytes(path.read_bytes()[:-200])
    for _ in range(2):
        watch = Watch()
        report = await ingest(sqlite_app, request(tmp_path), watch)
        assert codes(watch.failures) == [("a.jsonl.gz", None, "unreadable_document")]
    assert report.unchanged == 0, "the stored lines are not read again"
    assert ids(await ask(sqlite_app, "7919")) == ["n1"]


async def test_a_gzip_bomb_is_cut_off(sqlite_app: Application, tmp_path: Path) -> None:
    """A gzip that unpacks to far more than it is worth is refused, in bounded memory."""
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as stream:
        for _ in range(40):
            stream.write(b" " * 1_000_000)
    watch = Watch()
    await ingest(sqlite_app, request(tmp_path), watch)
    assert codes(watch.failures) == [("a.jsonl.gz", None, "too_large")]


async def test_a_line_that_is_too_long_is_one_failure(sqlite_app: Application, tmp_path: Path) -> None:
    """A line over the bound costs that line."""
    longest = sqlite_app.settings.max_line_bytes
    write_lines(tmp_path / "a.jsonl", [capture_line(1, "x" * longest), capture_line(2, "a good sill")])
    watch = Watch()
    report = await ingest(sqlite_app, request(tmp_path), watch)
    assert (codes(watch.failures), report.stored) == ([("a.jsonl", 1, "too_large")], 1)
