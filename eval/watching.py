"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from eval.progress import Progress
from service.surfaces.cli.terminal import tell

LINE_EVERY_S: Final = 5.0


@contextmanager
def watched() -> Iterator[Progress]:
    """A progress that fits standard error."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield _Lines().advanced
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        yield _Bars(bars).advanced


class _Lines:
    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def advanced(self, what: str, done: int, whole: int) -> None:
        """Say how far it is, if nothing was said for some time."""
        if time.monotonic() - self._said_at >= LINE_EVERY_S:
            self._said_at = time.monotonic()
            tell(f"{what}: {done} of {whole}")


class _Bars:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def advanced(self, what: str, done: int, whole: int) -> None:
        """Move a bar, and start it where there is none."""
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=whole)
        self._bars.update(self._tasks[what], completed=done, total=whole)
