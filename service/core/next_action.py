"""The exact next call after a read, for each surface that can make it."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NextAction:
    """What to do next: as an HTTP call and as a command line, both usable as they are."""

    do: str
    method: str
    path: str
    body: Mapping[str, object] | None
    command: str


def next_page(path: str, body: Mapping[str, object], command: list[str], cursor: str) -> NextAction:
    """The following page of the same request, asked for by POST."""
    return NextAction(
        do="next_page",
        method="POST",
        path=path,
        body={**body, "cursor": cursor},
        command=shlex.join([*command, "--cursor", cursor]),
    )


def read_item(item_id: str) -> NextAction:
    """The whole document behind the best hit."""
    return NextAction(
        do="read_item",
        method="GET",
        path=f"/v1/items/{item_id}",
        body=None,
        command=shlex.join(["citewell", "item", "show", item_id]),
    )


def as_json(action: NextAction) -> str:
    """For tests and terminals: one line."""
    return json.dumps({"do": action.do, "method": action.method, "path": action.path, "body": action.body})
