"""What a link check may visit, decided without a network."""

from ipaddress import IPv4Network, ip_address

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.link_targets import TargetPolicy, follow, read_url
from service.ports.links import Reason

PUBLIC_ONLY = TargetPolicy()


def refusal(text: str, policy: TargetPolicy = PUBLIC_ONLY) -> Reason | None:
    """Why a URL's text is refused."""
    url = read_url(text)
    return Reason.MALFORMED_URL if url is None else policy.refuse_url(url)


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com/",
        "https://example.com:443/a?b=c#d",
        "https://www.example.co.uk:8443/",
        "HTTP://EXAMPLE.COM./",
        "https://münchen.example/",
        "http://under_score.example/",
        "http://93.184.216.34/",
        "http://[2606:4700::1111]/",
        "http://3com.example/",
    ],
)
def test_public_web_pages_may_be_visited(text: str) -> None:
    """Ordinary web addresses, by name or by public address, are not refused."""
    assert refusal(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://example.com/", Reason.SCHEME),
        ("file:///etc/passwd", Reason.SCHEME),
        ("mailto:a@example.com", Reason.SCHEME),
        ("example.com/page", Reason.SCHEME),
        ("http://user@example.com/", Reason.CREDENTIALS),
        ("http://user:secret@example.com/", Reason.CREDENTIALS),
        ("http://example.com\\@127.0.0.1/", Reason.CREDENTIALS),
        ("http://example.com:22/", Reason.PORT),
        ("https://example.com:6379/", Reason.PORT),
        ("http://2130706433/", Reason.NUMERIC_HOST),
        ("http://0x7f000001/", Reason.NUMERIC_HOST),
        ("http://0x7f.1/", Reason.NUMERIC_HOST),
        ("http://0177.1/", Reason.NUMERIC_HOST),
        ("http://0177.0.0.1/", Reason.MALFORMED_URL),
        ("http://127.1/", Reason.NUMERIC_HOST),
        ("http://127.0.0.01/", Reason.MALFORMED_URL),
        ("http://1.2.3.4.5/", Reason.NUMERIC_HOST),
        ("http://127.0.0.1/", Reason.PRIVATE_ADDRESS),
        ("http://127.0.0.1./", Reason.PRIVATE_ADDRESS),
        ("http://127。0。0。1/", Reason.PRIVATE_ADDRESS),
        ("http://[::1]/", Reason.PRIVATE_ADDRESS),
        ("http://[::ffff:10.0.0.1]/", Reason.PRIVATE_ADDRESS),
        ("http://[::ffff:a00:1]/", Reason.PRIVATE_ADDRESS),
        ("http://[fe80::1%25eth0]/", Reason.PRIVATE_ADDRESS),
        ("http:///nohost", Reason.MALFORMED_URL),
        ("http://a..b/", Reason.MALFORMED_URL),
        ("http://ex%61mple.com/", Reason.MALFORMED_URL),
        ("http://example.com:70000/", Reason.MALFORMED_URL),
        ("http://\uff11\uff12\uff17.0.0.1/", Reason.MALFORMED_URL),
    ],
)
def test_urls_that_must_not_be_visited(text: str, reason: Reason) -> None:
    """Other schemes, credentials, odd ports, disguised and private addresses are refused unvisited."""
    assert refusal(text) is reason


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - refused, not bound
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.0.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "233.252.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    """Private, loopback, link-local, shared, reserved, documentation and multicast addresses are refused."""
    assert PUBLIC_ONLY.refuse_address(ip_address(address)) is Reason.PRIVATE_ADDRESS


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111"],
)
def test_public_addresses_may_be_connected_to(address: str) -> None:
    """Public unicast addresses are allowed, also where IPv6 carries IPv4."""
    assert PUBLIC_ONLY.refuse_address(ip_address(address)) is None


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_the_same_inside_ipv6(address: object) -> None:
    """No IPv4 address becomes allowed by being written as an IPv4-mapped IPv6 one."""
    plain, mapped = ip_address(str(address)), ip_address(f"::ffff:{address}")
    assert PUBLIC_ONLY.refuse_address(plain) == PUBLIC_ONLY.refuse_address(mapped)


def test_private_addresses_only_by_permission() -> None:
    """`allow_private` opens private networks, `trusted_networks` only those named; multicast stays shut."""
    everywhere = TargetPolicy(allow_private=True)
    intranet = TargetPolicy(trusted_networks=(IPv4Network("10.1.0.0/16"),))
    assert everywhere.refuse_address(ip_address("127.0.0.1")) is None
    assert everywhere.refuse_address(ip_address("ff02::1")) is Reason.PRIVATE_ADDRESS
    assert everywhere.refuse_address(ip_address("::")) is Reason.PRIVATE_ADDRESS
    assert intranet.refuse_address(ip_address("10.1.2.3")) is None
    assert intranet.refuse_address(ip_address("::ffff:10.1.2.3")) is None
    assert intranet.refuse_address(ip_address("10.2.0.1")) is Reason.PRIVATE_ADDRESS
    assert intranet.refuse_address(ip_address("93.184.216.34")) is None


def test_disguised_hosts_stay_refused_where_private_is_allowed() -> None:
    """`allow_private` is about networks: other schemes, credentials and numeric names stay refused."""
    everywhere = TargetPolicy(allow_private=True, ports=None)
    assert refusal("http://127.0.0.1:5000/", everywhere) is None
    assert refusal("http://2130706433/", everywhere) is Reason.NUMERIC_HOST
    assert refusal("http://a:b@127.0.0.1/", everywhere) is Reason.CREDENTIALS
    assert refusal("gopher://127.0.0.1/", everywhere) is Reason.SCHEME


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/x", "http://example.com/x"),
        ("x?y#z", "http://example.com/a/x?y"),
        (" //other.example/ ", "http://other.example/"),
        ("https://other.example", "https://other.example"),
    ],
)
def test_redirects_resolve_against_their_page(location: str, target: str) -> None:
    """A relative Location is resolved, and its fragment dropped."""
    assert follow(httpx.URL("http://example.com/a/b"), location) == httpx.URL(target)


@given(st.text(max_size=60))
def test_any_location_is_read_or_refused(location: str) -> None:
    """Any Location gives a URL or None, never an error; and any URL gets a judgement."""
    target = follow(httpx.URL("http://example.com/"), location)
    assert target is None or PUBLIC_ONLY.refuse_url(target) in {None, *Reason}
