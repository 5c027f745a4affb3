"""One request to one URL, connected to exactly the address that was checked.

The name is looked up once for each request, every address it has is checked, and the connection goes to
one of those addresses as an IP literal: there is no second look-up that could answer differently (DNS
rebinding). The Host header and the TLS server name stay the URL's own, so certificates are verified
against the name. Requests are built here and given straight to the transport: no client, hence no
cookies, no credentials, no proxy or netrc from the environment, no redirect followed unseen.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import httpx

from service.adapters.link_targets import Address, TargetPolicy, host_of, literal_address, port_of
from service.ports.links import Reason

Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Host name and port to addresses, preferred first. Raises socket.gaierror as `getaddrinfo` does."""

_NO_SUCH_NAME: Final[frozenset[int]] = frozenset(
    code for name in ("EAI_NONAME", "EAI_NODATA") if (code := getattr(socket, name, None)) is not None
)
_ADDRESSES_TRIED: Final = 3
# Only the head of an answer is wanted: a small window keeps a huge body on its server.
_RECEIVE_BUFFER: Final = 65_536

DEFAULT_USER_AGENT: Final = "citewell-links/1 (checks that cited pages still exist; reads no content)"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Times in seconds: to connect to one address, and for a whole request with its name look-up."""

    connect: float = 5.0
    total: float = 12.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an HTTP answer."""

    status: int
    location: str | None = None
    retry_after: str | None = None


async def system_resolver(host: str, port: int) -> Sequence[Address]:
    """Ask the operating system, in its order of preference."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [ip_address(entry[4][0]) for entry in found]


class PinnedRequests:
    """Sends HEAD and GET requests and reads only the head of the answer."""

    def __init__(
        self,
        policy: TargetPolicy,
        limits: RequestLimits,
        *,
        user_agent: str = DEFAULT_USER_AGENT,
        resolver: Resolver = system_resolver,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`ssl_context` verifies certificates; None means the public authorities."""
        self._policy = policy
        self._limits = limits
        self._resolver = resolver
        self._headers = {"User-Agent": user_agent, "Accept": "*/*", "Connection": "close"}
        # Nothing is kept alive: connections are pooled by address, and two names on one address must
        # never share one that was verified for the other.
        self._transport = httpx.AsyncHTTPTransport(
            verify=True if ssl_context is None else ssl_context,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)],
        )

    async def send(self, method: str, url: httpx.URL) -> Answer | Reason:
        """The answer's head, or why there is none. `url` has passed `TargetPolicy.refuse_url`."""
        try:
            async with asyncio.timeout(self._limits.total):
                addresses = await self._addresses(url)
                return addresses if isinstance(addresses, Reason) else await self._ask(method, url, addresses)
        except TimeoutError:
            return Reason.TIMEOUT

    async def aclose(self) -> None:
        """Close what is open."""
        await self._transport.aclose()

    async def _addresses(self, url: httpx.URL) -> Sequence[Address] | Reason:
        literal = literal_address(url)
        try:
            found = [literal] if literal is not None else await self._resolver(host_of(url), port_of(url))
        except socket.gaierror as error:
            return Reason.NO_SUCH_HOST if error.errno in _NO_SUCH_NAME else Reason.NAME_LOOKUP
        except (OSError, UnicodeError):
            return Reason.NAME_LOOKUP
        if not found:
            return Reason.NO_SUCH_HOST
        # One private address among public ones is refused too: that is what a rebinding name looks like.
        refusals = [refusal for address in found if (refusal := self._policy.refuse_address(address))]
        return refusals[0] if refusals else found[:_ADDRESSES_TRIED]

    async def _ask(self, method: str, url: httpx.URL, addresses: Sequence[Address]) -> Answer | Reason:
        failure = Reason.CONNECTION
        for address in addresses:
            try:
                return await self._ask_one(method, url, address)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = _reason_of(error)
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                return _reason_of(error)
        return failure

    async def _ask_one(self, method: str, url: httpx.URL, address: Address) -> Answer:
        host = host_of(url)
        timeout = httpx.Timeout(self._limits.total, connect=self._limits.connect)
        request = httpx.Request(
            method,
            url.copy_with(host=str(address)),
            headers={"Host": url.netloc.decode("ascii"), **self._headers},
            extensions={"timeout": timeout.as_dict(), "sni_hostname": host},
        )
        response = await self._transport.handle_async_request(request)
        await response.aclose()
        return Answer(
            response.status_code, response.headers.get("location"), response.headers.get("retry-after")
        )


def _reason_of(error: Exception) -> Reason:
    if any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
        return Reason.TLS
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return Reason.TIMEOUT
    if isinstance(error, (httpx.ProtocolError, ValueError)):
        return Reason.PROTOCOL
    return Reason.CONNECTION


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
