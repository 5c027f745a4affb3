"""The use case: which URLs are visited, what is stored, and what survives trouble."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.link_prober import HttpLinkProber
from service.errors import StoreUnavailable, Unavailable
from service.ingest.links import CheckPlan, LinkOutcome, check_links, hosts_by_turns
from service.model import ContentType, Item, ItemId, Provenance, SourceType, Workspace
from service.ports.links import Liveness, Reason
from tests.links.parts import MemoryLinkStore, settings
from tests.links.site import Site, in_turn, silent, status

HERE = Workspace("here")
AT_ONCE = CheckPlan(second_look_after=0.0)


def item(number: int, url: str | None, *, retired: bool = False, superseded: bool = False) -> Item:
    """An item captured from `url`, or an upload."""
    now = datetime(2024, 5, 1, tzinfo=UTC)
    provenance = Provenance(
        item_id=ItemId(f"i{number}"),
        title="A page",
        content_type=ContentType.PDP,
        source_type=SourceType.UPLOAD if url is None else SourceType.URL,
        source_url=url,
        source_url_ok=None,
        source_filename="a.pdf" if url is None else None,
        resource_types=None,
        version="1",
        fetched_at=now,
    )
    return Item(provenance, "hash", now if retired else None, ItemId("i0") if superseded else None)


def store_of(*urls: str | None) -> MemoryLinkStore:
    """A store with one live item for each URL, in order."""
    return MemoryLinkStore({HERE: [item(n, url) for n, url in enumerate(urls)]})


@dataclass(slots=True)
class TableProber:
    """A prober over a table; a URL with several answers gives the next one each time."""

    table: dict[str, list[Liveness]]
    visits: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def probe(self, url: str) -> Liveness:
        """The next answer of `url`."""
        self.visits.append(url)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        answers = self.table[url]
        return answers.pop(0) if len(answers) > 1 else answers[0]


ALIVE = Liveness(Reason.ANSWERED, 200)
DEAD = Liveness(Reason.NOT_FOUND, 404)
SLOW = Liveness(Reason.TIMEOUT)
PRIVATE = Liveness(Reason.PRIVATE_ADDRESS)


@pytest.mark.anyio
async def test_real_pages_are_visited_and_stored(site: Site) -> None:
    """C1: over real HTTP, a live page becomes true, a missing one false, the rest null; all are summed up."""
    site.pages |= {"/live": status(200), "/moved": status(301, location="/live"), "/ill": status(500)}
    site.pages["/slow"] = silent
    urls = [site.url(path) for path in ("/live", "/gone", "/ill", "/slow", "/moved")]
    store = store_of(*urls, "ftp://host/file", "http://[broken", None)
    async with HttpLinkProber(settings(retries=1, total=0.1)) as prober:
        summary = await check_links(HERE, prober, store, plan=AT_ONCE)
    assert [store.stored[HERE, url] for url in urls] == [True, False, None, None, True]
    assert (summary.checked, summary.alive, summary.dead) == (7, 2, 1)
    assert (summary.refused, summary.undecided, summary.changed) == (2, 2, 3)
    assert [outcome.url for outcome in summary.outcomes] == [*urls, "ftp://host/file", "http://[broken"]


@pytest.mark.anyio
async def test_a_link_that_can_no_longer_be_confirmed_is_withdrawn() -> None:
    """C28: a page once seen live that neither answers nor is refused politely becomes unchecked, not dead."""
    store = store_of("http://a/", "http://b/")
    store.stored = {(HERE, "http://a/"): True, (HERE, "http://b/"): True}
    summary = await check_links(
        HERE, TableProber({"http://a/": [SLOW], "http://b/": [PRIVATE]}), store, plan=AT_ONCE
    )
    assert store.stored == {(HERE, "http://a/"): None, (HERE, "http://b/"): None}
    assert (summary.undecided, summary.refused, summary.changed) == (1, 1, 2)
    assert not summary.any_answer


@pytest.mark.anyio
async def test_one_slow_minute_decides_nothing(site: Site) -> None:
    """C28: a page in trouble is looked at again after all the others, and is alive when it is back."""
    site.pages["/ill"] = in_turn(status(503), status(200))
    site.pages["/well"] = status(200)
    store = store_of(site.url("/ill"), site.url("/well"))
    store.stored[HERE, site.url("/ill")] = True
    async with HttpLinkProber(settings(retries=0)) as prober:
        summary = await check_links(HERE, prober, store, plan=AT_ONCE)
    assert summary.alive == 2
    assert store.writes == [site.url("/well"), site.url("/ill")]
    assert [asked.target for asked in site.asked][-1] == "/ill"


@pytest.mark.anyio
async def test_only_live_items_of_the_workspace_are_visited() -> None:
    """C14: URLs of retired and superseded items, uploads and other workspaces are not visited."""
    items = [
        item(1, "http://live/"),
        item(2, "http://retired/", retired=True),
        item(3, "http://superseded/", superseded=True),
        item(4, None),
        item(5, "http://live/"),
    ]
    store = MemoryLinkStore({HERE: items, Workspace("there"): [item(6, "http://elsewhere/")]})
    prober = TableProber({"http://live/": [ALIVE]})
    summary = await check_links(HERE, prober, store, plan=AT_ONCE)
    assert prober.visits == ["http://live/"]
    assert (summary.checked, summary.changed) == (1, 2)


@pytest.mark.anyio
async def test_an_empty_workspace_is_checked_at_once() -> None:
    """Nothing to visit is an empty summary."""
    summary = await check_links(HERE, TableProber({}), store_of())
    assert (summary.checked, summary.outcomes) == (0, ())


@pytest.mark.anyio
async def test_a_second_check_changes_nothing() -> None:
    """Checking again what has not changed writes the same values: no item changes."""
    store = store_of("http://a/", "http://b/")
    prober = TableProber({"http://a/": [ALIVE], "http://b/": [DEAD]})
    assert (await check_links(HERE, prober, store, plan=AT_ONCE)).changed == 2
    assert (await check_links(HERE, prober, store, plan=AT_ONCE)).changed == 0


@pytest.mark.anyio
async def test_visits_in_flight_are_bounded() -> None:
    """Of a thousand URLs never more than `concurrency` are being visited, and all of them are."""
    urls = [f"http://h{n % 7}/{n}" for n in range(1000)]
    prober = TableProber({url: [ALIVE] for url in urls})
    summary = await check_links(HERE, prober, store_of(*urls), plan=CheckPlan(concurrency=5))
    assert (summary.alive, prober.most_running) == (1000, 5)


@pytest.mark.anyio
async def test_progress_hears_of_each_url_once_when_final() -> None:
    """Progress counts up to the total, and hears of a second look only its conclusion."""
    store = store_of("http://a/", "http://b/", "http://c/")
    prober = TableProber({"http://a/": [SLOW, ALIVE], "http://b/": [DEAD], "http://c/": [SLOW]})
    heard: list[tuple[str, Liveness, int, int]] = []

    def hear(outcome: LinkOutcome, done: int, total: int) -> None:
        heard.append((outcome.url, outcome.liveness, done, total))

    await check_links(HERE, prober, store, hear, plan=AT_ONCE)
    assert heard == [
        ("http://b/", DEAD, 1, 3),
        ("http://a/", ALIVE, 2, 3),
        ("http://c/", SLOW, 3, 3),
    ]


@pytest.mark.anyio
async def test_a_prober_that_cannot_work_leaves_its_url_undecided() -> None:
    """One URL for which the prober itself fails does not stop the rest."""

    class Failing(TableProber):
        async def probe(self, url: str) -> Liveness:
            if url == "http://bad/":
                raise Unavailable("no sockets left")
            return await TableProber.probe(self, url)

    store = store_of("http://bad/", "http://good/")
    summary = await check_links(HERE, Failing({"http://good/": [ALIVE]}), store, plan=AT_ONCE)
    assert [outcome.liveness.reason for outcome in summary.outcomes] == [Reason.PROBER, Reason.ANSWERED]


@dataclass(slots=True)
class HangingProber:
    """Answers for URLs of the host `done`, hangs on all others, and counts how it was cancelled."""

    expected: int
    hanging: int = 0
    cancelled: int = 0
    all_hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def probe(self, url: str) -> Liveness:
        """Alive, or never."""
        if "//done/" in url:
            return ALIVE
        self.hanging += 1
        if self.hanging == self.expected:
            self.all_hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        return ALIVE


@pytest.mark.anyio
async def test_cancelling_keeps_what_was_concluded_and_ends_every_visit() -> None:
    """A cancelled check stops its visits, keeps what it stored and leaves the rest as it was."""
    store = store_of("http://done/", "http://hangs/1", "http://hangs/2")
    store.stored[HERE, "http://hangs/1"] = True
    prober = HangingProber(expected=2)
    stored = asyncio.Event()
    others = asyncio.all_tasks()

    def hear(outcome: LinkOutcome, done: int, total: int) -> None:
        stored.set()

    check = asyncio.create_task(check_links(HERE, prober, store, hear, plan=AT_ONCE))
    await prober.all_hanging.wait()
    await stored.wait()
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    assert store.stored == {(HERE, "http://done/"): True, (HERE, "http://hangs/1"): True}
    assert prober.cancelled == 2
    assert asyncio.all_tasks() == others


@pytest.mark.anyio
async def test_a_store_that_gives_out_ends_the_check_plainly() -> None:
    """A store failure is raised as it is, not in a group, and no visit is left running."""

    class Broken(MemoryLinkStore):
        async def set_url_ok(self, workspace: Workspace, url: str, ok: bool | None) -> int:  # noqa: FBT001 - the port's
            raise StoreUnavailable("the database does not answer")

    prober = HangingProber(expected=1)
    store = Broken({HERE: [item(1, "http://hangs/"), item(2, "http://done/")]})
    with pytest.raises(StoreUnavailable):
        await check_links(HERE, prober, store, plan=CheckPlan(concurrency=2))
    assert prober.cancelled == prober.hanging


@given(st.lists(st.sampled_from(["http://a/", "http://b/", "https://c.d:1/", "nonsense", "http://[bad"])))
def test_hosts_take_turns(hosts: Sequence[str]) -> None:
    """Dealing keeps every URL, the order inside each host, and no host more than one turn ahead."""
    urls = [f"{host}{n}" for n, host in enumerate(hosts)]
    dealt = hosts_by_turns(urls)
    assert sorted(dealt) == sorted(urls)
    for host in set(hosts):
        mine = [url for url in dealt if url.startswith(host)]
        assert mine == [url for url in urls if url.startswith(host)]


def test_a_big_host_does_not_crowd_out_a_small_one() -> None:
    """The second URL of a host comes after the first of every other."""
    assert hosts_by_turns(["http://a/1", "http://a/2", "http://a/3", "http://b/1", "http://b/2"]) == [
        "http://a/1",
        "http://b/1",
        "http://a/2",
        "http://b/2",
        "http://a/3",
    ]
