"""`citewell index`: the lexical index of this machine's next reader."""

from dataclasses import dataclass

import click

from service.adapters.lexical.index import ShardStatus
from service.model import Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.session import patient_application, run, without_vectors
from service.surfaces.cli.terminal import counted, say, say_json, say_table


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The newest change in the database, and how far each workspace's index is."""

    head: int
    shards: tuple[ShardStatus, ...]


@click.group()
def index() -> None:
    """Show and rebuild the lexical index."""


@index.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show how far the indexes are that are open: the configured workspace's and those changed last."""
    found = run(_status(read_settings()))
    if as_json:
        say_json(status_out(found))
        return
    say(f"the database is at change {found.head}")
    say_table(
        ("workspace", "state", "at change", "passages", "reason"),
        [
            (
                s.workspace,
                s.state.value,
                None if s.applied is None else str(s.applied),
                str(s.documents),
                s.reason,
            )
            for s in found.shards
        ],
    )


@index.command()
@workspace_option
@json_option
def rebuild(*, workspace: str | None, as_json: bool) -> None:
    """Build the index anew from the database, here and in every process that reads from it."""
    settings = read_settings()
    found = run(_rebuilt(settings, workspace_of(settings, workspace)))
    if as_json:
        say_json(status_out(found))
    else:
        passages = sum(shard.documents for shard in found.shards)
        say(f"rebuilt: {counted(passages, 'passage')} at change {found.head}")


def status_out(found: IndexStatus) -> dict[str, object]:
    """The status as JSON."""
    return {
        "head": found.head,
        "workspaces": [
            {
                "workspace": shard.workspace,
                "state": shard.state.value,
                "reason": shard.reason,
                "applied": shard.applied,
                "passages": shard.documents,
            }
            for shard in found.shards
        ],
    }


async def _status(settings: Settings) -> IndexStatus:
    async with patient_application(without_vectors(settings)) as app:
        return IndexStatus(await app.store.head(), tuple(app.lexical.status().values()))


async def _rebuilt(settings: Settings, workspace: Workspace) -> IndexStatus:
    async with patient_application(without_vectors(settings)) as app:
        async with app.store.transaction(workspace) as transaction:
            await transaction.request_rebuild()
        await app.lexical.catch_up(workspace)
        await app.lexical.rebuild(workspace)
        shards = tuple(shard for name, shard in app.lexical.status().items() if name == workspace)
        return IndexStatus(await app.store.head(), shards)
