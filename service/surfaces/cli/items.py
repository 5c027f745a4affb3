"""`citewell item`: read a document, follow its versions, and take it out of retrieval."""

import click

from service.bootstrap import open_store, writing
from service.model import ItemId, Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, say_table
from service.surfaces.readings import ChainReading, ItemReading, known_id, read_chain, read_whole_item
from service.surfaces.wire import ItemOut


@click.group()
def item() -> None:
    """Read, trace, retire and supersede documents."""


@item.command()
@click.argument("item_id")
@workspace_option
@json_option
def show(*, item_id: str, workspace: str | None, as_json: bool) -> None:
    """Show a whole document, stale or not."""
    settings = read_settings()
    found = run(_item(settings, workspace_of(settings, workspace), item_id))
    if as_json:
        say_json(found)
    else:
        _say_item(found)


@item.command()
@click.argument("item_id")
@workspace_option
@json_option
def trace(*, item_id: str, workspace: str | None, as_json: bool) -> None:
    """Show the versions of a document, oldest first."""
    settings = read_settings()
    found = run(_chain(settings, workspace_of(settings, workspace), item_id))
    if as_json:
        say_json(found)
        return
    say_table(
        ("item", "version", "fetched", "state", "superseded by"),
        [(one.item_id, one.version, one.fetched_at, state(one), one.superseded_by) for one in found.chain],
    )


@item.command()
@click.argument("item_id")
@workspace_option
@json_option
def retire(*, item_id: str, workspace: str | None, as_json: bool) -> None:
    """Take a document out of retrieval for good; other content of its source would be a new one."""
    settings = read_settings()
    changed = run(_retired(settings, workspace_of(settings, workspace), item_id))
    if as_json:
        say_json({"item_id": item_id, "changed": changed})
    else:
        say(f"{item_id} is retired" if changed else f"{item_id} was retired before")


@item.command()
@click.argument("item_id")
@click.option("--by", required=True, metavar="ITEM_ID", help="The document that takes its place.")
@workspace_option
@json_option
def supersede(*, item_id: str, by: str, workspace: str | None, as_json: bool) -> None:
    """Point a document at its successor; retrieval shows the successor only."""
    settings = read_settings()
    changed = run(_superseded(settings, workspace_of(settings, workspace), item_id, by))
    if as_json:
        say_json({"item_id": item_id, "changed": changed, "superseded_by": by})
    else:
        say(f"{item_id} is superseded by {by}" + ("" if changed else ", as it was before"))


def state(one: ItemOut) -> str:
    """Whether retrieval shows a document, and why not."""
    if one.retired_at is not None:
        return f"retired {one.retired_at}"
    return "superseded" if one.superseded_by is not None else "live"


def _say_item(found: ItemReading) -> None:
    rows = [
        ("title", found.title),
        ("state", state(found)),
        ("superseded by", found.superseded_by),
        ("content type", found.content_type),
        ("source", found.source_url or found.source_filename),
        ("version", found.version),
        ("fetched", found.fetched_at),
    ]
    say_table((found.item_id, ""), [row for row in rows if row[1] is not None])
    for passage in found.passages or []:
        say(
            f"\n#{passage.seq} {passage.heading or ''}{'' if passage.scorable else ' (never ranked)'}".rstrip()
        )
        say(passage.text)


async def _item(settings: Settings, workspace: Workspace, item_id: str) -> ItemReading:
    async with open_store(settings) as store:
        return await read_whole_item(store, workspace, item_id)


async def _chain(settings: Settings, workspace: Workspace, item_id: str) -> ChainReading:
    async with open_store(settings) as store:
        return await read_chain(store, workspace, item_id)


async def _retired(settings: Settings, workspace: Workspace, item_id: str) -> bool:
    async with writing(settings) as writers:
        return (await writers.lifecycle.retire(workspace, known_id(item_id))).changed


async def _superseded(settings: Settings, workspace: Workspace, item_id: str, by: str) -> bool:
    async with writing(settings) as writers:
        done = await writers.lifecycle.supersede(workspace, known_id(item_id), ItemId(known_id(by)))
        return done.changed
