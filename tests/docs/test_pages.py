"""What the pages name exists: commands, links, files, tests and paths of the API."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click
import pytest

from service.settings import Settings
from service.surfaces.cli import main
from service.surfaces.http.app import create_app
from tests.docs.reading import PAGES, ROOT, Page, anchor

_FILE = re.compile(r"(?:service|embeddings|eval|tests|docs)/[\w./-]*")
_TEST = re.compile(r"([\w/]+\.py)::(\w+)")
_API = re.compile(r"(?:^|\s)(/(?:v1|health|metrics|schema|reports|status|sign-in)\b[\w/{}.…-]*)")
IN_TESTS = ROOT / "tests"
# Made by those who follow the pages, and named there.
MADE_LATER = ("eval/runs",)
OTHERS = ("/v1/traces",)  # of the receiver of traces


@pytest.fixture(params=PAGES, ids=[path.name for path in PAGES])
def page(request: pytest.FixtureRequest) -> Page:
    """Each page."""
    path: Path = request.param
    return Page(path)


def opened(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name and what follows its name. Raises LookupError."""
    command: click.Command = main
    left = list(words[1:])
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        name = left.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            raise LookupError(f"{name} in {' '.join(words)}")
        command = found
    return command, left


def options_of(command: click.Command) -> set[str]:
    """Every spelling of an option."""
    named = {spelling for parameter in command.params for spelling in parameter.opts}
    return {*named, "--help", "-h", "--version", "--"}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of every command that does something."""
    if not isinstance(command, click.Group):
        yield path
        return
    for name in command.list_commands(click.Context(command)):
        found = command.get_command(click.Context(command), name)
        assert found is not None
        yield from leaves(found, (*path, name))


def test_commands_exist(page: Page) -> None:
    """Every citewell command that a page names or has typed exists, and so does each of its options."""
    for words in page.commands():
        if len(words) < 2 or words[1] == "COMMAND":
            continue
        command, left = opened(words)
        given = {word.partition("=")[0] for word in left if word.startswith("-") and word != "-"}
        assert given <= options_of(command), " ".join(words)


def test_every_command_is_documented() -> None:
    """Each command of the program is named on some page, the harness's own on its page."""
    named = {" ".join(words[1:]) for path in PAGES for words in Page(path).commands()}
    named |= {span for path in PAGES for span in Page(path).spans if span.startswith("eval ")}
    missing = [
        name
        for name in map(" ".join, leaves(main))
        if not any(text == name or text.startswith(f"{name} ") for text in named)
    ]
    assert missing == []


def test_links_lead_somewhere(page: Page) -> None:
    """Every link to a file of the project leads to one, and its anchor to a heading there."""
    for link in page.links:
        if link.startswith(("http://", "https://")):
            continue
        target, _, place = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), link
        assert path.is_relative_to(ROOT), link
        if place:
            assert place in Page(path).anchors, link


def test_files_exist(page: Page) -> None:
    """Every file and folder of the project that a page names is there."""
    for span in page.spans:
        if _FILE.fullmatch(span) and not span.startswith(MADE_LATER):
            assert (ROOT / span).exists(), span


def test_tests_exist(page: Page) -> None:
    """Every test that a page rests a claim on is there."""
    for span in page.spans:
        named = _TEST.fullmatch(span)
        if named is not None:
            assert named.group(2) in functions_of(IN_TESTS / named.group(1)), span


def test_every_guarantee_names_its_tests() -> None:
    """Each section of the guarantees but the first names tests, and says what is excepted or has no exception."""
    text = Page(ROOT / "docs" / "guarantees.md").text
    for section in text.split("\n## ")[1:]:
        assert len(_TEST.findall(section)) >= 2, section.splitlines()[0]


@cache
def functions_of(file: Path) -> frozenset[str]:
    """The functions of a file of tests."""
    tree = ast.parse(file.read_text("utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found)


@cache
def routes() -> tuple[re.Pattern[str], ...]:
    """The paths of the service, a parameter standing for anything."""
    paths = {re.sub(r"\{[^}]*\}", "{}", route.path) for route in create_app(Settings()).routes}
    return tuple(re.compile(re.escape(path).replace(r"\{\}", "[^/]+")) for path in sorted(paths))


def test_paths_of_the_service_exist(page: Page) -> None:
    """Every path of the service that a page names or has typed is a route of it."""
    typed = [re.sub(r"http://127\.0\.0\.1:8000", " ", line) for line in page.typed()]
    for text in (*page.spans, *typed):
        for path in set(_API.findall(text)).difference(OTHERS):
            beginning = path.endswith("…")
            assert any(
                route.pattern.startswith(re.escape(path[:-1])) if beginning else route.fullmatch(path)
                for route in routes()
            ), path


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Keys and workspaces", "keys-and-workspaces"),
        ("When Qdrant is down", "when-qdrant-is-down"),
        ("A key, `a b`: what?", "a-key-a-b-what"),
    ],
)
def test_anchors_are_githubs(heading: str, name: str) -> None:
    """A heading's name in an address is small, its words joined by dashes, its punctuation gone."""
    assert anchor(heading) == name
