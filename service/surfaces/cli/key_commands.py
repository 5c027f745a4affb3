"""`citewell keys`: who may ask over HTTP."""

import click

from service.bootstrap import keyring, utc_now
from service.core.access import EVERY_WORKSPACE, ApiKey, KeyScope
from service.ingest.keys import KeyOrder, MadeKey
from service.settings import Settings, read_settings
from service.surfaces.cli.options import json_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, say_table, tell
from service.surfaces.wire import utc_text

SCOPES = ",".join(scope.value for scope in KeyScope)


@click.group()
def keys() -> None:
    """Make, list and revoke API keys.

    Once there is one, HTTP requests need a key.
    """


@keys.command()
@click.argument("name")
@click.option(
    "--workspace",
    "workspaces",
    multiple=True,
    metavar="NAME",
    help="Workspace that the key reaches; repeat it for more. By default that of the settings.",
)
@click.option("--all-workspaces", is_flag=True, help="The key reaches every workspace, future ones too.")
@click.option("--scopes", default="read", show_default=True, metavar="LIST", help=f"Some of {SCOPES}.")
@click.option("--rate", type=float, metavar="N", help="Requests a second; by default that of the settings.")
@json_option
def create(
    *,
    name: str,
    workspaces: tuple[str, ...],
    all_workspaces: bool,
    scopes: str,
    rate: float | None,
    as_json: bool,
) -> None:
    """Make a key and print it, once: it is stored only as a hash. NAME says whose it is."""
    if all_workspaces and workspaces:
        raise click.UsageError("--workspace and --all-workspaces exclude each other")
    settings = read_settings()
    reached = frozenset({EVERY_WORKSPACE} if all_workspaces else workspaces or {settings.workspace})
    made = run(_create(settings, KeyOrder(name, reached, scopes_of(scopes), rate)))
    if as_json:
        say_json({**key_out(made.key), "key": made.text})
        return
    tell(f"key {made.key.key_id} ({', '.join(sorted(made.key.scopes))}); it is shown only now:")
    say(made.text)


@keys.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List every key, revoked ones too; never the keys themselves."""
    found = [key_out(key) for key in run(_all(read_settings()))]
    if as_json:
        say_json(found)
        return
    say_table(
        ("key", "name", "workspaces", "scopes", "rate", "created", "last used", "revoked"),
        [
            (
                str(key["key_id"]),
                str(key["name"]),
                _listed(key["workspaces"]),
                _listed(key["scopes"]),
                None if key["rate"] is None else f"{key['rate']:g}/s",
                *(None if key[name] is None else str(key[name]) for name in MOMENTS),
            )
            for key in found
        ],
    )


@keys.command()
@click.argument("key_id")
@json_option
def revoke(*, key_id: str, as_json: bool) -> None:
    """Revoke a key for good; every process has noticed after two seconds."""
    began = utc_now()
    key = run(_revoke(read_settings(), key_id))
    if as_json:
        say_json(key_out(key))
    elif key.revoked_at is not None and key.revoked_at < began:
        say(f"{key.key_id} ({key.name}) was revoked already, at {key_out(key)['revoked_at']}")
    else:
        say(f"{key.key_id} ({key.name}) is revoked")


MOMENTS = ("created_at", "last_used_at", "revoked_at")


def key_out(key: ApiKey) -> dict[str, object]:
    """A key as it is shown: without its hash."""
    shown: dict[str, object] = {
        "key_id": key.key_id,
        "name": key.name,
        "workspaces": sorted(key.workspaces),
        "scopes": sorted(scope.value for scope in key.scopes),
        "rate": key.rate,
    }
    for name in MOMENTS:
        moment = getattr(key, name)
        shown[name] = None if moment is None else utc_text(moment.replace(microsecond=0))
    return shown


def scopes_of(text: str) -> frozenset[KeyScope]:
    """Scopes from a list with commas. Raises click.BadParameter."""
    try:
        return frozenset(KeyScope(word.strip().lower()) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise click.BadParameter(f"scopes are some of {SCOPES}", param_hint="--scopes") from error


def _listed(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


async def _create(settings: Settings, order: KeyOrder) -> MadeKey:
    async with keyring(settings) as control:
        return await control.create(order)


async def _all(settings: Settings) -> list[ApiKey]:
    async with keyring(settings) as control:
        return list(await control.list())


async def _revoke(settings: Settings, key_id: str) -> ApiKey:
    async with keyring(settings) as control:
        return await control.revoke(key_id)
