"""Items: capture, read, and the two ways in which one turns stale."""

import asyncio
from typing import Final

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody

from service.core.next_action import read_item
from service.core.text import is_storable
from service.errors import InvalidText
from service.model import ItemId
from service.surfaces.captures import read_capture
from service.surfaces.http.access import READS, WRITES, Asking
from service.surfaces.http.answers import LifecycleOut
from service.surfaces.http.bodies import NoFields, SupersedeIn
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses
from service.surfaces.readings import ChainReading, ItemReading, known_id, read_chain, read_whole_item
from service.surfaces.wire import CaptureIn, CaptureOut, capture_out

_TAGS: Final = ["items"]
_STORED: Final = {
    201: ResponseSpec(CaptureOut, description="A new item was stored", generate_examples=False),
    **responses(409, 413, 415),
}


@post("/v1/items", status_code=200, tags=_TAGS, summary="Store a capture", responses=_STORED, opt=WRITES)
async def capture_item(data: JSONBody[CaptureIn], application: App, access: Asking) -> Response[CaptureOut]:
    """Store one capture: durable and searchable when answered. 201 for a new item, 200 for an unchanged one."""
    capture = await asyncio.to_thread(read_capture, data, application.documents)
    stored = capture_out(await application.capturing.capture(access.workspace, capture))
    if stored.unchanged:
        return Response(stored)
    return Response(stored, status_code=201, headers={"Location": read_item(stored.item_id).path})


@get("/v1/items/{item_id:str}", tags=_TAGS, summary="Read an item", responses=responses(404), opt=READS)
async def get_item(item_id: FromPath[str], application: App, access: Asking) -> ItemReading:
    """A whole item with its passages, stale or not."""
    return await read_whole_item(application.store, access.workspace, item_id)


@get(
    "/v1/items/{item_id:str}/supersession",
    tags=_TAGS,
    summary="Trace an item",
    responses=responses(404),
    opt=READS,
)
async def trace_item(item_id: FromPath[str], application: App, access: Asking) -> ChainReading:
    """The chain through an item, oldest first, without passages, and the item at its end."""
    return await read_chain(application.store, access.workspace, item_id)


@post(
    "/v1/items/{item_id:str}/retire",
    status_code=200,
    tags=_TAGS,
    summary="Retire an item",
    responses=responses(404, 413, 415),
    opt=WRITES,
)
async def retire_item(
    item_id: FromPath[str], application: App, access: Asking, data: JSONBody[NoFields | None] = None
) -> LifecycleOut:
    """Retire an item: from now on no retrieval shows it. Retiring it again changes nothing."""
    done = await application.lifecycle.retire(access.workspace, known_id(item_id))
    return LifecycleOut(item_id=done.item_id, changed=done.changed)


@post(
    "/v1/items/{item_id:str}/supersede",
    status_code=200,
    tags=_TAGS,
    summary="Supersede an item",
    responses=responses(404, 409, 413, 415),
    opt=WRITES,
)
async def supersede_item(
    item_id: FromPath[str], data: JSONBody[SupersedeIn], application: App, access: Asking
) -> LifecycleOut:
    """Point an item at its successor: from now on no retrieval shows the item. A cycle is refused."""
    if not is_storable(data.by):
        raise InvalidText("by holds a NUL", field="by")
    workspace, by = access.workspace, ItemId(data.by)
    done = await application.lifecycle.supersede(workspace, known_id(item_id), by)
    return LifecycleOut(item_id=done.item_id, changed=done.changed, superseded_by=by)
