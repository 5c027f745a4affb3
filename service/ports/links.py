"""Checking source URLs: somebody who visits, somebody who remembers, and the rule between them.

What a visit found is a `Reason`; a reason has exactly one `Verdict`; a verdict has exactly one value to
store. The rule fails closed without accusing: *alive* and *dead* are stored only on evidence (a page that
answered, a server or name service that says there is no such page), and everything else is stored as
null, "unchecked". So a page that has been timing out for a year is not rendered as a link, and a page
that had one slow minute is not called dead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from service.model import Workspace


class Verdict(StrEnum):
    """What may be concluded about a page."""

    ALIVE = "alive"
    DEAD = "dead"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a verdict was reached: a closed list, stable enough to print and to count."""

    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    GONE = "gone"
    NO_SUCH_HOST = "no_such_host"
    MALFORMED_URL = "malformed_url"
    SCHEME = "scheme_not_http"
    CREDENTIALS = "credentials_in_url"
    PORT = "port_not_allowed"
    NUMERIC_HOST = "numeric_host"
    PRIVATE_ADDRESS = "private_address"
    TIMEOUT = "timeout"
    CONNECTION = "connection_failed"
    TLS = "tls_failed"
    NAME_LOOKUP = "name_lookup_failed"
    PROTOCOL = "not_http"
    HOST_DOWN = "host_down"
    SERVER_ERROR = "server_error"
    RATE_LIMITED = "rate_limited"
    ACCESS_DENIED = "access_denied"
    STATUS = "inconclusive_status"
    REDIRECTS = "redirect_loop"
    BAD_REDIRECT = "bad_redirect"
    PROBER = "prober_failed"


VERDICTS: Final[Mapping[Reason, Verdict]] = {
    Reason.ANSWERED: Verdict.ALIVE,
    Reason.NOT_FOUND: Verdict.DEAD,
    Reason.GONE: Verdict.DEAD,
    Reason.NO_SUCH_HOST: Verdict.DEAD,
    Reason.MALFORMED_URL: Verdict.REFUSED,
    Reason.SCHEME: Verdict.REFUSED,
    Reason.CREDENTIALS: Verdict.REFUSED,
    Reason.PORT: Verdict.REFUSED,
    Reason.NUMERIC_HOST: Verdict.REFUSED,
    Reason.PRIVATE_ADDRESS: Verdict.REFUSED,
    Reason.TIMEOUT: Verdict.UNKNOWN,
    Reason.CONNECTION: Verdict.UNKNOWN,
    Reason.TLS: Verdict.UNKNOWN,
    Reason.NAME_LOOKUP: Verdict.UNKNOWN,
    Reason.PROTOCOL: Verdict.UNKNOWN,
    Reason.HOST_DOWN: Verdict.UNKNOWN,
    Reason.SERVER_ERROR: Verdict.UNKNOWN,
    Reason.RATE_LIMITED: Verdict.UNKNOWN,
    # A login wall or a wall against robots: a reader may or may not get through, and nobody saw it.
    Reason.ACCESS_DENIED: Verdict.UNKNOWN,
    Reason.STATUS: Verdict.UNKNOWN,
    # Often a site that redirects to itself until its cookie comes back; a browser gets through.
    Reason.REDIRECTS: Verdict.UNKNOWN,
    Reason.BAD_REDIRECT: Verdict.UNKNOWN,
    Reason.PROBER: Verdict.UNKNOWN,
}

_BY_STATUS: Final[Mapping[int, Reason]] = {
    401: Reason.ACCESS_DENIED,
    403: Reason.ACCESS_DENIED,
    404: Reason.NOT_FOUND,
    407: Reason.ACCESS_DENIED,
    410: Reason.GONE,
    429: Reason.RATE_LIMITED,
    451: Reason.ACCESS_DENIED,
}

_STORED: Final[Mapping[Verdict, bool | None]] = {
    Verdict.ALIVE: True,
    Verdict.DEAD: False,
    Verdict.REFUSED: None,
    Verdict.UNKNOWN: None,
}

_PASSING: Final = frozenset(
    {
        Reason.NO_SUCH_HOST,
        Reason.TIMEOUT,
        Reason.CONNECTION,
        Reason.NAME_LOOKUP,
        Reason.PROTOCOL,
        Reason.HOST_DOWN,
        Reason.SERVER_ERROR,
        Reason.RATE_LIMITED,
    }
)


@dataclass(frozen=True, slots=True)
class Liveness:
    """What visiting one URL found. `status` is the last HTTP status seen, None when there was none."""

    reason: Reason
    status: int | None = None

    @property
    def verdict(self) -> Verdict:
        """The only conclusion this reason allows."""
        return VERDICTS[self.reason]


def judge_status(status: int) -> Liveness:
    """What the final status of a GET says about a page; redirects have been followed before.

    Only 404 and 410 are a server saying that the page does not exist. Anything else that is not a success
    says that it could not or would not show the page just now, to this visitor.
    """
    if 200 <= status <= 299:
        return Liveness(Reason.ANSWERED, status)
    if status >= 500:
        return Liveness(Reason.SERVER_ERROR, status)
    return Liveness(_BY_STATUS.get(status, Reason.STATUS), status)


def stored_value(liveness: Liveness) -> bool | None:
    """What an item's `source_url_ok` becomes: true seen live, false dead, null for all that is neither.

    Null also replaces an earlier true, because a link that can no longer be confirmed must not be
    rendered, and an earlier false, because a page that no longer says 404 is not known to be dead.
    """
    return _STORED[liveness.verdict]


def deserves_second_look(liveness: Liveness) -> bool:
    """True when waiting a little could change the answer: a network, server or name service in trouble."""
    return liveness.reason in _PASSING


class LinkProber(Protocol):
    """Visits a URL without reading more of it than whether it answers."""

    async def probe(self, url: str) -> Liveness:
        """What `url` is now. Nothing that a URL or a server does is an error; any text is accepted.

        Raises:
            CitewellError: the prober itself cannot work; the URL stays undecided.
        """
        ...


class LinkStore(Protocol):
    """The source URLs of a workspace's items, and what is known of them."""

    async def live_urls(self, workspace: Workspace) -> Sequence[str]:
        """Distinct source URLs of items that are not stale, in a stable order; uploads have none."""
        ...

    async def set_url_ok(self, workspace: Workspace, url: str, ok: bool | None) -> int:  # noqa: FBT001 - a value to store, not a switch
        """Store `ok` on every live item with this source URL; how many rows held another value before.

        An unknown URL changes nothing and is not an error. One call is one transaction.

        Raises:
            StoreUnavailable: the database does not answer; nothing of this call was stored.
        """
        ...
