"""What the prober concludes from what real servers do."""

import asyncio
import socket
import ssl
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service.adapters.link_pacing import Pace
from service.adapters.link_prober import HttpLinkProber
from service.adapters.link_targets import Address, TargetPolicy
from service.ports.links import Liveness, Reason, Verdict
from tests.links.parts import HandClock, Names, settings
from tests.links.site import (
    Asked,
    HugePage,
    Page,
    Site,
    by_method,
    dripping,
    gibberish,
    in_turn,
    resetting,
    silent,
    status,
)

pytestmark = pytest.mark.anyio


async def probe(url: str, *, retries: int = 2, total: float = 5.0, max_redirects: int = 8) -> Liveness:
    """Probe one URL with a prober of its own, names resolved by the system."""
    chosen = settings(retries=retries, total=total, max_redirects=max_redirects)
    async with HttpLinkProber(chosen) as prober:
        return await prober.probe(url)


async def test_a_page_that_answers_head_is_alive(site: Site) -> None:
    """C1: a 200 to HEAD is seen live, with one request and no GET."""
    site.pages["/"] = status(200)
    assert await probe(site.url("/")) == Liveness(Reason.ANSWERED, 200)
    assert site.methods("/") == ["HEAD"]


@pytest.mark.parametrize(("code", "reason"), [(404, Reason.NOT_FOUND), (410, Reason.GONE)])
async def test_a_missing_page_is_dead_only_after_get(site: Site, code: int, reason: Reason) -> None:
    """C1: 404 and 410 are dead, and GET has confirmed what HEAD said."""
    site.pages["/gone"] = status(code)
    found = await probe(site.url("/gone"))
    assert found == Liveness(reason, code)
    assert found.verdict is Verdict.DEAD
    assert site.methods("/gone") == ["HEAD", "GET"]


@pytest.mark.parametrize("code", [400, 403, 404, 405, 406, 500, 501, 503])
async def test_get_overrules_a_head_that_fails(site: Site, code: int) -> None:
    """C1: a page whose server mishandles HEAD is alive when GET answers."""
    site.pages["/"] = by_method(HEAD=status(code), GET=status(200))
    assert await probe(site.url("/")) == Liveness(Reason.ANSWERED, 200)
    assert site.methods("/") == ["HEAD", "GET"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, Reason.ACCESS_DENIED),
        (403, Reason.ACCESS_DENIED),
        (451, Reason.ACCESS_DENIED),
        (405, Reason.STATUS),
        (304, Reason.STATUS),
        (501, Reason.SERVER_ERROR),
    ],
)
async def test_a_status_that_proves_nothing_is_undecided(site: Site, code: int, reason: Reason) -> None:
    """C28: a page nobody was shown is neither alive nor dead."""
    site.pages["/"] = status(code)
    found = await probe(site.url("/"))
    assert found == Liveness(reason, code)
    assert found.verdict is Verdict.UNKNOWN


async def test_redirects_are_followed_to_the_page(site: Site) -> None:
    """A page that moved twice, once relatively, is alive where it moved to; fragments are not sent."""
    site.pages["/a"] = status(301, location="b?x=1#part")
    site.pages["/b"] = status(308, location=site.url("/c"))
    site.pages["/c"] = status(200)
    assert await probe(site.url("/a#top")) == Liveness(Reason.ANSWERED, 200)
    assert [asked.target for asked in site.asked] == ["/a", "/b?x=1", "/c"]


async def test_a_redirect_to_a_missing_page_is_dead(site: Site) -> None:
    """C1: a page that moved to a 404 is dead."""
    site.pages["/a"] = status(302, location="/nowhere")
    assert await probe(site.url("/a")) == Liveness(Reason.NOT_FOUND, 404)


async def test_a_redirect_loop_is_left_undecided(site: Site) -> None:
    """A loop ends at the first URL seen twice, and is not called dead: a cookie may break it in a browser."""
    site.pages["/a"] = status(302, location="/b")
    site.pages["/b"] = status(302, location="/a")
    found = await probe(site.url("/a"))
    assert (found.reason, found.verdict) == (Reason.REDIRECTS, Verdict.UNKNOWN)
    assert len(site.asked) == 2


