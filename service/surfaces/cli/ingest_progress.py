"""How an ingest is watched: a bar on a terminal, plain lines elsewhere. All of it on standard error."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from service.ingest.file_report import FileFailure, IngestReport, IngestWatch
from service.surfaces.cli.escaping import printable
from service.surfaces.cli.terminal import tell

LINE_EVERY = 5.0  # seconds between two plain lines


@contextmanager
def open_watch(stop: asyncio.Event) -> Iterator[IngestWatch]:
    """The watch that fits standard error."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield LineWatch(stop)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield BarWatch(stop, progress)


class LineWatch:
    """Says now and then how far the ingest is. Implements IngestWatch."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._size = self._done = 0
        self._said_at = time.monotonic()

    def begin(self, files: int, size: int) -> None:
        """Remember how much there is."""
        self._size = size

    def advanced(self, report: IngestReport, size: int) -> None:
        """Say how far it is, if nothing was said for some time."""
        self._done += size
        if time.monotonic() - self._said_at >= LINE_EVERY:
            self._said_at = time.monotonic()
            tell(f"{_counts(report)}, {100 * min(self._done, self._size) // max(1, self._size)} %")

    def failed(self, failure: FileFailure) -> None:
        """Say what failed."""
        tell(failure_line(failure))

    def should_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stop.is_set()


class BarWatch:
    """Draws a bar by bytes read. Implements IngestWatch."""

    def __init__(self, stop: asyncio.Event, progress: Progress) -> None:
        self._stop = stop
        self._progress = progress
        self._task: TaskID = progress.add_task("reading")

    def begin(self, files: int, size: int) -> None:
        """Set the bar's length."""
        self._progress.update(self._task, total=max(1, size))

    def advanced(self, report: IngestReport, size: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, advance=size, description=_counts(report))

    def failed(self, failure: FileFailure) -> None:
        """Say what failed, above the bar."""
        self._progress.console.print(printable(failure_line(failure)), soft_wrap=True)

    def should_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stop.is_set()


def failure_line(failure: FileFailure) -> str:
    """A failure in one line: where, its stable code and the reason."""
    place = failure.name if failure.line is None else f"{failure.name}:{failure.line}"
    return f"failed: {place}: {failure.code}: {failure.detail}"


def _counts(report: IngestReport) -> str:
    return f"{report.stored} stored, {report.unchanged} unchanged, {report.failed} failed"
