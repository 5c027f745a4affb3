"""Facet tags: proposed by anyone, decided by a person, listed page by page."""

import shlex
from typing import Annotated, Final
from urllib.parse import urlencode

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.core.next_action import NextAction
from service.core.tag_pages import DEFAULT_TAGS, check_tag_limit, last_tag, tag_list, tags_after
from service.core.text import is_storable
from service.errors import InvalidText
from service.model import MAX_LIMIT, Facet, FacetType, ItemId, TagStatus
from service.surfaces.envelope import NextStep, next_step
from service.surfaces.http.answers import TagsOut, TagStateOut
from service.surfaces.http.bodies import DecisionIn, TagIn
from service.surfaces.http.parts import App, workspace_of
from service.surfaces.http.problems import responses
from service.surfaces.http.retrieval import limit_of
from service.surfaces.wire import TagOut, tag_out

PATH: Final = "/v1/facet-tags"
_TAGS: Final = ["facet tags"]
TagLimitText = Annotated[
    str,
    QueryParameter(
        schema_extra={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_TAGS}
    ),
]


@post(PATH, status_code=200, tags=_TAGS, summary="Propose a tag", responses=responses(404, 413, 415))
async def propose_tag(data: JSONBody[TagIn], application: App) -> TagStateOut:
    """Propose a tag; one that exists is answered as it stands."""
    for name, text in (("item_id", data.item_id), ("facet_id", data.facet_id)):
        if not is_storable(text):
            raise InvalidText(f"{name} holds a NUL", field=name)
    facet = Facet(FacetType(data.facet_type), data.facet_id)
    tag = await application.tagging.propose(workspace_of(application), ItemId(data.item_id), facet, data.by)
    return TagStateOut(tag_id=tag.tag_id, status=tag.status.value)


@post(
    PATH + "/{tag_id:str}/accept",
    status_code=200,
    tags=_TAGS,
    summary="Accept a tag",
    responses=responses(404, 413, 415),
)
async def accept_tag(
    tag_id: FromPath[str], application: App, data: JSONBody[DecisionIn | None] = None
) -> TagOut:
    """Accept a tag: from now on it lifts its item for selections that imply its facet."""
    by = (data or DecisionIn()).by
    return tag_out(
        await application.tagging.decide(workspace_of(application), tag_id, TagStatus.ACCEPTED, by)
    )


@post(
    PATH + "/{tag_id:str}/reject",
    status_code=200,
    tags=_TAGS,
    summary="Reject a tag",
    responses=responses(404, 413, 415),
)
async def reject_tag(
    tag_id: FromPath[str], application: App, data: JSONBody[DecisionIn | None] = None
) -> TagOut:
    """Reject a tag: it lifts nothing."""
    by = (data or DecisionIn()).by
    return tag_out(
        await application.tagging.decide(workspace_of(application), tag_id, TagStatus.REJECTED, by)
    )


@get(PATH, tags=_TAGS, summary="List tags", responses=responses())
async def list_tags(
    application: App,
    item_id: FromQuery[str | None] = None,
    status: FromQuery[TagStatus | None] = None,
    limit: TagLimitText = str(DEFAULT_TAGS),
    cursor: FromQuery[str | None] = None,
) -> TagsOut:
    """Tags with their history, in tag id order, of one item or with one status where asked for."""
    size, workspace = limit_of(limit), workspace_of(application)
    check_tag_limit(size)
    item = None if item_id is None else ItemId(item_id)
    listed = tag_list(workspace, item, status)
    after = None if cursor is None else last_tag(cursor, listed)
    if item is not None and not is_storable(item):
        return _page([], None, None)
    async with application.store.snapshot() as snapshot:
        found = await snapshot.tags(workspace, item, status, after, size + 1)
    shown = [tag_out(tag) for tag in found[:size]]
    if len(found) <= size:
        return _page(shown, None, None)
    following = tags_after(shown[-1].tag_id, listed)
    asked = {"item_id": item_id, "status": status, "limit": limit, "cursor": following}
    stated = {name: value for name, value in asked.items() if value is not None}
    return _page(shown, following, _next_page(stated))


def _page(shown: list[TagOut], following: str | None, then: NextStep | None) -> TagsOut:
    return TagsOut(
        results=shown,
        shown=len(shown),
        has_more=following is not None,
        next_cursor=following,
        next_action=then,
    )


def _next_page(stated: dict[str, str]) -> NextStep:
    command = ["citewell", "tags", "list"]
    for name, value in stated.items():
        command += [f"--{name.removesuffix('_id')}", value]
    return next_step(NextAction("next_page", "GET", f"{PATH}?{urlencode(stated)}", None, shlex.join(command)))