async def test_endless_redirects_are_bounded(site: Site) -> None:
    """An ever new redirect is followed `max_redirects` times and no further."""
    for n in range(10):
        site.pages[f"/{n}"] = status(302, location=f"/{n + 1}")
    assert (await probe(site.url("/0"), max_redirects=3)).reason is Reason.REDIRECTS
    assert [asked.target for asked in site.asked] == ["/0", "/1", "/2", "/3"]


@pytest.mark.parametrize("page", [status(302), status(302, location="http://host:port/")])
async def test_a_redirect_to_nowhere_is_undecided(site: Site, page: Page) -> None:
    """A redirect without a readable Location is undecided, not an error."""
    site.pages["/"] = page
    assert (await probe(site.url("/"))).reason is Reason.BAD_REDIRECT


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", Reason.SCHEME),
        ("javascript:alert(1)", Reason.SCHEME),
        ("http://user:pw@127.0.0.1/", Reason.CREDENTIALS),
        ("http://2130706433/", Reason.NUMERIC_HOST),
    ],
)
async def test_every_hop_is_checked_like_the_first(site: Site, location: str, reason: Reason) -> None:
    """A redirect to what may not be visited is refused, and so is the page."""
    site.pages["/"] = status(302, location=location)
    found = await probe(site.url("/"))
    assert (found.reason, found.verdict) == (reason, Verdict.REFUSED)


async def test_one_bad_answer_is_not_the_verdict(site: Site) -> None:
    """C1: a 500 followed by a 200 is alive."""
    site.pages["/"] = in_turn(status(500), status(500), status(200))
    assert await probe(site.url("/")) == Liveness(Reason.ANSWERED, 200)
    assert site.methods("/") == ["HEAD", "GET", "GET"]


async def test_lasting_server_errors_are_undecided(site: Site) -> None:
    """C28: 503 to every repetition is neither alive nor dead, and repetitions are bounded."""
    site.pages["/"] = status(503)
    assert await probe(site.url("/"), retries=1) == Liveness(Reason.SERVER_ERROR, 503)
    assert site.methods("/") == ["HEAD", "GET"]


async def test_retry_after_zero_does_not_ask_for_ever(site: Site) -> None:
    """Retry-After: 0 repeats at once but no more often than any other trouble."""
    site.pages["/"] = status(429, retry_after="0")
    assert await probe(site.url("/")) == Liveness(Reason.RATE_LIMITED, 429)
    assert site.methods("/") == ["HEAD", "GET", "GET"]


async def test_retry_after_is_waited_for(site: Site) -> None:
    """A 429 that asks for 7 seconds is asked again 7 seconds later, and then is alive."""
    site.pages["/"] = in_turn(status(429, retry_after="7"), status(200))
    clock = HandClock()
    async with HttpLinkProber(settings(), clock=clock) as prober:
        assert await prober.probe(site.url("/")) == Liveness(Reason.ANSWERED, 200)
    assert clock.slept == [pytest.approx(7.0)]


async def test_a_host_that_asks_for_long_is_left_alone(site: Site) -> None:
    """A 429 that asks for an hour is not asked again, and neither is another page of that host."""
    site.pages["/a"] = status(429, retry_after="3600")
    site.pages["/b"] = status(200)
    clock = HandClock()
    async with HttpLinkProber(settings(), clock=clock) as prober:
        assert (await prober.probe(site.url("/a"))).reason is Reason.RATE_LIMITED
        assert (await prober.probe(site.url("/b"))).reason is Reason.RATE_LIMITED
        clock.now += 3601
        assert (await prober.probe(site.url("/b"))).reason is Reason.ANSWERED
    assert site.methods("/a") == ["HEAD"]
    assert site.methods("/b") == ["HEAD"]


