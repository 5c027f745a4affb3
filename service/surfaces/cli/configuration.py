"""`citewell settings`: every setting, its value and what it is for."""

import re
from typing import Final

import click
from pydantic import SecretStr

from service.settings import Settings, read_settings
from service.surfaces.cli.options import json_option
from service.surfaces.cli.terminal import say_json, say_table

HIDDEN: Final = "********"
_PASSWORD_IN_URL: Final = re.compile(r"(?<=://)([^:/?#@]*):.*(?=@)")
_SECRET_PARAMETER: Final = re.compile(r"(?i)([?&;][^=&;]*(?:password|secret|token|key)[^=&;]*=)[^&;]*")


@click.group()
def settings() -> None:
    """Show every setting."""


@settings.command()
@json_option
def show(*, as_json: bool) -> None:
    """Show every setting with its value; secrets are masked."""
    values = read_settings()
    shown = [
        (variable(name), shown_value(getattr(values, name)), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    if as_json:
        say_json([{"variable": name, "value": value, "description": text} for name, value, text in shown])
    else:
        say_table(("variable", "value", "what it is for"), shown)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    alias = Settings.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else f"{Settings.model_config.get('env_prefix', '')}{name}".upper()


def shown_value(value: object) -> str:
    """A value without the passwords and keys it may hold."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    text = "" if value is None else str(value)
    return _SECRET_PARAMETER.sub(rf"\g<1>{HIDDEN}", _PASSWORD_IN_URL.sub(rf"\g<1>:{HIDDEN}", text))
