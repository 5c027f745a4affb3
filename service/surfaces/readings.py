"""What reads other than retrieval answer with, on every surface: items, chains and pages of tags."""

import shlex
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from service.core.next_action import NextAction, read_item
from service.core.tag_pages import DEFAULT_TAGS, check_tag_limit, last_tag, tag_list, tags_after
from service.core.text import is_storable
from service.errors import ItemNotFound
from service.model import ItemId, TagStatus, Workspace
from service.ports.store import Store
from service.surfaces.envelope import NextStep, next_step
from service.surfaces.wire import ItemOut, TagOut, item_out, tag_out

TAGS_PATH = "/v1/facet-tags"


class ItemReading(ItemOut, kw_only=True):
    """A whole item, and its successor as the next step when it has one."""

    next_action: NextStep | None


class ChainReading(msgspec.Struct, kw_only=True):
    """The supersession chain through an item, oldest first, and the item at its end."""

    item_id: str
    head: str
    chain: list[ItemOut]
    next_action: NextStep | None


class TagsReading(msgspec.Struct, kw_only=True):
    """A page of tags in tag id order."""

    results: list[TagOut]
    shown: int
    has_more: bool
    next_cursor: str | None
    next_action: NextStep | None


@dataclass(frozen=True, slots=True)
class TagList:
    """Which tags are asked for, and which page of them. Raises InvalidLimit."""

    item_id: ItemId | None = None
    status: TagStatus | None = None
    limit: int = DEFAULT_TAGS
    cursor: str | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that no page can have."""
        check_tag_limit(self.limit)


async def read_whole_item(store: Store, workspace: Workspace, item_id: str) -> ItemReading:
    """An item with its passages, stale or not. Raises ItemNotFound."""
    async with store.snapshot() as snapshot:
        item = await snapshot.item(workspace, known_id(item_id))
    if item is None:
        raise item_not_found()
    then = None if item.superseded_by is None else next_step(read_item(item.superseded_by))
    return ItemReading(**msgspec.structs.asdict(item_out(item)), next_action=then)


async def read_chain(store: Store, workspace: Workspace, item_id: str) -> ChainReading:
    """The chain through an item, oldest first, without passages. Raises ItemNotFound."""
    async with store.snapshot() as snapshot:
        chain = await snapshot.supersession(workspace, known_id(item_id))
    if not chain:
        raise item_not_found()
    head = chain[-1].provenance.item_id
    return ChainReading(
        item_id=item_id,
        head=head,
        chain=[item_out(item, passages=False) for item in chain],
        next_action=next_step(read_item(head)),
    )


async def read_tags(store: Store, workspace: Workspace, asked: TagList) -> TagsReading:
    """A page of tags with their history. Raises InvalidCursor."""
    listed = tag_list(workspace, asked.item_id, asked.status)
    after = None if asked.cursor is None else last_tag(asked.cursor, listed)
    if asked.item_id is not None and not is_storable(asked.item_id):
        return _tags_page([], None, None)
    async with store.snapshot() as snapshot:
        found = await snapshot.tags(workspace, asked.item_id, asked.status, after, asked.limit + 1)
    shown = [tag_out(tag) for tag in found[: asked.limit]]
    if len(found) <= asked.limit:
        return _tags_page(shown, None, None)
    following = tags_after(shown[-1].tag_id, listed)
    return _tags_page(shown, following, _more_tags(asked, following))


def known_id(item_id: str) -> ItemId:
    """An id that a store can be asked for. Raises ItemNotFound for one that no item can have."""
    if not is_storable(item_id):
        raise item_not_found()
    return ItemId(item_id)


def item_not_found() -> ItemNotFound:
    """The error for an item that is not there."""
    return ItemNotFound("there is no such item in this workspace")


def _tags_page(shown: list[TagOut], following: str | None, then: NextStep | None) -> TagsReading:
    return TagsReading(
        results=shown,
        shown=len(shown),
        has_more=following is not None,
        next_cursor=following,
        next_action=then,
    )


def _more_tags(asked: TagList, following: str) -> NextStep:
    values = {
        "item_id": asked.item_id,
        "status": asked.status,
        "limit": str(asked.limit),
        "cursor": following,
    }
    stated = {name: str(value) for name, value in values.items() if value is not None}
    command = ["citewell", "tags", "list"]
    for name, value in stated.items():
        command += [f"--{name.removesuffix('_id')}", value]
    path = f"{TAGS_PATH}?{urlencode(stated)}"
    return next_step(NextAction("next_page", "GET", path, None, shlex.join(command)))