@pytest.mark.parametrize("page", [silent, dripping])
async def test_a_server_that_does_not_finish_its_head_times_out(site: Site, page: Page) -> None:
    """C28: silence, and headers that never end, run into the bound of the whole request: undecided."""
    site.pages["/"] = page
    found = await probe(site.url("/"), retries=0, total=0.15)
    assert found == Liveness(Reason.TIMEOUT)


async def test_head_that_hangs_is_overruled_by_get(site: Site) -> None:
    """A server that hangs on HEAD and answers GET has a page that is alive."""
    site.pages["/"] = by_method(HEAD=silent, GET=status(200))
    assert (await probe(site.url("/"), total=0.15)).reason is Reason.ANSWERED


async def test_a_reset_connection_is_undecided(site: Site) -> None:
    """C28: a reset is repeated, then neither alive nor dead."""
    site.pages["/"] = resetting
    assert await probe(site.url("/"), retries=1) == Liveness(Reason.CONNECTION)
    assert site.methods("/") == ["HEAD", "GET"]


async def test_a_closed_port_is_undecided() -> None:
    """C28: nobody listening may be a restart, so the page is not called dead."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert await probe(f"http://127.0.0.1:{port}/", retries=0) == Liveness(Reason.CONNECTION)


async def test_another_protocol_is_undecided(site: Site) -> None:
    """A server that speaks no HTTP is undecided, not an error."""
    site.pages["/"] = gibberish
    assert await probe(site.url("/"), retries=0) == Liveness(Reason.PROTOCOL)


async def test_a_name_that_does_not_exist_is_dead() -> None:
    """C1: when the name service says that there is no such host, the page is dead."""
    async with HttpLinkProber(settings(), resolver=Names({})) as prober:
        found = await prober.probe("http://gone.example/page")
    assert (found.reason, found.verdict) == (Reason.NO_SUCH_HOST, Verdict.DEAD)


async def test_a_name_service_in_trouble_is_undecided() -> None:
    """C28: a name service that fails says nothing about the page."""

    async def troubled(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async with HttpLinkProber(settings(retries=0), resolver=troubled) as prober:
        assert await prober.probe("http://some.example/") == Liveness(Reason.NAME_LOOKUP)


async def test_the_systems_resolver_is_the_default(site: Site) -> None:
    """A name is looked up by the operating system, and the Host header names it, not its address."""
    site.pages["/"] = status(200)
    assert (await probe(site.url("/", host="localhost"))).reason is Reason.ANSWERED
    assert site.asked[0].headers["host"] == f"localhost:{site.port}"


async def test_only_the_head_of_a_huge_body_is_read(site: Site) -> None:
    """A body without end is hung up on: what the network takes of it is bounded by socket buffers."""
    huge = HugePage()
    site.pages["/"] = by_method(HEAD=status(405), GET=huge)
    assert (await probe(site.url("/"))).reason is Reason.ANSWERED
    await asyncio.wait_for(huge.hung_up.wait(), 5)
    assert huge.sent < 2**20


async def test_requests_carry_no_credentials_and_no_cookies(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No cookie a server set comes back, and neither netrc nor proxy settings of the environment are used."""
    netrc = tmp_path_factory.mktemp("home") / ".netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9/")
    site.pages["/a"] = status(302, location="/b")
    site.pages["/b"] = by_method(HEAD=status(405), GET=status(200))
    assert (await probe(site.url("/a"))).reason is Reason.ANSWERED
    assert len(site.asked) == 3
    for asked in site.asked:
        assert set(asked.headers) == {"host", "user-agent", "accept", "connection"}
        assert asked.headers["user-agent"].startswith("citewell")


