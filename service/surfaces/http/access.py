"""Who is asking: every route says which scope it needs, and a request gets in with a key that has it."""

import asyncio
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.params import SkipValidation

from service.bootstrap import Application
from service.core.access import Access, KeyScope
from service.errors import Forbidden, StoreUnavailable, Unauthenticated
from service.surfaces.http.origin import check_unlocked

WORKSPACE_HEADER: Final = "X-Citewell-Workspace"
CALLER_HEADER: Final = "X-Citewell-Caller"
MAX_CALLER: Final = 200  # characters
KEY_COOKIE: Final = "citewell_key"  # of pages only: a browser cannot send a header when it follows a link
WORKSPACE_COOKIE: Final = "citewell_workspace"  # likewise; what the address says counts before it
PAGE_WORKSPACE: Final = "workspace"  # the parameter in a page's address

ADMIT_S: Final = 3.0  # for a key to be looked up where the request itself has no deadline
SCHEMA_PATH: Final = "/schema"
ARRIVED: Final = "arrived"  # the name of a request's arrival in its state: the gate writes it
NEEDS: Final = "needs"  # the name of a route's scope among its options
EVERYWHERE: Final = "everywhere"
FOR_PAGES: Final = "for_pages"
READS: Final = {NEEDS: KeyScope.READ}
WRITES: Final = {NEEDS: KeyScope.WRITE}
OPERATES: Final = {NEEDS: KeyScope.OPERATE}
OPERATES_ALL: Final = {NEEDS: KeyScope.OPERATE, EVERYWHERE: True}
OPEN: Final = {NEEDS: None}  # answered to anybody: it tells nothing of any workspace


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom a percentage rollout counts by, and when its request came to the gate (`time.monotonic()` seconds).

    `arrived` is None where there is no gate.
    """

    name: str
    arrived: float | None = None


Asking = NamedDependency[SkipValidation[Access]]
Caller = NamedDependency[SkipValidation[Sender]]
Connection = ASGIConnection[BaseRouteHandler, None, None, State]


async def authorize(connection: Connection, handler: BaseRouteHandler) -> None:
    """The guard of every route. One that does not say what it needs is closed to everybody.

    Raises Unauthenticated, Forbidden, RateLimited, InvalidInput, StoreUnavailable.
    """
    if connection.scope.get("method") == "OPTIONS" or _is_document(connection.scope["path"]):
        return
    if NEEDS not in handler.opt:
        raise Forbidden("the path is closed")
    needed: KeyScope | None = handler.opt[NEEDS]
    if needed is None:
        return
    if EVERYWHERE in handler.opt:
        access = await _admitted_in_time(connection)
        access.require(needed)
        if not access.is_operator:
            raise Forbidden("this tells of every workspace: it needs a key that reaches all of them")
        return
    access = await admitted(connection, from_cookie=FOR_PAGES in handler.opt)
    access.require(needed)


async def _admitted_in_time(connection: Connection) -> Access:
    """As `admitted`, within ADMIT_S: what tells of every workspace is answered even when the service is full."""
    try:
        async with asyncio.timeout(ADMIT_S):
            return await admitted(connection)
    except TimeoutError as error:
        raise StoreUnavailable("the store does not answer: keys cannot be looked up") from error


def _is_document(path: str) -> bool:
    """Whether a path is the OpenAPI document's, whose handlers are the framework's own."""
    return path == SCHEMA_PATH or path.startswith(f"{SCHEMA_PATH}/")


async def admitted(connection: Connection, *, from_cookie: bool = False) -> Access:
    """What the request may do; it is worked out once a request.

    Raises what `Gatekeeper.admit` raises, and Forbidden for what another site sends where no key is needed.
    """
    known = connection.state.get("access")
    if isinstance(known, Access):
        return known
    application: Application = connection.app.state.application
    key = bearer(connection.headers.get("authorization"))
    if key is None and from_cookie:
        key = connection.cookies.get(KEY_COOKIE)
    asked = connection.headers.get(WORKSPACE_HEADER)
    wanted = None if asked is None else unquote(asked)
    if wanted is None and from_cookie:
        wanted = _page_workspace(connection)
    access = await application.gatekeeper.admit(key, wanted)
    if access.key_id is None:
        check_unlocked(connection.scope, connection.headers)
    connection.state["access"] = access
    return access


def _page_workspace(connection: Connection) -> str | None:
    """The workspace that a page's visitor chose: in the address, else at sign-in; None for neither."""
    named: str = connection.query_params.get(PAGE_WORKSPACE, "")
    return named or connection.cookies.get(WORKSPACE_COOKIE) or None


def bearer(header: str | None) -> str | None:
    """The key of an Authorization header; None without one. Raises Unauthenticated for another scheme."""
    if header is None:
        return None
    scheme, _, key = header.partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Unauthenticated("the key is sent as Authorization: Bearer cw_…")
    return key.strip()


async def get_access(request: Connection) -> Access:
    """What the request may do."""
    return await admitted(request)


def get_caller(request: Connection) -> Sender:
    """Who the caller says it is, else its key, else nobody; and since when it waits for its answer."""
    access = request.state.get("access")
    key_id = access.key_id if isinstance(access, Access) else None
    name = request.headers.get(CALLER_HEADER, key_id or "")[:MAX_CALLER]
    return Sender(name, request.state.get(ARRIVED))
