"""What the pages of the documentation say: their code, commands, links and headings."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import service

ROOT = Path(service.__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
SHELLS = ("console", "sh", "bash")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"\bcitewell(?: [^\s].*)?$")
_ENDS_COMMAND = ("|", "||", "&&", ";", "#", ">", "<")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the documentation."""

    path: Path

    @property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text("utf-8")

    @property
    def prose(self) -> str:
        """What stands outside of fences."""
        return _FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        """Code within sentences; a line may end in the middle of one."""
        return [" ".join(span.split()) for span in _SPAN.findall(self.prose)]

    @property
    def links(self) -> list[str]:
        """Where the links lead."""
        return _LINK.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The headings' names in an address, as GitHub makes them."""
        return {anchor(heading) for heading in _HEADING.findall(self.prose)}

    def typed(self) -> Iterator[str]:
        """What a reader is told to type into a shell, a line that ends in a backslash with the next one."""
        for language, body in _FENCE.findall(self.text):
            if language not in SHELLS:
                continue
            for line in body.replace("\\\n", " ").splitlines():
                if language != "console" or line.startswith("$ "):
                    yield re.sub(r"\s+", " ", line.removeprefix("$ ")).strip()

    def commands(self) -> Iterator[list[str]]:
        """The words of every citewell command that is named or to be typed."""
        for text in (*self.spans, *self.typed()):
            found = _COMMAND.search(text.replace("$(", "").replace(")", " "))
            if found is not None:
                yield list(_words(found.group(0)))


def anchor(heading: str) -> str:
    """A heading's name in an address."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _words(command: str) -> Iterator[str]:
    """The words up to the end of the command."""
    for word in shlex.split(command.replace("…", "x")):
        if word.startswith(_ENDS_COMMAND):
            return
        yield word
