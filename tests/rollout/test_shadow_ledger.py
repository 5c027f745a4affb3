"""What is kept of shadow mode, for how long, and what is reported of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from service.adapters.sql.rollout import SqlShadowLedger
from service.model import Workspace
from service.ports.shadow import RankMove, Retention, ShadowComparison
from service.search.rank_moves import MoveKind
from service.search.shadow_report import Latency, ShadowReport, shadow_report

pytestmark = pytest.mark.anyio
ACME, OTHER = Workspace("acme"), Workspace("other")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
KEEP_ALL = Retention()


def compared(
    number: int,
    *moves: RankMove,
    workspace: Workspace = ACME,
    age: timedelta = timedelta(0),
    overlap: float | None = 1.0,
    degraded: str | None = None,
    subject: str = "query",
) -> ShadowComparison:
    """A comparison that took `number` ms lexically and 10 ms more with the vector arm."""
    return ShadowComparison(
        workspace=workspace,
        at=datetime.now(UTC) - age,
        subject=subject,
        query_hash=f"{number:032x}",
        lexical_ms=float(number),
        hybrid_ms=number + 10.0,
        degraded=degraded,
        overlap=overlap,
        moves=moves,
    )


async def kept(ledger: SqlShadowLedger, workspace: Workspace | None = None) -> Sequence[ShadowComparison]:
    """Everything that is there, read in pages of three."""
    found: list[ShadowComparison] = []
    after: int | None = 0
    while after is not None:
        page, after = await ledger.comparisons(workspace, LONG_AGO, after, 3)
        found += page
    return found


async def test_what_is_stored_comes_back(shadows_both: SqlShadowLedger) -> None:
    """E12: a comparison comes back as it was stored, in order, by workspace or of all."""
    moves = (RankMove("a#0", 2, 1), RankMove("ä/b#3", None, 2), RankMove("c#1", 1, None))
    first = compared(1, *moves, overlap=0.5)
    second = compared(2, workspace=OTHER, overlap=None, degraded="store_timeout", subject="system")
    assert await shadows_both.add([first], KEEP_ALL) == 0
    assert await shadows_both.add([second], KEEP_ALL) == 0
    assert await shadows_both.add([], KEEP_ALL) == 0
    assert list(await kept(shadows_both)) == [first, second]
    assert list(await kept(shadows_both, OTHER)) == [second]


async def test_only_the_newest_are_kept(shadows_both: SqlShadowLedger) -> None:
    """E12: past the bound the oldest rows go with the write that brings the new ones."""
    retention = Retention(rows=5)
    for number in range(0, 12, 3):
        await shadows_both.add([compared(number + more) for more in range(3)], retention)
    assert [int(one.query_hash, 16) for one in await kept(shadows_both)] == [7, 8, 9, 10, 11]


async def test_a_busy_workspace_pushes_nobody_else_out(shadows_both: SqlShadowLedger) -> None:
    """U18: what is kept of a workspace does not depend on how much another one asks."""
    retention = Retention(rows=5)
    await shadows_both.add([compared(number, workspace=OTHER) for number in range(4)], retention)
    for number in range(12):
        await shadows_both.add([compared(number)], retention)
    assert len(await kept(shadows_both, OTHER)) == 4
    assert await shadows_both.add([], Retention(rows=3)) == 3
    assert len(await kept(shadows_both, OTHER)) == 3
    assert len(await kept(shadows_both)) == 6


async def test_rows_are_removed_in_bounded_batches(shadows_both: SqlShadowLedger) -> None:
    """E12: a bound that is lowered is reached step by step: no write removes more than its batch."""
    await shadows_both.add([compared(number) for number in range(20)], KEEP_ALL)
    lower = Retention(rows=4, batch=7)
    assert [await shadows_both.add([compared(20)], lower), len(await kept(shadows_both))] == [7, 14]
    assert [await shadows_both.add([compared(21)], lower), len(await kept(shadows_both))] == [7, 8]
    assert [await shadows_both.add([compared(22)], lower), len(await kept(shadows_both))] == [5, 4]
    assert await shadows_both.add([], Retention(rows=0)) == 4
    assert len(await kept(shadows_both)) == 0


async def test_old_rows_go(shadows_both: SqlShadowLedger) -> None:
    """E12: rows older than thirty days go, however few there are."""
    old, young = compared(1, age=timedelta(days=31)), compared(2, age=timedelta(days=29))
    await shadows_both.add([old, young], Retention(rows=10, age=timedelta(days=100)))
    assert await shadows_both.add([], KEEP_ALL) == 1
    assert list(await kept(shadows_both)) == [young]


async def test_the_report_by_hand(shadows_both: SqlShadowLedger) -> None:
    """E13: overlap, identical share, moves, latencies and reasons of five requests, reckoned by hand."""
    await shadows_both.add(
        [
            compared(1),
            compared(2, RankMove("a", 2, 1), RankMove("b", 1, 2)),
            compared(3, RankMove("c", None, 1), RankMove("d", 8, None), overlap=7 / 8, subject="system"),
            compared(99, overlap=None, degraded="store_timeout"),
            compared(98, overlap=None, degraded="store_timeout", subject="selection"),
            compared(97, overlap=None, degraded="no_vectors"),
            compared(50, workspace=OTHER, overlap=0.0),
            compared(60, age=timedelta(days=2), overlap=0.0),
        ],
        KEEP_ALL,
    )
    since = datetime.now(UTC) - timedelta(days=1)
    assert await shadow_report(shadows_both, ACME, since) == ShadowReport(
        workspace=ACME,
        since=since,
        requests=6,
        compared=3,
        mean_overlap=23 / 24,
        median_overlap=1.0,
        identical=1 / 3,
        moves={
            MoveKind.ENTERED: 1,
            MoveKind.UP_FAR: 0,
            MoveKind.UP: 1,
            MoveKind.DOWN: 1,
            MoveKind.DOWN_FAR: 0,
            MoveKind.LEFT: 1,
        },
        lexical=Latency(2.0, 3.0),
        hybrid=Latency(12.0, 13.0),
        added=Latency(10.0, 10.0),
        degraded={"store_timeout": 2, "no_vectors": 1},
        subjects={"query": 4, "selection": 1, "system": 1},
    )
    everything = await shadow_report(shadows_both, None, LONG_AGO)
    assert (everything.requests, everything.compared) == (8, 5)


async def test_a_report_on_nothing_says_so(shadows_both: SqlShadowLedger) -> None:
    """E13: without requests there are no shares and no latencies, and nothing fails."""
    report = await shadow_report(shadows_both, ACME, LONG_AGO)
    assert (report.requests, report.compared, report.mean_overlap, report.added) == (0, 0, None, None)
    await shadows_both.add([compared(1, overlap=None, degraded="no_model")], KEEP_ALL)
    report = await shadow_report(shadows_both, ACME, LONG_AGO)
    assert (report.requests, report.identical, report.degraded) == (1, None, {"no_model": 1})


async def test_a_report_reads_page_by_page(shadows_both: SqlShadowLedger) -> None:
    """E13: a report covers every row, however many pages they fill."""
    for start in range(0, 1_200, 400):
        await shadows_both.add([compared(start + number) for number in range(400)], KEEP_ALL)
    assert (await shadow_report(shadows_both, ACME, LONG_AGO)).compared == 1_200
