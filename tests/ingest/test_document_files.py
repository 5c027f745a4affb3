"""Files that are one document each."""

import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fpdf import FPDF

from service.bootstrap import Application
from service.model import DEFAULT_WORKSPACE, ItemId
from tests.builders import ask, ids, texts
from tests.ingest.parts import Watch, codes, ingest, request, stored_item

pytestmark = pytest.mark.anyio


def write(folder: Path, name: str, text: str) -> Path:
    """A text file, its folders made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def pdf(*lines: str) -> bytes:
    """A PDF with a line of text each."""
    document = FPDF()
    document.add_page()
    document.set_font("helvetica", size=12)
    for line in lines:
        document.cell(text=line, new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


async def test_a_folder_is_ingested_recursively(app: Application, tmp_path: Path) -> None:
    """C1, C2: Markdown, HTML, text and PDF become items with their passages, and are searchable at once."""
    docs = tmp_path / "docs"
    write(
        docs, "a.md", "---\nitem_id: alpha\nversion: v7\n---\n# Sills\n\n## Drains\n\nThe alpha sill drains."
    )
    write(docs, "sub/b.html", "<html><body><h1>Tracks</h1><p>The beta track rolls.</p></body></html>")
    write(docs, "sub/deep/c.txt", "The gamma hinge turns.")
    (docs / "d.pdf").write_bytes(pdf("The delta gasket seals."))
    report = await ingest(app, request(tmp_path, docs))
    assert (report.files, report.stored, report.failed) == (4, 4, 0)
    found = (await ask(app, "alpha sill")).results[0]
    assert (found.heading, found.provenance.title, found.provenance.version) == ("Drains", "Sills", "v7")
    for word, name in (
        ("beta", "docs/sub/b.html"),
        ("gamma", "docs/sub/deep/c.txt"),
        ("delta", "docs/d.pdf"),
    ):
        assert (await ask(app, word)).results[0].provenance.source_filename == name


async def test_an_unchanged_file_only_gets_a_new_fetched_at(app: Application, tmp_path: Path) -> None:
    """C16: ingesting the same file again changes nothing but `fetched_at`, and logs nothing."""
    write(tmp_path, "docs/a.txt", "the sill drains")
    await ingest(app, request(tmp_path, tmp_path / "docs"))
    before, head = (await ask(app, "sill")).results[0].provenance, await app.store.head()
    report = await ingest(app, request(tmp_path, tmp_path / "docs"))
    after = (await ask(app, "sill")).results[0].provenance
    assert (report.unchanged_files, report.stored) == (1, 0)
    assert after.fetched_at > before.fetched_at
    assert (after.item_id, await app.store.head()) == (before.item_id, head)


async def test_a_stated_fetched_at_stands(app: Application, tmp_path: Path) -> None:
    """A document that states when it was fetched keeps saying so, however often it is ingested."""
    write(tmp_path, "docs/a.md", "---\nfetched_at: 2024-03-05T08:30:00Z\n---\nthe sill drains")
    for _ in range(2):
        await ingest(app, request(tmp_path, tmp_path / "docs"))
    provenance = (await ask(app, "sill")).results[0].provenance
    assert provenance.fetched_at == datetime(2024, 3, 5, 8, 30, tzinfo=UTC)


async def test_a_changed_file_supersedes_whole(app: Application, tmp_path: Path) -> None:
    """C16: a shorter version of a file takes the place of the longer one and leaves no tail."""
    path = write(tmp_path, "docs/a.md", "# T\n\n## One\n\nold sill one\n\n## Two\n\nold sill two")
    await ingest(app, request(tmp_path, tmp_path / "docs"))
    old = (await ask(app, "sill")).results[0].provenance.item_id
    path.write_text("# T\n\n## One\n\nnew sill one")
    report = await ingest(app, request(tmp_path, tmp_path / "docs"))
    assert (report.stored, report.superseded) == (1, 1)
    assert texts(await ask(app, "sill")) == ["new sill one"]
    stale = await stored_item(app, old)
    assert stale is not None
    assert stale.superseded_by == ids(await ask(app, "sill"))[0]


async def test_files_of_one_source_supersede_in_their_order(app: Application, tmp_path: Path) -> None:
    """C17: two files that state one source become a chain, and ingesting both again changes nothing."""
    head = "---\nsource_url: https://a.example/sill\nitem_id: {}\n---\n# T\n\n{}"
    write(tmp_path, "docs/1.md", head.format("first", "sill one"))
    write(tmp_path, "docs/2.md", head.format("second", "sill two"))
    await ingest(app, request(tmp_path, tmp_path / "docs"))
    assert texts(await ask(app, "sill")) == ["sill two"]
    report = await ingest(app, request(tmp_path, tmp_path / "docs"))
    assert (report.unchanged_files, report.stored) == (2, 0)
    async with app.store.snapshot() as snapshot:
        chain = await snapshot.supersession(DEFAULT_WORKSPACE, ItemId("first"))
    assert [item.provenance.item_id for item in chain] == ["first", "second"]


async def test_a_retired_document_stays_retired(app: Application, tmp_path: Path) -> None:
    """C14: ingesting the unchanged file of a retired item brings nothing back."""
    write(tmp_path, "docs/a.txt", "the sill drains")
    await ingest(app, request(tmp_path, tmp_path / "docs"))
    item_id = (await ask(app, "sill")).results[0].provenance.item_id
    await app.lifecycle.retire(DEFAULT_WORKSPACE, item_id)
    before = await stored_item(app, item_id)
    await ingest(app, request(tmp_path, tmp_path / "docs"))
    assert ids(await ask(app, "sill")) == []
    assert await stored_item(app, item_id) == before


async def test_other_options_are_read_again(sqlite_app: Application, tmp_path: Path) -> None:
    """A file is read again when what it would become has changed, though its bytes have not."""
    write(tmp_path, "docs/a.txt", "the sill drains")
    await ingest(sqlite_app, request(tmp_path, tmp_path / "docs"))
    report = await ingest(sqlite_app, request(tmp_path, tmp_path / "docs", url_prefix="https://a.example"))
    assert (report.unchanged_files, report.stored) == (0, 1)
    urls = {result.provenance.source_url for result in (await ask(sqlite_app, "sill")).results}
    assert urls == {None, "https://a.example/docs/a.txt"}


async def test_the_version_is_the_day_of_the_file(sqlite_app: Application, tmp_path: Path) -> None:
    """Without a version a document's version is the UTC day its file was last modified."""
    path = write(tmp_path, "docs/a.txt", "the sill drains")
    await ingest(sqlite_app, request(tmp_path, tmp_path / "docs"))
    day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    assert (await ask(sqlite_app, "sill")).results[0].provenance.version == day


