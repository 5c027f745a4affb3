"""The shards that are open in this process: bounded, the one that nobody used for longest closed first.

An index that nobody uses costs files and memory, and its writer threads. However many workspaces there are, only
so many of either are kept. A shard in use is never closed, so the bound may be passed by as many as are in use.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from service.adapters.lexical.shard import Shard
from service.model import Workspace

MOST_WRITERS = 4


class OpenShards:
    """Shards by workspace, the one used last at the end."""

    def __init__(self, make: Callable[[Workspace], Shard], bound: int) -> None:
        self._make = make
        self._bound = bound
        self._shards: OrderedDict[Workspace, Shard] = OrderedDict()
        self._settling = asyncio.Lock()

    @property
    def by_workspace(self) -> Mapping[Workspace, Shard]:
        """All of them."""
        return self._shards

    @property
    def writers(self) -> int:
        """How many have a writer."""
        return len(self._writing())

    @property
    def are_too_many(self) -> bool:
        """Whether `settle` has work to do."""
        return len(self._shards) > self._bound or self.writers > MOST_WRITERS

    def find(self, workspace: Workspace) -> Shard | None:
        """A workspace's shard, if it is open."""
        shard = self._shards.get(workspace)
        if shard is not None:
            self._shards.move_to_end(workspace)
        return shard

    def take(self, workspace: Workspace) -> Shard:
        """A workspace's shard; a new one has yet to be opened. Synchronous: use it before it may be closed."""
        shard = self.find(workspace)
        if shard is None:
            shard = self._shards[workspace] = self._make(workspace)
        return shard

    async def settle(self) -> None:
        """Close what is too much, as far as nobody uses it."""
        async with self._settling:
            for shard in list(self._shards.values())[: max(0, len(self._shards) - self._bound)]:
                if shard.is_idle:
                    await shard.close()
                    self._forget(shard)
            for shard in self._writing()[:-MOST_WRITERS]:
                if shard.is_idle:
                    with in_use(shard):
                        await shard.rest()

    def _writing(self) -> list[Shard]:
        """Those with a writer, the one written to last at the end."""
        since = [(shard.writes_since, shard) for shard in self._shards.values()]
        return [shard for _, shard in sorted(((at, s) for at, s in since if at is not None), key=_when)]

    def _forget(self, shard: Shard) -> None:
        """Unless somebody opened it again, or is about to, while it was being closed."""
        if shard.is_idle and not shard.is_open:
            del self._shards[shard.workspace]


@contextmanager
def in_use(shard: Shard) -> Iterator[None]:
    """Keep a shard from being closed."""
    shard.users += 1
    try:
        yield
    finally:
        shard.users -= 1


def _when(one: tuple[float, Shard]) -> float:
    return one[0]
