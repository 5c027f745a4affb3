"""Facet tags: proposed by anyone, decided by a person, listed page by page."""

from typing import Annotated, Final

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.core.tag_pages import DEFAULT_TAGS
from service.core.text import is_storable
from service.errors import InvalidText
from service.model import MAX_LIMIT, Facet, FacetType, ItemId, TagStatus
from service.surfaces.http.access import READS, WRITES, Asking
from service.surfaces.http.answers import TagStateOut
from service.surfaces.http.bodies import DecisionIn, TagIn, name_of
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses
from service.surfaces.http.requests import limit_of
from service.surfaces.readings import TAGS_PATH, TagList, TagsReading, read_tags
from service.surfaces.wire import TagOut, tag_out

_TAGS: Final = ["facet tags"]
TagLimitText = Annotated[
    str,
    QueryParameter(
        schema_extra={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_TAGS}
    ),
]


@post(
    TAGS_PATH,
    status_code=200,
    tags=_TAGS,
    summary="Propose a tag",
    responses=responses(404, 413, 415),
    opt=WRITES,
)
async def propose_tag(data: JSONBody[TagIn], application: App, access: Asking) -> TagStateOut:
    """Propose a tag; one that exists is answered as it stands."""
    for name, text in (("item_id", data.item_id), ("facet_id", data.facet_id)):
        if not is_storable(text):
            raise InvalidText(f"{name} holds a NUL", field=name)
    facet = Facet(FacetType(data.facet_type), data.facet_id)
    tag = await application.tagging.propose(
        access.workspace, ItemId(data.item_id), facet, name_of(data.by, access)
    )
    return TagStateOut(tag_id=tag.tag_id, status=tag.status.value)


@post(
    TAGS_PATH + "/{tag_id:str}/accept",
    status_code=200,
    tags=_TAGS,
    summary="Accept a tag",
    responses=responses(404, 413, 415),
    opt=WRITES,
)
async def accept_tag(
    tag_id: FromPath[str], application: App, access: Asking, data: JSONBody[DecisionIn | None] = None
) -> TagOut:
    """Accept a tag: from now on it lifts its item for selections that imply its facet."""
    by = name_of((data or DecisionIn()).by, access)
    return tag_out(await application.tagging.decide(access.workspace, tag_id, TagStatus.ACCEPTED, by))


@post(
    TAGS_PATH + "/{tag_id:str}/reject",
    status_code=200,
    tags=_TAGS,
    summary="Reject a tag",
    responses=responses(404, 413, 415),
    opt=WRITES,
)
async def reject_tag(
    tag_id: FromPath[str], application: App, access: Asking, data: JSONBody[DecisionIn | None] = None
) -> TagOut:
    """Reject a tag: it lifts nothing."""
    by = name_of((data or DecisionIn()).by, access)
    return tag_out(await application.tagging.decide(access.workspace, tag_id, TagStatus.REJECTED, by))


@get(TAGS_PATH, tags=_TAGS, summary="List tags", responses=responses(), opt=READS)
async def list_tags(
    application: App,
    access: Asking,
    item_id: FromQuery[str | None] = None,
    status: FromQuery[TagStatus | None] = None,
    limit: TagLimitText = str(DEFAULT_TAGS),
    cursor: FromQuery[str | None] = None,
) -> TagsReading:
    """Tags with their history, in tag id order, of one item or with one status where asked for."""
    asked = TagList(None if item_id is None else ItemId(item_id), status, limit_of(limit), cursor)
    return await read_tags(application.store, access.workspace, asked)
