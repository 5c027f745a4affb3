"""Which URLs and which network addresses a link check may visit. Pure: no look-up happens here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx

from service.ports.links import Reason

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}

_NAME: Final = re.compile(r"(?!.{254})(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.ASCII)
# WHATWG's "ends in a number": what an inet_aton would read as an address (2130706433, 0x7f.1, 0177.0.0.1).
_ENDS_IN_NUMBER: Final = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.ASCII)

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
# Not (or not in every supported Python) covered by `is_global`: the 6to4 relay and IPv6 documentation.
_NEVER_PUBLIC: Final[tuple[Network, ...]] = (IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))


def read_url(text: str) -> httpx.URL | None:
    """The URL without its fragment, which no server ever sees; None when it cannot be read as one."""
    try:
        url = httpx.URL(text)
        return url.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        return None


def follow(url: httpx.URL, location: str) -> httpx.URL | None:
    """Where a redirect from `url` leads; None when its Location cannot be read."""
    try:
        return read_url(str(url.join(location.strip())))
    except (httpx.InvalidURL, ValueError):
        return None


def host_of(url: httpx.URL) -> str:
    """The ASCII host as it goes on the wire, without the dot that only marks a name as absolute."""
    return url.raw_host.decode("ascii").removesuffix(".")


def port_of(url: httpx.URL) -> int:
    """The port that is connected to; 0 for a scheme without a known one."""
    return url.port if url.port is not None else _DEFAULT_PORTS.get(url.scheme, 0)


def literal_address(url: httpx.URL) -> Address | None:
    """The address when the host is written as one, else None."""
    try:
        return ip_address(host_of(url))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """What may be visited.

    Only public unicast addresses are, unless `allow_private` (for a corpus about an intranet, or a test).
    `trusted_networks` allows single private networks instead of all of them. `ports` is the closed list of
    ports; None means any, which lets a URL aim the checker at services that do not speak HTTP.
    """

    allow_private: bool = False
    trusted_networks: tuple[Network, ...] = ()
    ports: frozenset[int] | None = WEB_PORTS

    def refuse_url(self, url: httpx.URL) -> Reason | None:
        """Why this URL must not be visited at all, judged without a name look-up; None when it may be."""
        if url.scheme not in _DEFAULT_PORTS:
            return Reason.SCHEME
        if url.userinfo:
            return Reason.CREDENTIALS
        if port_of(url) > 65535:
            return Reason.MALFORMED_URL
        refusal = self._refuse_host(url)
        if refusal is None and self.ports is not None and port_of(url) not in self.ports:
            return Reason.PORT
        return refusal

    def refuse_address(self, address: Address) -> Reason | None:
        """Why this address must not be connected to; None when it may be."""
        embedded = _embedded_ipv4(address) if isinstance(address, IPv6Address) else None
        if embedded is not None:
            return self.refuse_address(embedded)
        if address.is_multicast or address.is_unspecified:
            return Reason.PRIVATE_ADDRESS
        if self.allow_private or any(address in network for network in self.trusted_networks):
            return None
        return None if _is_public(address) else Reason.PRIVATE_ADDRESS

    def _refuse_host(self, url: httpx.URL) -> Reason | None:
        address = literal_address(url)
        if address is not None:
            return self.refuse_address(address)
        host = url.raw_host.decode("ascii")
        if not _NAME.fullmatch(host):
            return Reason.MALFORMED_URL
        return Reason.NUMERIC_HOST if _ENDS_IN_NUMBER.fullmatch(host) else None


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that traffic to `address` ends at: IPv4-mapped, NAT64 or 6to4."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not any(address in network for network in _NEVER_PUBLIC)
