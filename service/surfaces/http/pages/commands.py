"""A page's request for a terminal: with curl, and with the command line."""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from service.core.access import Access
from service.model import DEFAULT_LIMIT
from service.search.request import ByQuery, BySelection, BySystem, Explain, RetrieveOptions, Subject
from service.surfaces.envelope import NextStep
from service.surfaces.http.access import WORKSPACE_HEADER

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class Commands:
    """Two lines that do the same."""

    curl: str
    citewell: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the commands go: this site, and whose workspace; `default_workspace` need not be named."""

    site: str
    access: Access
    default_workspace: str

    @property
    def is_default(self) -> bool:
        """Whether the workspace can be left out."""
        return self.access.workspace == self.default_workspace


def same_request(subject: Subject, options: RetrieveOptions, place: Place) -> Commands:
    """The retrieval that a page shows."""
    stated = _stated(options)
    command = ["citewell", "retrieve"]
    for name, value in stated.items():
        command += ["--explain"] if value is True else [f"--{name.replace('_', '-')}", str(value)]
    match subject:
        case BySystem(system_id):
            query = urlencode({name: "true" if value is True else value for name, value in stated.items()})
            path = f"/v1/systems/{quote(system_id, safe='')}/passages" + (f"?{query}" if query else "")
            return _commands("GET", path, None, [*command, "--system", system_id], place)
        case BySelection(context):
            body: dict[str, object] = {"option_ids": list(context.option_ids), **stated}
            command += ["--options", ",".join(context.option_ids)]
            return _commands("POST", "/v1/selection/passages", body, command, place)
        case ByQuery(text):
            command = [*_in_workspace(command, place), "--", text]
            return Commands(_curl("POST", "/v1/retrieve", {"query": text, **stated}, place), _line(command))


def next_commands(step: NextStep, place: Place) -> Commands:
    """A next step as it was worked out for every surface."""
    return Commands(_curl(step.http.method, step.http.path, step.http.body, place), step.cli)


def shell_word(text: str) -> str:
    """One word of a shell's command line; what is not printable ASCII or plain letters is written out."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _UNPRINTABLE.sub(lambda found: _escape(found[0]), escaped) + "'"


def _commands(
    method: str, path: str, body: dict[str, object] | None, command: list[str], place: Place
) -> Commands:
    return Commands(_curl(method, path, body, place), _line(_in_workspace(command, place)))


def _curl(method: str, path: str, body: dict[str, object] | None, place: Place) -> str:
    words = ["curl", "-s"]
    if place.access.key_id is not None:
        words.append('-H "Authorization: Bearer $CITEWELL_KEY"')
    if not place.is_default:
        words.append(f"-H {shlex.quote(f'{WORKSPACE_HEADER}: {quote(place.access.workspace)}')}")
    if body is not None:
        words.append("-H 'Content-Type: application/json'")
        words.append(f"-d {shlex.quote(json.dumps(body))}")
    elif method != "GET":
        words.append(f"-X {method}")
    return " ".join([*words, shlex.quote(place.site + path)])


def _line(command: list[str]) -> str:
    return " ".join(map(shell_word, command))


def _in_workspace(command: list[str], place: Place) -> list[str]:
    return command if place.is_default else [*command, "--workspace", place.access.workspace]


def _stated(options: RetrieveOptions) -> dict[str, object]:
    """The options that are not at their defaults, by their wire names."""
    stated: dict[str, object] = {}
    if options.limit != DEFAULT_LIMIT:
        stated["limit"] = options.limit
    if options.content_type is not None:
        stated["content_type"] = options.content_type.value
    if options.explain is Explain.ON:
        stated["explain"] = True
    if options.cursor is not None:
        stated["cursor"] = options.cursor
    return stated


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"
