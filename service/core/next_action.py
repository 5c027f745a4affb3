"""The exact next call after a read, for each surface that can make it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class NextAction:
    """What to do next: as an HTTP call and as a command line, both usable as they are."""

    do: str
    method: str
    path: str
    body: Mapping[str, object] | None
    command: str


def read_item(item_id: str) -> NextAction:
    """The whole document behind a passage."""
    return NextAction(
        do="read_item",
        method="GET",
        path=f"/v1/items/{quote(item_id, safe='')}",
        body=None,
        command=shlex.join(["citewell", "item", "show", item_id]),
    )
