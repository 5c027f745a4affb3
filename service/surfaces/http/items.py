"""Items: capture, read, and the two ways in which one turns stale."""

import asyncio
from typing import Final

import msgspec
from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody

from service.core.next_action import read_item
from service.core.text import is_storable
from service.errors import InvalidText, ItemNotFound
from service.model import Item, ItemId
from service.surfaces.captures import read_capture
from service.surfaces.envelope import NextStep, next_step
from service.surfaces.http.answers import ChainOut, ItemAnswer, LifecycleOut
from service.surfaces.http.bodies import NoFields, SupersedeIn
from service.surfaces.http.parts import App, workspace_of
from service.surfaces.http.problems import responses
from service.surfaces.wire import CaptureIn, CaptureOut, capture_out, item_out

_TAGS: Final = ["items"]
_STORED: Final = {
    201: ResponseSpec(CaptureOut, description="A new item was stored", generate_examples=False),
    **responses(409, 413, 415),
}


@post("/v1/items", status_code=200, tags=_TAGS, summary="Store a capture", responses=_STORED)
async def capture_item(data: JSONBody[CaptureIn], application: App) -> Response[CaptureOut]:
    """Store one capture: durable and searchable when answered. 201 for a new item, 200 for an unchanged one."""
    capture = await asyncio.to_thread(read_capture, data, application.documents)
    stored = capture_out(await application.capturing.capture(workspace_of(application), capture))
    if stored.unchanged:
        return Response(stored)
    return Response(stored, status_code=201, headers={"Location": read_item(stored.item_id).path})


@get("/v1/items/{item_id:str}", tags=_TAGS, summary="Read an item", responses=responses(404))
async def get_item(item_id: FromPath[str], application: App) -> ItemAnswer:
    """A whole item with its passages, stale or not."""
    known = checked_id(item_id)
    async with application.store.snapshot() as snapshot:
        item = await snapshot.item(workspace_of(application), known)
    if item is None:
        raise _not_found()
    return ItemAnswer(**msgspec.structs.asdict(item_out(item)), next_action=_successor(item))


@get("/v1/items/{item_id:str}/supersession", tags=_TAGS, summary="Trace an item", responses=responses(404))
async def trace_item(item_id: FromPath[str], application: App) -> ChainOut:
    """The chain through an item, oldest first, without passages, and the item at its end."""
    known = checked_id(item_id)
    async with application.store.snapshot() as snapshot:
        chain = await snapshot.supersession(workspace_of(application), known)
    if not chain:
        raise _not_found()
    head = chain[-1].provenance.item_id
    return ChainOut(
        item_id=known,
        head=head,
        chain=[item_out(item, passages=False) for item in chain],
        next_action=next_step(read_item(head)),
    )


@post(
    "/v1/items/{item_id:str}/retire",
    status_code=200,
    tags=_TAGS,
    summary="Retire an item",
    responses=responses(404, 413, 415),
)
async def retire_item(
    item_id: FromPath[str], application: App, data: JSONBody[NoFields | None] = None
) -> LifecycleOut:
    """Retire an item: from now on no retrieval shows it. Retiring it again changes nothing."""
    done = await application.lifecycle.retire(workspace_of(application), checked_id(item_id))
    return LifecycleOut(item_id=done.item_id, changed=done.changed)


@post(
    "/v1/items/{item_id:str}/supersede",
    status_code=200,
    tags=_TAGS,
    summary="Supersede an item",
    responses=responses(404, 409, 413, 415),
)
async def supersede_item(
    item_id: FromPath[str], data: JSONBody[SupersedeIn], application: App
) -> LifecycleOut:
    """Point an item at its successor: from now on no retrieval shows the item. A cycle is refused."""
    if not is_storable(data.by):
        raise InvalidText("by holds a NUL", field="by")
    workspace, by = workspace_of(application), ItemId(data.by)
    done = await application.lifecycle.supersede(workspace, checked_id(item_id), by)
    return LifecycleOut(item_id=done.item_id, changed=done.changed, superseded_by=by)


def checked_id(item_id: str) -> ItemId:
    """An id that a store can be asked for. Raises ItemNotFound for one that no item can have."""
    if not is_storable(item_id):
        raise _not_found()
    return ItemId(item_id)


def _not_found() -> ItemNotFound:
    return ItemNotFound("there is no such item in this workspace")


def _successor(item: Item) -> NextStep | None:
    return None if item.superseded_by is None else next_step(read_item(item.superseded_by))
