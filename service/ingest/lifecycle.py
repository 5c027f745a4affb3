"""Lifecycle: retire and supersede. Both only ever turn an item stale; neither deletes."""

from dataclasses import dataclass

from service.core.capture_rules import ItemHead
from service.errors import AlreadySuperseded, ItemNotFound, SupersessionCycle
from service.ingest.capture import Clock
from service.model import ItemId, Workspace
from service.ports.lexical import LexicalIndex
from service.ports.store import Store, WriteTransaction


@dataclass(frozen=True, slots=True)
class LifecycleResult:
    """What became of the item; `changed` is false when it was so already."""

    item_id: ItemId
    changed: bool


class Lifecycle:
    """Turns items stale and tells this process's index."""

    def __init__(self, store: Store, lexical: LexicalIndex, clock: Clock) -> None:
        self._store = store
        self._lexical = lexical
        self._clock = clock

    async def retire(self, workspace: Workspace, item_id: ItemId) -> LifecycleResult:
        """Retire an item; retiring it again changes nothing. Raises ItemNotFound."""
        async with self._store.transaction(workspace) as transaction:
            head = await _head(transaction, item_id)
            changed = head.retired_at is None
            if changed:
                await transaction.retire(item_id, self._clock())
        if changed:
            await self._lexical.catch_up(workspace)
        return LifecycleResult(item_id, changed)

    async def supersede(self, workspace: Workspace, item_id: ItemId, by: ItemId) -> LifecycleResult:
        """Point an item at its successor; saying the same again changes nothing.

        Raises ItemNotFound for either item, SupersessionCycle, AlreadySuperseded.
        """
        async with self._store.transaction(workspace) as transaction:
            head = await _head(transaction, item_id)
            await _refuse_cycle(transaction, item_id, by)
            if head.superseded_by not in (None, by):
                raise AlreadySuperseded(f"item {item_id} is already superseded by {head.superseded_by}")
            changed = head.superseded_by is None
            if changed:
                await transaction.supersede(item_id, by)
        if changed:
            await self._lexical.catch_up(workspace)
        return LifecycleResult(item_id, changed)


async def _refuse_cycle(transaction: WriteTransaction, item_id: ItemId, by: ItemId) -> None:
    """Walk from the successor to the head of its chain; the write lock keeps the chain still."""
    following: ItemId | None = by
    while following is not None:
        if following == item_id:
            raise SupersessionCycle(f"item {by} is itself superseded, at the end, by {item_id}")
        following = (await _head(transaction, following)).superseded_by


async def _head(transaction: WriteTransaction, item_id: ItemId) -> ItemHead:
    head = (await transaction.heads([item_id])).get(item_id)
    if head is None:
        raise ItemNotFound(f"there is no item {item_id} in this workspace")
    return head
