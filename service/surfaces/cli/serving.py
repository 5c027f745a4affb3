"""`citewell serve`: HTTP."""

import logging
import pkgutil
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from service.bootstrap import application, keyring, open_store
from service.core.access import is_loopback
from service.errors import InvalidInput, Unavailable
from service.model import Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.connection import ConnectionBounds
from service.surfaces.cli.logs import logs_to_stderr
from service.surfaces.cli.server import GracefulServer, ServerBounds, Watch
from service.surfaces.cli.session import run, without_vectors
from service.surfaces.cli.terminal import tell
from service.surfaces.shipped import ShippedState, load_shipped, shipped_state
from service.vector_parts import preload_vectors

if TYPE_CHECKING:
    from litestar import Litestar

IDLE_CONNECTIONS: Final = 512  # beyond the requests that are worked on or wait
HTTP_APPLICATION: Final = (
    "service.surfaces.http.app:create_app"  # named, since surfaces do not know each other
)


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on; by default that of the settings.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--allow-remote", is_flag=True, help="Let other machines in though no API key was made.")
@click.option("--shipped", is_flag=True, help="Load the shipped corpora where the workspace is empty.")
def serve(*, host: str | None, port: int | None, allow_remote: bool, shipped: bool) -> None:
    """Answer over HTTP until Ctrl-C or SIGTERM; what is open is finished first, a second one stops at once."""
    settings = read_settings()
    address, number = host or settings.host, settings.port if port is None else port
    has_keys = run(_has_keys(settings))
    if not (has_keys or allow_remote or is_loopback(address)):
        raise InvalidInput(
            f"{address} is reachable from other machines and no API key was ever made: "
            "make one (citewell keys create), listen on 127.0.0.1, or say --allow-remote",
            field="host",
        )
    run(_prepare(settings, shipped=shipped))
    preload_vectors(settings)  # done while the event loop runs, it would hold it up
    logs_to_stderr(settings.log_level)
    create_app: Callable[[Settings], Litestar] = pkgutil.resolve_name(HTTP_APPLICATION)
    listening = _listen(address, number)
    shown = listening.getsockname()
    site = f"http://{_host_text(shown[0])}:{shown[1]}"
    tell(f"citewell starts; {site}/health/ready says when it is ready")
    app = create_app(settings)

    def tell_ready() -> None:
        tell(f"citewell listens on {site} (OpenAPI: /schema, Ctrl-C stops)")
        tell(_who_may_ask(address, has_keys=has_keys))

    server = GracefulServer(app, Watch(tell_ready, app.state.leaving.begin), _bounds(settings))
    # What a setting or a missing extra refuses is told below, in one line; the server would log its stack.
    logging.getLogger("uvicorn.error").addFilter(lambda _: "refusal" not in app.state)
    server.run([listening])
    if "refusal" in app.state:
        raise app.state.refusal
    if not server.started:
        raise Unavailable("the service could not start")


def _bounds(settings: Settings) -> ServerBounds:
    """Room for everything that is worked on or waits, and for IDLE_CONNECTIONS that do neither."""
    connections = settings.max_in_flight + settings.max_waiting + IDLE_CONNECTIONS
    return ServerBounds(settings.drain_seconds, ConnectionBounds(connections))


def _who_may_ask(address: str, *, has_keys: bool) -> str:
    if has_keys:
        return "API keys exist: requests need one"
    if is_loopback(address):
        return "no API key was made: everybody on this machine may ask, nobody else (citewell keys create)"
    return "warning: no API key was made and everybody who reaches this address may ask and write"


async def _has_keys(settings: Settings) -> bool:
    async with keyring(settings) as control:
        return bool(await control.list())


async def _prepare(settings: Settings, *, shipped: bool) -> None:
    """Whatever would stop the service is told now, in one line. Raises ConfigurationError, Unavailable."""
    workspace = Workspace(settings.workspace)
    async with open_store(settings) as store:
        state = await shipped_state(store, workspace) if shipped else None
    if state is ShippedState.OTHERS:
        tell(f"the workspace {workspace} holds other data: the shipped corpora are not loaded")
    if state in (ShippedState.EMPTY, ShippedState.BEGUN):
        tell("loading the shipped corpora…")
        async with application(without_vectors(settings)) as app:
            await load_shipped(app, workspace)


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=2048)
    except OSError as error:
        raise Unavailable(f"cannot listen on {address}, port {port}: {error.strerror}") from error


def _host_text(address: str) -> str:
    return f"[{address}]" if ":" in address else address
