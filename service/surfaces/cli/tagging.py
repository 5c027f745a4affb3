"""`citewell tags`: classify documents by what a buyer may choose, and let a person decide."""

import os
import pwd

import click

from service.bootstrap import open_store, writing
from service.core.tag_pages import DEFAULT_TAGS
from service.model import Facet, FacetTag, FacetType, ItemId, TagStatus, Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.options import Command, json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, say_table
from service.surfaces.readings import TagList, TagsReading, read_tags
from service.surfaces.wire import tag_out


def login_name() -> str:
    """Who runs this process, as the system knows it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def by_option(command: Command) -> Command:
    """`--by`, by default whoever is logged in."""
    return click.option("--by", metavar="NAME", help="Who says so; by default your login name.")(command)


@click.group()
def tags() -> None:
    """Propose, decide and list facet tags."""


@tags.command()
@click.argument("item_id")
@click.option("--factor", metavar="ID", help="The factor that the document is about.")
@click.option("--attribute", metavar="ID", help="The attribute that the document is about.")
@by_option
@workspace_option
@json_option
def propose(
    *,
    item_id: str,
    factor: str | None,
    attribute: str | None,
    by: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Propose that a document is about a factor or an attribute."""
    if (factor is None) == (attribute is None):
        raise click.UsageError("propose takes one of --factor and --attribute")
    facet = (
        Facet(FacetType.FACTOR, factor) if factor is not None else Facet(FacetType.ATTRIBUTE, attribute or "")
    )
    settings = read_settings()
    tag = run(
        _proposed(settings, workspace_of(settings, workspace), ItemId(item_id), facet, by or login_name())
    )
    if as_json:
        say_json({"tag_id": tag.tag_id, "status": tag.status.value})
    else:
        say(f"{tag.tag_id} is {tag.status.value}")


@tags.command()
@click.argument("tag_id")
@by_option
@workspace_option
@json_option
def accept(*, tag_id: str, by: str | None, workspace: str | None, as_json: bool) -> None:
    """Accept a tag: it lifts its document for selections that imply its facet."""
    _decide(tag_id, TagStatus.ACCEPTED, by, workspace, as_json=as_json)


@tags.command()
@click.argument("tag_id")
@by_option
@workspace_option
@json_option
def reject(*, tag_id: str, by: str | None, workspace: str | None, as_json: bool) -> None:
    """Reject a tag: it lifts nothing."""
    _decide(tag_id, TagStatus.REJECTED, by, workspace, as_json=as_json)


@tags.command("list")
@click.option("--item", "item_id", metavar="ID", help="Only the tags of one document.")
@click.option("--status", type=click.Choice([status.value for status in TagStatus]), help="Only these.")
@click.option("--limit", type=int, default=DEFAULT_TAGS, show_default=True, help="Tags a page.")
@click.option("--cursor", metavar="CURSOR", help="The page after the one that gave this cursor.")
@workspace_option
@json_option
def list_(
    *,
    item_id: str | None,
    status: str | None,
    limit: int,
    cursor: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """List tags with their history."""
    settings = read_settings()
    asked = TagList(
        item_id=None if item_id is None else ItemId(item_id),
        status=None if status is None else TagStatus(status),
        limit=limit,
        cursor=cursor,
    )
    found = run(_listed(settings, workspace_of(settings, workspace), asked))
    if as_json:
        say_json(found)
        return
    say_table(
        ("tag", "item", "facet", "status", "by", "at"),
        [
            (t.tag_id, t.item_id, f"{t.facet_type} {t.facet_id}", t.status, t.events[-1].by, t.events[-1].at)
            for t in found.results
        ],
    )
    if found.next_action is not None:
        say(f"next: {found.next_action.cli}")


def _decide(tag_id: str, status: TagStatus, by: str | None, workspace: str | None, *, as_json: bool) -> None:
    settings = read_settings()
    tag = run(_decided(settings, workspace_of(settings, workspace), tag_id, status, by or login_name()))
    if as_json:
        say_json(tag_out(tag))
    else:
        say(f"{tag.tag_id} is {tag.status.value}")


async def _proposed(
    settings: Settings, workspace: Workspace, item_id: ItemId, facet: Facet, by: str
) -> FacetTag:
    async with writing(settings) as writers:
        return await writers.tagging.propose(workspace, item_id, facet, by)


async def _decided(
    settings: Settings, workspace: Workspace, tag_id: str, status: TagStatus, by: str
) -> FacetTag:
    async with writing(settings) as writers:
        return await writers.tagging.decide(workspace, tag_id, status, by)


async def _listed(settings: Settings, workspace: Workspace, asked: TagList) -> TagsReading:
    async with open_store(settings) as store:
        return await read_tags(store, workspace, asked)
