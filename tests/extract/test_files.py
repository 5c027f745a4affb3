"""Source files under named paths."""

import os
import sys
from pathlib import Path

import pytest

from service.adapters.extract import Format, SkippedPath, SkipReason, SourceKind, discover
from service.errors import UnreadableDocument


def made(root: Path, *names: str) -> None:
    """Write the files below `root`, with the directories they need."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def found(*paths: Path) -> tuple[list[str], list[tuple[str, SkipReason]]]:
    """The names of the source files, and of the paths passed over with the reason."""
    skipped: list[SkippedPath] = []
    files = [file.path.name for file in discover(paths, skipped.append)]
    return files, [(skip.path.name, skip.reason) for skip in skipped]


def test_files_are_found_in_one_order(tmp_path: Path) -> None:
    """C12: directories are read by name, whatever order the file system keeps."""
    made(tmp_path, "b/2.md", "b/1.md", "a.txt", "c.html", "B.md", "b/c/d/e.pdf")
    assert found(tmp_path)[0] == ["B.md", "a.txt", "1.md", "2.md", "e.pdf", "c.html"]


@pytest.mark.parametrize(
    ("name", "kind", "format"),
    [
        ("a.md", SourceKind.MARKDOWN, Format.MARKDOWN),
        ("a.MARKDOWN", SourceKind.MARKDOWN, Format.MARKDOWN),
        ("a.htm", SourceKind.HTML, Format.HTML),
        ("a.b.Html", SourceKind.HTML, Format.HTML),
        ("a.txt", SourceKind.TEXT, Format.TEXT),
        ("a.PDF", SourceKind.PDF, Format.PDF),
        ("a.jsonl", SourceKind.NDJSON, None),
        ("a.ndjson", SourceKind.NDJSON, None),
        ("a.jsonl.gz", SourceKind.NDJSON, None),
        ("a.ndjson.GZ", SourceKind.NDJSON, None),
    ],
)
def test_the_ending_tells_the_kind(
    tmp_path: Path, name: str, kind: SourceKind, format: Format | None
) -> None:
    """Endings count in any case; NDJSON is no document format."""
    made(tmp_path, name)
    (file,) = discover([tmp_path])
    assert (file.path.name, file.kind, file.kind.document_format) == (name, kind, format)


def test_what_is_passed_over_is_reported(tmp_path: Path) -> None:
    """Hidden names and unknown endings are skipped with their reason; they are no fault."""
    made(tmp_path, "a.md", ".git/x.md", ".hidden.md", "b.docx", "c.gz", "noending")
    files, skipped = found(tmp_path)
    assert files == ["a.md"]
    assert skipped == [
        (".git", SkipReason.HIDDEN),
        (".hidden.md", SkipReason.HIDDEN),
        ("b.docx", SkipReason.UNKNOWN_ENDING),
        ("c.gz", SkipReason.UNKNOWN_ENDING),
        ("noending", SkipReason.UNKNOWN_ENDING),
    ]
    assert [file.path.name for file in discover([tmp_path])] == ["a.md"]


def test_a_missing_path_costs_only_itself(tmp_path: Path) -> None:
    """A named path that does not exist is a fault of that path; the others are read."""
    made(tmp_path, "a.md", "b.md")
    files, skipped = found(tmp_path / "a.md", tmp_path / "missing", tmp_path / "b.md")
    assert (files, skipped) == (["a.md", "b.md"], [("missing", SkipReason.MISSING)])
    with pytest.raises(UnreadableDocument, match="missing"):
        list(discover([tmp_path / "missing"]))


@pytest.mark.parametrize("name", ["a.docx", "a.md/below", "nul\0.md"])
def test_a_named_path_without_a_document_is_a_fault(tmp_path: Path, name: str) -> None:
    """Who names a path wants it read: silence would be wrong."""
    made(tmp_path, "a.docx", "a.md")
    with pytest.raises(UnreadableDocument):
        list(discover([tmp_path / name]))


def test_a_named_hidden_path_is_read(tmp_path: Path) -> None:
    """Hidden names are passed over inside directories only."""
    made(tmp_path, ".notes/.a.md", ".notes/b.md")
    assert found(tmp_path / ".notes")[0] == ["b.md"]
    assert found(tmp_path / ".notes" / ".a.md")[0] == [".a.md"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    """Each directory is read once, whatever links lead to it; a link to itself is reported."""
    made(tmp_path, "a/x.md", "b/y.md")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b" / "side").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    files, skipped = found(tmp_path, tmp_path / "a")
    assert files == ["x.md", "y.md"]
    assert sorted(skipped) == [
        ("a", SkipReason.ALREADY_READ),
        ("self", SkipReason.UNREADABLE),
        ("side", SkipReason.ALREADY_READ),
        ("up", SkipReason.ALREADY_READ),
    ]


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    """Links to files are followed; one that leads nowhere is reported and is a fault only if named."""
    made(tmp_path, "store/data")
    (tmp_path / "a.md").symlink_to(tmp_path / "store" / "data")
    (tmp_path / "b.md").symlink_to(tmp_path / "gone")
    assert found(tmp_path)[0] == ["a.md"]
    assert ("b.md", SkipReason.MISSING) in found(tmp_path)[1]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """C21: what lies outside of the folder that was asked for is not read, whatever a link in it says."""
    made(tmp_path, "outside/secret.md", "outside/more/b.md", "asked/own.md")
    (tmp_path / "asked" / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (tmp_path / "asked" / "folder").symlink_to(tmp_path / "outside" / "more")
    (tmp_path / "asked" / "inside.md").symlink_to(tmp_path / "asked" / "own.md")
    files, skipped = found(tmp_path / "asked")
    assert files == ["inside.md", "own.md"]
    assert skipped == [("file.md", SkipReason.LEADS_OUT), ("folder", SkipReason.LEADS_OUT)]
    assert found(tmp_path / "asked" / "file.md")[0] == ["file.md"]
    (tmp_path / "linked").symlink_to(tmp_path / "asked")
    assert found(tmp_path / "linked")[0] == ["inside.md", "own.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes and byte names are POSIX")
def test_odd_entries_do_not_hang_or_fail(tmp_path: Path) -> None:
    """C21: a named pipe is never opened; a name that is no UTF-8 is reported as a fault."""
    os.mkfifo(tmp_path / "pipe.md")
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    made(tmp_path, "z.md")
    skipped: list[SkippedPath] = []
    assert [file.path.name for file in discover([tmp_path], skipped.append)] == ["z.md"]
    assert [(skip.reason, skip.is_fault) for skip in skipped] == [
        (SkipReason.NOT_A_FILE, False),
        (SkipReason.NAME_NOT_UTF8, True),
    ]


def test_a_deep_tree_is_read(tmp_path: Path) -> None:
    """C21: a tree of 400 levels is read to its end."""
    made(tmp_path, "/".join(["d"] * 400) + "/a.md")
    assert found(tmp_path)[0] == ["a.md"]