async def test_a_file_named_twice_is_read_once(sqlite_app: Application, tmp_path: Path) -> None:
    """The same file, named itself and by its folder, is one document."""
    path = write(tmp_path, "docs/a.txt", "the sill drains")
    report = await ingest(sqlite_app, request(tmp_path, tmp_path / "docs", path))
    assert (report.files, report.stored, report.failed) == (1, 1, 0)


async def test_two_files_never_share_a_name(sqlite_app: Application, tmp_path: Path) -> None:
    """A file inside the base and one of the same name outside are two sources: neither supersedes the other."""
    inside = write(tmp_path, "base/docs/a.txt", "inside sill")
    outside = write(tmp_path, "docs/a.txt", "outside sill")
    watch = Watch()
    report = await ingest(sqlite_app, request(tmp_path / "base", inside, outside), watch)
    assert (report.stored, report.superseded, watch.failures) == (2, 0, [])
    assert sorted(texts(await ask(sqlite_app, "sill"))) == ["inside sill", "outside sill"]


async def test_files_of_unknown_kinds_are_counted(sqlite_app: Application, tmp_path: Path) -> None:
    """What a folder holds and nobody reads is no failure, and is said in the report."""
    write(tmp_path, "base/a.txt", "sill")
    write(tmp_path, "base/b.docx", "no document")
    report = await ingest(sqlite_app, request(tmp_path / "base", tmp_path / "base"), Watch())
    assert (report.stored, report.failed, report.skipped) == (1, 0, 1)


