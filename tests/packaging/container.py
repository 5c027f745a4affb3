"""A Dockerfile and a .dockerignore, read as far as the tests need it."""

import json
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath


@dataclass(slots=True)
class Stage:
    """The instructions between one FROM and the next, in order."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        """The arguments of every such instruction."""
        return [argument for name, argument in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        """The argument of the only such instruction."""
        (argument,) = self.all(instruction)
        return argument

    @property
    def copied(self) -> list[tuple[list[str], str]]:
        """Sources in the build's context, and where each COPY puts them."""
        found = []
        for argument in self.all("COPY"):
            words = shlex.split(argument)
            if not words[0].startswith("--from="):
                found.append((words[:-1], words[-1]))
        return found

    @property
    def variables(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = (word.partition("=") for argument in self.all("ENV") for word in shlex.split(argument))
        return {name: value for name, _, value in pairs}


def stages(dockerfile: Path) -> list[Stage]:
    """The stages of a Dockerfile; lines that go on are joined, comments left out."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in text.replace("\\\n", " ").splitlines():
        instruction, _, argument = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = argument.partition(" AS ")
            found.append(Stage(base, name))
        elif instruction and found:
            found[-1].steps.append((instruction, argument.strip()))
    return found


def command(argument: str) -> list[str]:
    """A command in the form of a JSON list, as ENTRYPOINT, CMD and HEALTHCHECK have it."""
    words = json.loads(argument[argument.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return list(words)


def sent(ignore: Path, name: str) -> bool:
    """Whether a file of the checkout gets into the build's context; the last pattern that matches decides."""
    is_sent = True
    for line in ignore.read_text().splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            wanted = pattern.startswith("!")
            if _matches(pattern.lstrip("!"), PurePosixPath(name)):
                is_sent = wanted
    return is_sent


def _matches(pattern: str, path: PurePosixPath) -> bool:
    """A pattern matches a path or a folder above it; `**/` stands for any folders."""
    places = [path, *path.parents][:-1]
    if pattern.startswith("**/"):
        return any(fnmatch(place.name, pattern[3:]) for place in places)
    depth = pattern.count("/") + 1
    return any(len(place.parts) == depth and fnmatch(str(place), pattern) for place in places)
