"""`citewell db`: the database's schema."""

import click

from service.bootstrap import open_store
from service.settings import Settings, read_settings
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say


@click.group()
def db() -> None:
    """Upgrade the database's schema."""


@db.command()
def upgrade() -> None:
    """Bring the schema to this version; every other command does so as well."""
    run(_upgraded(read_settings()))
    say("the schema is that of this version")


async def _upgraded(settings: Settings) -> None:
    async with open_store(settings):
        return
