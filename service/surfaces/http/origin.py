"""Where a request comes from: what a browser sends for another site is not taken for the visitor's own wish."""

import re
from typing import Final

from litestar.datastructures import Headers
from litestar.types import Scope

from service.core.access import is_loopback
from service.errors import Forbidden

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]{1,5})?")
_READING_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def check_unlocked(scope: Scope, headers: Headers) -> None:
    """What a request without a key has to show where none is needed. Raises Forbidden.

    Every site that the machine's user visits can send requests to a loopback address. It is kept from writing by
    what browsers say of a request's origin, and from reading, under a name of its own that leads to this address
    (DNS rebinding), by the name that was asked for.
    """
    check_own_name(scope, headers)
    if scope.get("method") not in _READING_METHODS:
        check_same_origin(headers)


def check_own_name(scope: Scope, headers: Headers) -> None:
    """Raises Forbidden where a loopback address was reached under a name that is not this machine's own."""
    server = scope.get("server")
    if server is None or not is_loopback(server[0]):
        return
    host = _HOST.fullmatch(headers.get("host", ""))
    if host is None or not is_loopback(host.group(1) or host.group(2)):
        raise Forbidden(
            "without API keys this address answers only to localhost, 127.0.0.1 and [::1]; "
            "make a key (citewell keys create) to reach it under another name"
        )


def check_same_origin(headers: Headers) -> None:
    """Raises Forbidden for what another site sent. What is no browser says nothing and is let through.

    Where a browser sends fetch metadata, which no script can set, it decides: a proxy may have changed the host.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        origin = headers.get("origin")
        is_own = origin is None or _is_at(origin, headers.get("host", ""))
    if not is_own:
        raise Forbidden("this was sent from another site")


def _is_at(origin: str, host: str) -> bool:
    """Whether an origin is the host's, port included; `null` is nobody's."""
    return bool(host) and origin.lower().partition("://")[2] == host.lower()
