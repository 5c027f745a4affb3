"""Checking links: every live source URL is visited, and what was found is stored. Never part of a read."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Protocol
from urllib.parse import urlsplit

from service.errors import CitewellError
from service.model import Workspace
from service.ports.links import (
    LinkProber,
    LinkStore,
    Liveness,
    Reason,
    Verdict,
    deserves_second_look,
    stored_value,
)


@dataclass(frozen=True, slots=True)
class LinkOutcome:
    """What was concluded about one URL. `changed` is how many items held another value before."""

    url: str
    liveness: Liveness
    changed: int


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """A finished check; `outcomes` are in the store's order of URLs."""

    outcomes: tuple[LinkOutcome, ...]

    @property
    def checked(self) -> int:
        """How many URLs were concluded, one way or another: the sum of the four counts below."""
        return len(self.outcomes)

    @property
    def alive(self) -> int:
        """URLs now stored as true."""
        return self._count(Verdict.ALIVE)

    @property
    def dead(self) -> int:
        """URLs now stored as false."""
        return self._count(Verdict.DEAD)

    @property
    def refused(self) -> int:
        """URLs that policy forbids to visit; now stored as null."""
        return self._count(Verdict.REFUSED)

    @property
    def undecided(self) -> int:
        """URLs that gave no evidence either way; now stored as null."""
        return self._count(Verdict.UNKNOWN)

    @property
    def changed(self) -> int:
        """Items whose stored liveness is different now."""
        return sum(outcome.changed for outcome in self.outcomes)

    @property
    def any_answer(self) -> bool:
        """False when no server answered at all, which says more about this network than about the pages."""
        return any(outcome.liveness.status is not None for outcome in self.outcomes)

    def _count(self, verdict: Verdict) -> int:
        return sum(outcome.liveness.verdict is verdict for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """How a check is spread out.

    `concurrency` bounds the URLs being visited at once (the prober has its own, stricter bounds per host);
    `second_look_after` is the pause in seconds before passing trouble is looked at once more. It should
    outlast the time for which the prober leaves a silent host alone.
    """

    concurrency: int = 64
    second_look_after: float = 60.0


DEFAULT_PLAN = CheckPlan()


class LinkProgress(Protocol):
    """Told of each URL once, when its outcome is final and stored."""

    def __call__(self, outcome: LinkOutcome, done: int, total: int) -> None:
        """`done` of `total` URLs are final, this one included."""
        ...


async def check_links(
    workspace: Workspace,
    prober: LinkProber,
    store: LinkStore,
    progress: LinkProgress | None = None,
    *,
    plan: CheckPlan = DEFAULT_PLAN,
) -> LinkSummary:
    """Visit every live source URL of a workspace and store its liveness as each is concluded.

    A URL in passing trouble is looked at again after all others, so that one slow minute decides nothing.
    At most `plan.concurrency` visits are in flight. Cancelled, it stops its visits and keeps what it stored;
    URLs not concluded by then keep their earlier value.

    Raises:
        StoreUnavailable: the store gave out; what was stored before stays stored.
    """
    urls = tuple(dict.fromkeys(await store.live_urls(workspace)))
    final: dict[str, LinkOutcome] = {}

    async def conclude(url: str, liveness: Liveness) -> None:
        changed = await store.set_url_ok(workspace, url, stored_value(liveness))
        final[url] = LinkOutcome(url, liveness, changed)
        if progress is not None:
            progress(final[url], len(final), len(urls))

    doubtful: list[str] = []
    async with aclosing(_visits(hosts_by_turns(urls), prober, plan)) as first_look:
        async for url, liveness in first_look:
            if deserves_second_look(liveness):
                doubtful.append(url)
            else:
                await conclude(url, liveness)
    if doubtful:
        await asyncio.sleep(plan.second_look_after)
    async with aclosing(_visits(hosts_by_turns(doubtful), prober, plan)) as second_look:
        async for url, liveness in second_look:
            await conclude(url, liveness)
    return LinkSummary(tuple(final[url] for url in urls))


def hosts_by_turns(urls: Sequence[str]) -> list[str]:
    """The same URLs, one of each host before the second of any; otherwise in their given order.

    Without it the first big host fills every visiting slot with URLs that wait for that host's own limit.
    """
    turns: Counter[str] = Counter()
    dealt: list[tuple[int, str]] = []
    for url in urls:
        host = _host(url)
        dealt.append((turns[host], url))
        turns[host] += 1
    return [url for _, url in sorted(dealt, key=itemgetter(0))]


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


async def _visits(
    urls: Iterable[str], prober: LinkProber, plan: CheckPlan
) -> AsyncGenerator[tuple[str, Liveness], None]:
    """What each URL is, as it becomes known; the next visit starts only when one is taken."""
    running: list[asyncio.Task[tuple[str, Liveness]]] = []
    waiting = iter(urls)
    try:
        while True:
            free = plan.concurrency - len(running)
            running.extend(asyncio.create_task(_visit(prober, url)) for url in islice(waiting, free))
            if not running:
                return
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            # By age and not by the set that `wait` returns, whose order is an accident.
            ended = [visit for visit in running if visit.done()]
            running = [visit for visit in running if visit not in ended]
            for visit in ended:
                yield visit.result()
    finally:
        for visit in running:
            visit.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _visit(prober: LinkProber, url: str) -> tuple[str, Liveness]:
    try:
        return url, await prober.probe(url)
    except CitewellError:
        return url, Liveness(Reason.PROBER)
