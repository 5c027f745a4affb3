"""Options that many commands share."""

from collections.abc import Callable
from typing import TypeVar

import click

from service.core.access import workspace_name
from service.errors import InvalidInput
from service.model import Workspace
from service.settings import Settings

Command = TypeVar("Command", bound=Callable[..., None])


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
    try:
        return workspace_name(settings.workspace if named is None else named)
    except InvalidInput as error:
        raise click.UsageError(error.detail) from error
