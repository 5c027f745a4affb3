"""An index that follows a long write at its own pace, instead of after every batch of it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from service.errors import Unavailable
from service.model import Workspace
from service.ports.lexical import LexicalIndex, LexicalView
from service.ports.store import ReadSnapshot


class TrailingIndex:
    """Starts catching up and does not wait. Implements LexicalIndex.

    What is stored while it catches up is applied together in its next turn. The change log remembers what
    is still to be applied, so a crash in between loses nothing.
    """

    def __init__(self, lexical: LexicalIndex) -> None:
        self._lexical = lexical
        self._following: dict[Workspace, asyncio.Task[None]] = {}

    async def view(self, workspace: Workspace, terms: Sequence[str], snapshot: ReadSnapshot) -> LexicalView:
        """The index at `snapshot.seq` or later. Raises LexicalIndexUnavailable."""
        return await self._lexical.view(workspace, terms, snapshot)

    def latest(self, workspace: Workspace, terms: Sequence[str]) -> LexicalView | None:
        """The index as it stands; None where there is none to read."""
        return self._lexical.latest(workspace, terms)

    async def catch_up(self, workspace: Workspace) -> None:
        """Begin to catch up, unless that is under way already."""
        following = self._following.get(workspace)
        if following is None or following.done():
            self._following[workspace] = asyncio.create_task(self._follow(workspace))

    async def settle(self, workspace: Workspace) -> None:
        """Wait for what is under way, and apply what came after it."""
        await self.close()
        await self._lexical.catch_up(workspace)

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._following.values())

    async def _follow(self, workspace: Workspace) -> None:
        with suppress(Unavailable):  # the change log remembers; whoever settles is told
            await self._lexical.catch_up(workspace)