async def test_a_host_is_asked_by_few_at_once(site: Site) -> None:
    """However many URLs are probed at once, a host sees `per_host` requests at a time, and does see them."""
    both = asyncio.Barrier(2)

    async def together(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await both.wait()
        await status(200)(asked, writer)

    for n in range(8):
        site.pages[f"/{n}"] = together
    async with HttpLinkProber(settings(pace=Pace(per_host=2, spacing=0.0))) as prober:
        found = await asyncio.gather(*(prober.probe(site.url(f"/{n}")) for n in range(8)))
    assert {liveness.reason for liveness in found} == {Reason.ANSWERED}
    assert site.most_active == 2


async def test_all_hosts_together_are_bounded(site: Site) -> None:
    """Requests to many hosts at once stay within `concurrency`."""
    names = Names({f"h{n}.example": [["127.0.0.1"]] for n in range(8)})
    both = asyncio.Barrier(3)

    async def together(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await both.wait()
        await status(200)(asked, writer)

    site.pages["/"] = together
    pace = Pace(concurrency=3, per_host=2, spacing=0.0)
    async with HttpLinkProber(settings(pace=pace), resolver=names) as prober:
        found = await asyncio.gather(*(prober.probe(site.url("/", f"h{n}.example")) for n in range(6)))
    assert {liveness.reason for liveness in found} == {Reason.ANSWERED}
    assert site.most_active == 3


async def test_a_silent_host_is_given_up_for_a_while(site: Site) -> None:
    """After `trip_after` requests without answer, further URLs of the host are undecided at once."""
    for n in range(5):
        site.pages[f"/{n}"] = resetting
    pace = Pace(spacing=0.0, trip_after=3, cool_off=30.0)
    clock = HandClock()
    async with HttpLinkProber(settings(pace=pace, retries=0), clock=clock) as prober:
        found = [await prober.probe(site.url(f"/{n}")) for n in range(5)]
        assert [liveness.reason for liveness in found] == [Reason.CONNECTION] * 3 + [Reason.HOST_DOWN] * 2
        assert len(site.asked) == 3
        clock.now += 31
        site.pages["/0"] = status(200)
        assert (await prober.probe(site.url("/0"))).reason is Reason.ANSWERED


async def test_cancelling_a_probe_frees_its_places(site: Site) -> None:
    """A cancelled probe closes its connection and leaves its turn to the next."""
    site.pages["/silent"] = silent
    site.pages["/"] = status(200)
    async with HttpLinkProber(settings(pace=Pace(concurrency=1, per_host=1, spacing=0.0))) as prober:
        stuck = asyncio.create_task(prober.probe(site.url("/silent")))
        await site.arrived.wait()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        assert (await prober.probe(site.url("/"))).reason is Reason.ANSWERED


@pytest.mark.parametrize(
    "url",
    [
        "",
        "   ",
        "not a url",
        "http://",
        "http:///path",
        "http://[::1",
        "http://a..b/",
        "http://a b/",
        "http://\ud800/",
        "http://host/\ud800",
        "http://host/\x00",
        "http://host:99999/",
        "http://127.0.0.1:99999/",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 130}example/",
        "http://[v1.x]/",
        "http://[fe80::1%25nowhere]/",
        "mailto:someone@host",
        "ftp://host/file",
    ],
)
async def test_no_text_is_an_error(url: str) -> None:
    """Whatever text is stored as a URL, probing it answers; none of these is alive or dead."""
    async with HttpLinkProber(settings(retries=0), resolver=Names({})) as prober:
        assert (await prober.probe(url)).verdict in {Verdict.REFUSED, Verdict.UNKNOWN}


@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://", "http://h/", "http://h:", "//"]))
async def test_no_text_at_all_is_an_error(text: str, start: str) -> None:
    """Any text gets an answer from a prober whose every name is unknown, and it is never alive."""

    async def unknown(host: str, port: int) -> Sequence[Address]:
        return []

    # Loopback stays refused and no name has an address, so that no example reaches a socket; and no
    # certificate authorities are loaded for each of them.
    chosen = settings(TargetPolicy(), retries=0)
    no_authorities = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with HttpLinkProber(chosen, resolver=unknown, ssl_context=no_authorities) as prober:
        assert (await prober.probe(start + text)).verdict is not Verdict.ALIVE