def zip_bomb_pdf() -> bytes:
    """A one-page PDF whose content stream unpacks to 200 MB."""
    packer = zlib.compressobj(9)
    stream = b"".join(packer.compress(b"BT ET\n" * 700_000) for _ in range(50)) + packer.flush()
    parts = [
        b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n",
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n",
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources 6 0 R>>endobj\n",
        b"4 0 obj<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream endobj\n" % (len(stream), stream),
        b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n",
        b"6 0 obj<</Font<</F 5 0 R>>>>endobj\n",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for part in parts:
        offsets.append(len(body))
        body += part
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer<</Size 7/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(body)
    return body + b"xref\n0 7\n0000000000 65535 f \n" + table + trailer


BAD_FILES = {
    "scripts.html": (b"<html><body><script>var sill = 1</script></body></html>", "empty_document"),
    "blank.md": (b"\n\n", "empty_document"),
    "cut.pdf": (pdf("The delta gasket seals.")[:300], "unreadable_document"),
    "bomb.pdf": (zip_bomb_pdf(), "too_large"),
    "binary.txt": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, "unreadable_document"),
    "latin.md": (b"# T\n\n" + "sill größe ü ".encode() * 20 + b"\xff\xfe broken", "invalid_text"),
    "date.md": (b"---\nfetched_at: last week\n---\nthe sill", "invalid_input"),
    "type.md": (b"---\ncontent_type: poem\n---\nthe sill", "unknown_content_type"),
    "id.md": (b"---\nitem_id: a/b\n---\nthe sill", "invalid_input"),
    "yaml.md": (b"---\na: [1\n---\nthe sill", "unreadable_document"),
    "large.txt": (b"sill " * 400_000, "too_large"),
}


async def test_bad_files_stop_nothing(sqlite_app: Application, tmp_path: Path) -> None:
    """Every bad file is reported by its name and stable code, and the good ones around it are stored."""
    for name, (data, _) in BAD_FILES.items():
        (tmp_path / name).write_bytes(data)
    write(tmp_path, "a-good.txt", "the first sill")
    write(tmp_path, "z-good.txt", "the last sill")
    watch = Watch()
    report = await ingest(sqlite_app, request(tmp_path), watch)
    assert codes(watch.failures) == [(name, None, code) for name, (_, code) in sorted(BAD_FILES.items())]
    assert (report.stored, report.failed) == (2, len(BAD_FILES))
    assert sorted(texts(await ask(sqlite_app, "sill"))) == ["the first sill", "the last sill"]
    again = await ingest(sqlite_app, request(tmp_path))
    assert (again.unchanged_files, again.failed) == (2, len(BAD_FILES)), "failures are reported every time"


async def test_paths_that_give_nothing_are_reported_when_they_were_asked_for(
    sqlite_app: Application, tmp_path: Path
) -> None:
    """A missing path and a named file of an unknown kind are failures; unknown kinds in folders are not."""
    (tmp_path / "picture.png").write_bytes(b"x")
    (tmp_path / "table.docx").write_bytes(b"x")
    watch = Watch()
    await ingest(
        sqlite_app, request(tmp_path, tmp_path, tmp_path / "table.docx", tmp_path / "gone.md"), watch
    )
    assert [(Path(name).name, code) for name, _, code in codes(watch.failures)] == [
        ("table.docx", "unreadable_document"),
        ("gone.md", "not_found"),
    ]


async def test_a_changed_document_cannot_keep_its_stated_id(sqlite_app: Application, tmp_path: Path) -> None:
    """Items are never rewritten: a stated id with other content is reported and the old one stands."""
    path = write(tmp_path, "a.md", "---\nitem_id: sill\n---\nthe old sill")
    await ingest(sqlite_app, request(tmp_path))
    path.write_text("---\nitem_id: sill\n---\nthe new sill")
    watch = Watch()
    await ingest(sqlite_app, request(tmp_path), watch)
    assert codes(watch.failures) == [("a.md", None, "item_exists")]
    assert texts(await ask(sqlite_app, "sill")) == ["the old sill"]


async def test_stopping_keeps_whole_groups(sqlite_app: Application, tmp_path: Path) -> None:
    """An ingest that is asked to stop ends between groups, says so, and goes on when it is run again."""
    for number in range(250):
        write(tmp_path, f"{number:03}.txt", f"sill number {number}")
    report = await ingest(sqlite_app, request(tmp_path), Watch(stop_after=1))
    assert (report.interrupted, report.stored) == (True, 100)
    report = await ingest(sqlite_app, request(tmp_path))
    assert (report.interrupted, report.stored, report.unchanged_files) == (False, 150, 100)


def test_the_bomb_is_one() -> None:
    """The PDF of the table above unpacks to a thousand times its size."""
    packed = zip_bomb_pdf()
    start = packed.index(b"stream\n") + 7
    assert len(zlib.decompressobj().decompress(packed[start:])) > 500 * len(packed)
