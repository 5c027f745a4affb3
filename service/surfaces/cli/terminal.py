"""The two forms of every answer: JSON for programs, text for people."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.surfaces.cli.escaping import printable, printable_json

PIPED_WIDTH: Final = 160  # columns of a table that no terminal bounds
ABSENT: Final = "-"


def say(text: str) -> None:
    """A line of results for people."""
    click.echo(printable(text))


def tell(text: str) -> None:
    """A line about what is going on; never among the results."""
    click.echo(printable(text), err=True)


def counted(count: int | None, thing: str) -> str:
    """So many of something, by a noun that takes an s: 1 file, 2 files, unknown files."""
    if count is None:
        return f"unknown {thing}s"
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def say_json(value: object) -> None:
    """A result for programs: one JSON document in UTF-8."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    click.echo(printable_json(text).encode())


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """A table for people; None is shown as a dash."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(ABSENT if cell is None else printable(cell)) for cell in row))
    output().print(table)


def output() -> Console:
    """A console on standard output; wide where it is no terminal."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console
