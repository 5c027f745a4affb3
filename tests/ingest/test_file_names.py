"""What a local file is called as a source."""

from pathlib import Path

import pytest

from service.ingest.file_names import FileNaming
from service.model import Source, SourceType


def named(naming: FileNaming, path: Path) -> str:
    """The name of a path, as an ingest finds it."""
    return naming.name(naming.place(path))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working folder with a document in it, and a document outside."""
    (tmp_path / "work" / "docs").mkdir(parents=True)
    (tmp_path / "work" / "docs" / "a.md").write_text("a")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.md").write_text("b")
    return tmp_path


def test_a_file_has_one_name_however_it_is_spelt(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative, absolute, with dots or through a linked folder: the same file is the same source."""
    monkeypatch.chdir(tree / "work")
    (tree / "linked").symlink_to(tree / "work" / "docs")
    naming = FileNaming(Path.cwd())
    spellings = [
        Path("docs/a.md"),
        Path("./docs/../docs/a.md"),
        tree / "work" / "docs" / "a.md",
        tree / "linked" / "a.md",
    ]
    assert {named(naming, path) for path in spellings} == {"docs/a.md"}


def test_a_file_outside_is_named_by_its_way_from_the_base(tree: Path) -> None:
    """A file outside the base has a name that does not depend on which of its folders was asked for."""
    naming = FileNaming(tree / "work")
    assert named(naming, tree / "other" / "b.md") == "../other/b.md"
    assert named(naming, tree / "work" / ".." / "other" / "b.md") == "../other/b.md"


def test_a_linked_file_keeps_the_name_of_its_link(tree: Path) -> None:
    """A link to a file is a name of its own, so that pointing it at the next version supersedes."""
    current = tree / "work" / "current.md"
    current.symlink_to(tree / "other" / "b.md")
    assert named(FileNaming(tree / "work"), current) == "current.md"


def test_a_name_holds_no_path_of_this_machine(tree: Path) -> None:
    """Names are relative, with forward slashes."""
    name = named(FileNaming(tree / "work"), tree / "work" / "docs" / "a.md")
    assert not Path(name).is_absolute()
    assert str(tree) not in name


def test_a_url_prefix_makes_urls_of_names() -> None:
    """With a prefix the source is the URL, its path escaped."""
    naming = FileNaming(Path("/base"), "https://docs.example/manual/")
    assert naming.source("a b/ü.html") == Source(
        SourceType.URL, "https://docs.example/manual/a%20b/%C3%BC.html", None
    )


def test_without_a_prefix_a_file_is_an_upload() -> None:
    """The default source of a local file is an upload under its name."""
    assert FileNaming(Path("/base")).source("docs/a.md") == Source(SourceType.UPLOAD, None, "docs/a.md")
