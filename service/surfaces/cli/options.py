"""Options that many commands share."""

from collections.abc import Callable
from typing import TypeVar

import click

from service.core.text import is_storable
from service.model import Workspace
from service.settings import Settings

Command = TypeVar("Command", bound=Callable[..., None])
MAX_WORKSPACE = 200  # characters


def workspace_option(command: Command) -> Command:
    """`--workspace`, by default the one in the settings."""
    return click.option("--workspace", metavar="NAME", help="Workspace; by default that of the settings.")(
        command
    )


def json_option(command: Command) -> Command:
    """`--json`, for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def workspace_of(settings: Settings, named: str | None) -> Workspace:
    """The workspace a command works in. Raises click.UsageError for a name that is none."""
    name = settings.workspace if named is None else named
    if not name.strip() or len(name) > MAX_WORKSPACE or not is_storable(name):
        raise click.UsageError(f"a workspace has a name of up to {MAX_WORKSPACE} characters")
    return Workspace(name)
