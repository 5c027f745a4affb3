"""The index of a process that only writes: there is none."""

from collections.abc import Sequence

from service.errors import LexicalIndexUnavailable
from service.model import Workspace
from service.ports.lexical import LexicalView
from service.ports.store import ReadSnapshot


class AbsentIndex:
    """Nobody reads in this process, so nothing follows the change log here. Implements LexicalIndex.

    The indexes of other processes, and of this machine's next reader, follow it by themselves.
    """

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """Raises LexicalIndexUnavailable."""
        raise LexicalIndexUnavailable("this process keeps no lexical index")

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """None."""
        return None

    async def catch_up(self, workspace: Workspace) -> None:
        """Nothing to do."""
