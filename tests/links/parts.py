"""The real parts that link tests put together: a store in memory, a clock turned by hand, settings."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from service.adapters.link_pacing import Pace
from service.adapters.link_prober import ProbeSettings, RetryRule
from service.adapters.link_targets import Address, TargetPolicy
from service.adapters.link_transport import RequestLimits
from service.core.staleness import is_stale
from service.model import Item, Workspace

SWIFT_PACE = Pace(spacing=0.0)
LOOPBACK = TargetPolicy(allow_private=True, ports=None)


def settings(
    targets: TargetPolicy = LOOPBACK,
    pace: Pace = SWIFT_PACE,
    *,
    retries: int = 2,
    total: float = 5.0,
    max_redirects: int = 8,
) -> ProbeSettings:
    """Probe settings that neither wait nor avoid loopback unless told to."""
    return ProbeSettings(
        targets=targets,
        pace=pace,
        limits=RequestLimits(connect=total, total=total),
        retry=RetryRule(retries=retries, backoff=0.01),
        max_redirects=max_redirects,
    )


@dataclass(slots=True)
class HandClock:
    """Time that passes only by sleeping; `slept` keeps every sleep asked for."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        """Seconds turned so far."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Turn the clock and let the others run."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass(slots=True)
class Names:
    """A resolver over a table. A name with several answers gives the next one at each look-up."""

    table: dict[str, list[list[str]]]
    looked_up: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """Addresses of `host`; an unknown name fails as the operating system's look-up does."""
        self.looked_up.append(host)
        answers = self.table.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(address) for address in found]


@dataclass(slots=True)
class MemoryLinkStore:
    """A `LinkStore` over items in memory; `stored` is what is known of each URL."""

    items: dict[Workspace, list[Item]]
    stored: dict[tuple[Workspace, str], bool | None] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)

    async def live_urls(self, workspace: Workspace) -> Sequence[str]:
        """Distinct URLs of live items in order of first appearance."""
        return list(dict.fromkeys(self._live_urls(workspace)))

    async def set_url_ok(self, workspace: Workspace, url: str, ok: bool | None) -> int:  # noqa: FBT001 - the port's
        """Store a value; how many live items held another one."""
        self.writes.append(url)
        rows = self._live_urls(workspace).count(url)
        before = self.stored.get((workspace, url))
        if rows:
            self.stored[workspace, url] = ok
        return rows if before is not ok else 0

    def _live_urls(self, workspace: Workspace) -> list[str]:
        return [
            item.provenance.source_url
            for item in self.items.get(workspace, [])
            if item.provenance.source_url is not None and not is_stale(item.retired_at, item.superseded_by)
        ]
