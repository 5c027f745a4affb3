"""The connection goes to the address that was checked, whatever a name says next."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from ipaddress import IPv4Network
from pathlib import Path
from shutil import which

import pytest

from service.adapters.link_prober import HttpLinkProber
from service.adapters.link_targets import TargetPolicy
from service.ports.links import Liveness, Reason
from tests.links.parts import LOOPBACK, Names, settings
from tests.links.site import Site, by_method, status

pytestmark = pytest.mark.anyio

# 127.0.0.2 plays the public address here; 127.0.0.1 stays what it is: private, and refused.
OPEN = "127.0.0.2"
INSIDE = "127.0.0.1"
POLICY = TargetPolicy(trusted_networks=(IPv4Network(f"{OPEN}/32"),), ports=None)


@pytest.fixture
async def secret(anyio_backend: str) -> AsyncIterator[Site]:
    """A server on the private address, which nothing may reach."""
    async with Site({"/": status(200)}, address=INSIDE) as running:
        yield running


@pytest.fixture
async def public(secret: Site) -> AsyncIterator[Site]:
    """A server on the open address, at the same port as the private one."""
    async with Site({"/": status(200)}, address=OPEN, port=secret.port) as running:
        yield running


async def test_a_private_literal_is_never_connected_to(secret: Site) -> None:
    """A URL that names a private address is refused without a connection."""
    async with HttpLinkProber(settings(POLICY)) as prober:
        assert await prober.probe(secret.url("/")) == Liveness(Reason.PRIVATE_ADDRESS)
    assert secret.connections == 0


async def test_a_name_of_a_private_address_is_never_connected_to(secret: Site) -> None:
    """A public-looking name whose address is private is refused without a connection."""
    names = Names({"inside.example": [[INSIDE]]})
    async with HttpLinkProber(settings(POLICY), resolver=names) as prober:
        assert await prober.probe(secret.url("/", "inside.example")) == Liveness(Reason.PRIVATE_ADDRESS)
    assert secret.connections == 0


async def test_a_redirect_to_a_private_address_is_not_followed(public: Site, secret: Site) -> None:
    """A page that redirects to a private address, by literal or by name, is refused at that hop."""
    public.pages["/literal"] = status(302, location=secret.url("/"))
    public.pages["/name"] = status(302, location=secret.url("/", "inside.example"))
    names = Names({"inside.example": [[INSIDE]]})
    async with HttpLinkProber(settings(POLICY), resolver=names) as prober:
        assert await prober.probe(public.url("/literal")) == Liveness(Reason.PRIVATE_ADDRESS)
        assert await prober.probe(public.url("/name")) == Liveness(Reason.PRIVATE_ADDRESS)
    assert (public.connections, secret.connections) == (2, 0)


async def test_a_rebinding_name_gets_no_second_look_up(public: Site, secret: Site) -> None:
    """A name that turns private right after its check is connected to at the address that was checked."""
    names = Names({"turncoat.example": [[OPEN], [INSIDE]]})
    async with HttpLinkProber(settings(POLICY), resolver=names) as prober:
        assert await prober.probe(public.url("/", "turncoat.example")) == Liveness(Reason.ANSWERED, 200)
    assert names.looked_up == ["turncoat.example"]
    assert (public.connections, secret.connections) == (1, 0)


async def test_a_name_that_turns_private_between_requests_is_refused(public: Site, secret: Site) -> None:
    """When HEAD is answered and the name then turns private, GET is refused, not sent."""
    public.pages["/"] = by_method(HEAD=status(405), GET=status(200))
    names = Names({"turncoat.example": [[OPEN], [INSIDE]]})
    async with HttpLinkProber(settings(POLICY), resolver=names) as prober:
        assert await prober.probe(public.url("/", "turncoat.example")) == Liveness(Reason.PRIVATE_ADDRESS)
    assert (public.methods("/"), secret.connections) == (["HEAD"], 0)


async def test_one_private_address_among_public_ones_refuses_the_name(public: Site, secret: Site) -> None:
    """A name with a public and a private address is refused whichever comes first."""
    for mixed in ([OPEN, INSIDE], [INSIDE, OPEN], [OPEN, "::ffff:127.0.0.1"]):
        names = Names({"mixed.example": [mixed]})
        async with HttpLinkProber(settings(POLICY), resolver=names) as prober:
            assert await prober.probe(public.url("/", "mixed.example")) == Liveness(Reason.PRIVATE_ADDRESS)
    assert (public.connections, secret.connections) == (0, 0)


async def test_the_next_address_is_tried_when_one_does_not_accept(secret: Site) -> None:
    """A name with a closed and an open address is alive by the open one."""
    names = Names({"two.example": [["127.0.0.3", INSIDE]]})
    async with HttpLinkProber(settings(LOOPBACK), resolver=names) as prober:
        assert await prober.probe(secret.url("/", "two.example")) == Liveness(Reason.ANSWERED, 200)
    assert secret.asked[0].headers["host"] == f"two.example:{secret.port}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key in one file, self-signed for site.example only."""
    openssl = which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate and is not installed")
    pem = tmp_path_factory.mktemp("tls") / "site.pem"
    arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=site.example"
    extension = ["-addext", "subjectAltName=DNS:site.example"]
    subprocess.run(
        [openssl, *arguments.split(), *extension, "-keyout", str(pem), "-out", str(pem) + ".crt"],
        check=True,
        capture_output=True,
    )
    pem.write_text(pem.read_text() + Path(str(pem) + ".crt").read_text())
    return pem


@pytest.fixture
async def tls_site(certificate: Path, anyio_backend: str) -> AsyncIterator[Site]:
    """A server that speaks TLS with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with Site({"/": status(200)}, tls=context) as running:
        yield running


async def test_certificates_are_verified_against_the_name(tls_site: Site, certificate: Path) -> None:
    """A trusted certificate holds for its own name and no other, though an address is connected to."""
    names = Names({"site.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})
    trusted = ssl.create_default_context(cafile=str(certificate))
    async with HttpLinkProber(settings(), resolver=names, ssl_context=trusted) as prober:
        assert await prober.probe(tls_site.url("/", "site.example")) == Liveness(Reason.ANSWERED, 200)
        assert await prober.probe(tls_site.url("/", "other.example")) == Liveness(Reason.TLS)
        assert await prober.probe(tls_site.url("/")) == Liveness(Reason.TLS)
    assert len(tls_site.asked) == 1


async def test_an_untrusted_certificate_is_undecided(
    tls_site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C28: verification is on by default, and the environment cannot add an authority behind our back."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    names = Names({"site.example": [["127.0.0.1"]]})
    async with HttpLinkProber(settings(), resolver=names) as prober:
        assert await prober.probe(tls_site.url("/", "site.example")) == Liveness(Reason.TLS)
    assert tls_site.asked == []
