"""Facet tags: proposed by anyone, decided by a person, every step kept."""

from dataclasses import replace

from service.core.identity import tag_id
from service.core.text import is_storable
from service.errors import FacetNotFound, InvalidInput, ItemNotFound, TagNotFound
from service.ingest.capture import Clock
from service.model import Facet, FacetTag, ItemId, TagEvent, TagStatus, Workspace
from service.ports.store import Store

MAX_ACTOR = 200  # characters


class Tagging:
    """Proposes and decides facet tags."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def propose(self, workspace: Workspace, item_id: ItemId, facet: Facet, by: str) -> FacetTag:
        """Propose a tag; one that exists is returned as it stands. Raises ItemNotFound, FacetNotFound."""
        _check_actor(by)
        async with self._store.transaction(workspace) as transaction:
            if item_id not in await transaction.heads([item_id]):
                raise ItemNotFound(f"there is no item {item_id} in this workspace")
            known = await transaction.tag(tag_id(item_id, facet))
            if known is not None:
                return known
            if not await transaction.facet_exists(facet):
                raise FacetNotFound(f"the vocabulary has no {facet.type.value} {facet.id}")
            event = TagEvent(None, TagStatus.PROPOSED, by, self._clock())
            tag = FacetTag(tag_id(item_id, facet), item_id, facet, TagStatus.PROPOSED)
            await transaction.put_tag(tag, event)
        return replace(tag, events=(event,))

    async def decide(self, workspace: Workspace, tag: str, status: TagStatus, by: str) -> FacetTag:
        """Accept or reject a tag; deciding the same again changes nothing. Raises TagNotFound."""
        _check_actor(by)
        async with self._store.transaction(workspace) as transaction:
            known = await transaction.tag(tag) if is_storable(tag) else None
            if known is None:
                raise TagNotFound("there is no such facet tag in this workspace")
            if known.status is status:
                return known
            event = TagEvent(known.status, status, by, self._clock())
            await transaction.put_tag(replace(known, status=status), event)
        return replace(known, status=status, events=(*known.events, event))


def _check_actor(by: str) -> None:
    if not by.strip() or len(by) > MAX_ACTOR or not is_storable(by):
        raise InvalidInput(f"by names a person in at most {MAX_ACTOR} characters", field="by")
