"""Nothing in the program turns the flag: the harness has no way to, and every way goes through one use case."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTING = frozenset(
    {
        "service.ingest.flag",
        "service.ingest.kill_switch",
        "service.adapters.sql.rollout",
        "service.adapters.flags",
        "service.adapters.flags.report_file",
        "service.adapters.flags.sweep",
    }
)
WRITING = frozenset({"changing", "sweeping"})
ORDERING = frozenset({"set_flag", "off_everywhere"})
WAYS = (
    WRITING
    | ORDERING
    | {"FlagOrder", "FlagControl", "FlagLedger", "SqlFlagLedger", "FlagWrite"}
    | {"KillSwitch", "FlagSweep", "SqlFlagSweep", "FlagWrites"}
)


def modules(package: str) -> list[Path]:
    """Every module of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module and name that a file imports, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def words(tree: ast.AST) -> Iterator[str]:
    """Every name and attribute that a file uses, and every text in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Constant(value=str(text)):
                yield text


@pytest.mark.parametrize("path", modules("eval"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_harness_has_no_way_to_turn_the_flag(path: Path) -> None:
    """E3: no module of the harness imports what sets the flag, names it, or runs the command that does."""
    tree = ast.parse(path.read_text())
    assert SETTING.isdisjoint(imported(tree))
    used = set(words(tree))
    assert WAYS.isdisjoint(used)
    assert not any("flag set" in text or "rollout_flag" in text for text in used)


def test_the_row_is_written_in_one_place() -> None:
    """E3: two use cases write the flag's rows, and only surfaces, for a person, give it orders."""
    writing = {
        path.relative_to(ROOT).as_posix()
        for package in ("service", "eval", "embeddings")
        for path in modules(package)
        if not WRITING.isdisjoint(words(ast.parse(path.read_text())))
    }
    assert writing == {"service/ingest/flag.py", "service/ingest/kill_switch.py"}
    ordering = {
        path.relative_to(ROOT).as_posix()
        for path in modules("service")
        if not ORDERING.isdisjoint(words(ast.parse(path.read_text())))
    }
    assert all(place.startswith("service/surfaces/cli/") for place in ordering)
