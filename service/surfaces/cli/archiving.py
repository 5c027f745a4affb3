"""`citewell export` and `citewell import`: backup and restore of everything that is authoritative."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from service.bootstrap import archiving
from service.ingest.archive import ArchiveSummary, ArchiveWatch
from service.model import Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.archive_files import STANDARD, reading, writing
from service.surfaces.cli.options import json_option, workspace_of
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, tell

LINE_EVERY: Final = 5.0  # seconds between two plain lines


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=str(STANDARD))
@click.option("--workspace", metavar="NAME", help="Only this workspace; by default all of them.")
def export(*, file: Path, workspace: str | None) -> None:
    """Write everything that is stored to an archive.

    FILE is NDJSON, gzipped if its name ends in .gz; without it, or for -, standard output. One moment of the
    database, whatever is written meanwhile. API keys are in it as hashes: keep it as safe as the database.
    """
    settings = read_settings()
    named = None if workspace is None else workspace_of(settings, workspace)
    tell(f"exported {_told(run(_exported(settings, file, named)))}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def import_(*, file: Path, as_json: bool) -> None:
    """Fill an empty database from an archive, or leave it empty.

    FILE is what `citewell export` wrote, from either kind of database; - is standard input. An archive that was
    cut off or altered stores nothing. Indexes are built from the rows.
    """
    summary = run(_restored(read_settings(), file))
    if as_json:
        say_json({"rows": summary.counts, "sha256": summary.sha256, "source": summary.header.database_id})
    else:
        say(f"imported {_told(summary)}")


class LineWatch:
    """Says now and then how far it is. Implements ArchiveWatch."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def advanced(self, rows: int, fraction: float | None) -> None:
        """Say it, if nothing was said for some time."""
        if time.monotonic() - self._said_at < LINE_EVERY:
            return
        self._said_at = time.monotonic()
        tell(f"{rows} rows" if fraction is None else f"{rows} rows, {100 * fraction:.0f} %")


class BarWatch:
    """Draws a bar; one that only moves to and fro where nobody knows the size. Implements ArchiveWatch."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("begins", total=None)

    def advanced(self, rows: int, fraction: float | None) -> None:
        """Move the bar."""
        total = None if fraction is None else 1.0
        self._progress.update(self._task, description=f"{rows} rows", total=total, completed=fraction or 0.0)


@contextmanager
def watching() -> Iterator[ArchiveWatch]:
    """The watch that fits standard error."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield LineWatch()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield BarWatch(progress)


def _told(summary: ArchiveSummary) -> str:
    counts = summary.counts
    named = (("item", "items"), ("passage", "passages"), ("tag", "tags"), ("api_key", "API keys"))
    parts = ", ".join(f"{counts.get(kind, 0)} {name}" for kind, name in named)
    return f"{parts}; {sum(counts.values())} rows in all, SHA-256 {summary.sha256}"


async def _exported(settings: Settings, file: Path, workspace: Workspace | None) -> ArchiveSummary:
    async with archiving(settings) as archive:
        with writing(file) as sink, watching() as watch:
            return await archive.export(sink, workspace, watch)


async def _restored(settings: Settings, file: Path) -> ArchiveSummary:
    with reading(file) as source, watching() as watch:
        async with archiving(settings) as archive:
            return await archive.restore(source, watch)
