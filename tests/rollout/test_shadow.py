"""Shadow mode: both arms run, the lexical answer is served, and the difference is kept."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from service.adapters.sql.rollout import SqlShadowLedger
from service.core.drill import Drill, DrillKind
from service.core.rollout import FlagKind, FlagState
from service.errors import StoreUnavailable
from service.model import SelectionContext, Workspace
from service.ports.shadow import Retention, ShadowComparison, ShadowLedger
from service.search.degradation import Reason
from service.search.plan import Hybrid
from service.search.rank_moves import overlap, rank_moves
from service.search.request import (
    Answer,
    Arms,
    ArmState,
    ByQuery,
    BySelection,
    BySystem,
    RetrieveOptions,
    Subject,
    VectorArm,
)
from service.search.retrieve import Retriever
from service.search.shadow import ShadowCounters, ShadowRunner, ShadowSettings, query_hash
from service.search.vector_arm import VectorArm as VectorSearchArm
from tests.rollout.parts import GENEROUS_S, QUERIES, WORKSPACE, House, WordEncoder, eventually

pytestmark = pytest.mark.anyio
SHADOW = FlagState(FlagKind.SHADOW)
SINCE = datetime(2000, 1, 1, tzinfo=UTC)
ASKED = RetrieveOptions(WORKSPACE)
PATIENT = ShadowSettings(queue=1_000, budget=GENEROUS_S, key="house")


def now() -> datetime:
    """The clock."""
    return datetime.now(UTC)


def runner(
    home: House, ledger: ShadowLedger, settings: ShadowSettings = PATIENT, arm: VectorSearchArm | None = None
) -> ShadowRunner:
    """A runner over a retriever of its own, as the service has it."""
    retriever = Retriever(
        home.app.store, home.app.lexical, Hybrid(arm or home.arm, home.flag, budget=GENEROUS_S)
    )
    return ShadowRunner(retriever, ledger, now, settings)


async def kept(ledger: SqlShadowLedger) -> Sequence[ShadowComparison]:
    """What was stored."""
    found, _ = await ledger.comparisons(None, SINCE, 0, 1_000)
    return found


async def test_shadow_never_changes_the_served_answer(
    home_both: House, shadows_both: SqlShadowLedger
) -> None:
    """E12: under shadow every answer is byte for byte the lexical one; only the reason says shadow."""
    home_both.flag.default = SHADOW
    running = runner(home_both, shadows_both)
    shadowed, plain = home_both.retriever(running.compare), home_both.lexical_retriever()
    for query in QUERIES:
        for limit in (1, 8):
            served = await shadowed.retrieve(ByQuery(query), replace(ASKED, limit=limit))
            expected = await plain.retrieve(ByQuery(query), replace(ASKED, limit=limit))
            assert served.vector == VectorArm(ArmState.OFF, Reason.SHADOW)
            assert msgspec.json.encode(replace(served, vector=expected.vector)) == msgspec.json.encode(
                expected
            )
    await running.drain()
    await running.close()
    assert running.counters.compared > 0


async def test_a_comparison_says_what_the_hybrid_would_have_changed(
    home_both: House, shadows_both: SqlShadowLedger
) -> None:
    """E12: overlap@8, moves and times are those of the same request ranked both ways."""
    home_both.flag.default = SHADOW
    running = runner(home_both, shadows_both)
    await home_both.retriever(running.compare).retrieve(ByQuery("sill"), replace(ASKED, limit=2))
    await running.drain()
    (found,) = await kept(shadows_both)
    tops = [
        [passage.passage_id for passage in answer.results]
        for answer in [
            await home_both.retriever().retrieve(ByQuery("sill"), replace(ASKED, arms=arms))
            for arms in (Arms.LEXICAL, Arms.HYBRID)
        ]
    ]
    assert found.overlap == overlap(*tops) < 1.0
    assert found.moves == rank_moves(*tops)
    assert found.moves
    assert (found.workspace, found.subject, found.degraded) == (WORKSPACE, "query", None)
    assert found.lexical_ms > 0
    assert found.hybrid_ms > 0
    assert found.query_hash == query_hash(ByQuery("sill"), "house")


async def test_each_way_of_asking_is_compared(home_both: House, shadows_both: SqlShadowLedger) -> None:
    """E12: queries, systems and selections are all compared, also those that find nothing."""
    home_both.flag.default = SHADOW
    running = runner(home_both, shadows_both)
    retriever = home_both.retriever(running.compare)
    subjects: list[Subject] = [ByQuery("sill"), BySystem("none"), BySelection(SelectionContext(("none",)))]
    for subject in subjects:
        await retriever.retrieve(subject, ASKED)
    await running.drain()
    assert sorted(one.subject for one in await kept(shadows_both)) == ["query", "selection", "system"]
    nothing = [one for one in await kept(shadows_both) if one.subject != "query"]
    assert all((one.overlap, one.moves) == (1.0, ()) for one in nothing)


@pytest.mark.parametrize(
    "state", [FlagState(FlagKind.OFF), FlagState(FlagKind.ON), FlagState(FlagKind.PERCENT)]
)
async def test_other_states_compare_nothing(home: House, shadows: SqlShadowLedger, state: FlagState) -> None:
    """E12: only shadow compares; off, on and whoever is outside a percentage do not."""
    home.flag.default = state
    running = runner(home, shadows)
    await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
    await running.drain()
    assert running.counters == ShadowCounters()


async def test_later_pages_and_drills_are_left_out(home: House, shadows: SqlShadowLedger) -> None:
    """E12: a page further on and a drill would distort the comparison."""
    home.flag.default = SHADOW
    running = runner(home, shadows)
    retriever = home.retriever(running.compare)
    first = await retriever.retrieve(ByQuery("doors"), replace(ASKED, limit=1))
    assert first.next_cursor is not None
    await retriever.retrieve(ByQuery("doors"), replace(ASKED, limit=1, cursor=first.next_cursor))
    await retriever.retrieve(ByQuery("doors"), replace(ASKED, drill=Drill(DrillKind.ERROR)))
    await running.drain()
    assert running.counters.compared == 1


async def test_the_query_is_never_kept(home: House, shadows: SqlShadowLedger) -> None:
    """E12: of a query only a keyed hash is kept: equal for the same request, of no use without the key."""
    home.flag.default = SHADOW
    running = runner(home, shadows)
    for query in ("a very private sill", "a very private sill", "another"):
        await home.retriever(running.compare).retrieve(ByQuery(query), ASKED)
    await running.drain()
    found = await kept(shadows)
    assert len({one.query_hash for one in found}) == 2
    assert b"private" not in msgspec.json.encode(found)
    assert query_hash(ByQuery("another"), "other key") not in {one.query_hash for one in found}
    assert query_hash(ByQuery("s"), "") != query_hash(BySystem("s"), "")


class StuckEncoder(WordEncoder):
    """Never answers a query, and notes how many ask at once."""

    def __init__(self) -> None:
        self.asking = 0

    async def encode_query(self, text: str, workspace: Workspace) -> object:  # type: ignore[override] # it gives nothing
        """Hangs."""
        self.asking += 1
        await asyncio.Event().wait()
        raise AssertionError


def stuck(home: House) -> tuple[StuckEncoder, VectorSearchArm]:
    """An arm that never answers, over the house's own index."""
    encoder = StuckEncoder()
    return encoder, VectorSearchArm(encoder, home.arm._index, home.arm._ledger)  # type: ignore[arg-type]


async def test_a_degraded_arm_is_kept_with_its_reason(home: House, shadows: SqlShadowLedger) -> None:
    """E13: where the vector arm does not run there is a reason, and no overlap that would flatter it."""
    home.flag.default = SHADOW
    _, arm = stuck(home)
    running = runner(home, shadows, replace(PATIENT, budget=0.02), arm)
    await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
    await running.drain()
    (found,) = await kept(shadows)
    assert (found.degraded, found.overlap, found.moves) == ("encode_timeout", None, ())


async def test_work_is_bounded_and_what_is_over_is_dropped(home: House, shadows: SqlShadowLedger) -> None:
    """E12: two comparisons at a time, a bounded queue behind them, and the rest dropped and counted."""
    home.flag.default = SHADOW
    encoder, arm = stuck(home)
    running = runner(home, shadows, ShadowSettings(queue=3, budget=GENEROUS_S), arm)
    retriever = home.retriever(running.compare)
    for _ in range(10):
        await retriever.retrieve(ByQuery("sill"), ASKED)
    await eventually(lambda: encoder.asking == 2)
    assert (encoder.asking, running.counters.dropped) == (2, 5)
    await running.close()
    assert running.counters == ShadowCounters(dropped=10)
    await retriever.retrieve(ByQuery("sill"), ASKED)
    assert running.counters == ShadowCounters(dropped=10)


async def test_a_comparison_that_hangs_gives_its_place_up(home: House, shadows: SqlShadowLedger) -> None:
    """E12: a comparison without an end is abandoned and counted, and the next one starts."""
    home.flag.default = SHADOW
    _, arm = stuck(home)
    running = runner(home, shadows, replace(PATIENT, give_up=0.05), arm)
    for _ in range(6):
        await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
    await running.drain()
    assert running.counters == ShadowCounters(failed=6)


class Noting(Retriever):
    """A read path that notes that it was asked, and never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def retrieve(self, subject: Subject, options: RetrieveOptions) -> Answer:
        """Hangs."""
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


async def test_handing_over_waits_for_nothing(home: House, shadows: SqlShadowLedger) -> None:
    """E12: a request is handed over without any of the comparison being done in its time."""
    answer = await home.lexical_retriever().retrieve(ByQuery("sill"), ASKED)
    noting = Noting()
    running = ShadowRunner(noting, shadows, now, PATIENT)
    for _ in range(1_000):
        running.compare(ByQuery("sill"), ASKED, answer)
    assert noting.asked == 0
    await asyncio.sleep(0)
    assert noting.asked == 2
    await running.close()


class Gone(Retriever):
    """A read path that fails in one way or another."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def retrieve(self, subject: Subject, options: RetrieveOptions) -> Answer:
        """Fails."""
        raise self.error


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), RuntimeError("a defect"), OSError()])
async def test_a_failing_comparison_reaches_nobody(
    home: House, shadows: SqlShadowLedger, error: Exception
) -> None:
    """E12: whatever a comparison raises is counted, and every request is served."""
    home.flag.default = SHADOW
    running = ShadowRunner(Gone(error), shadows, now, PATIENT)
    retriever = home.retriever(running.compare)
    for _ in range(5):
        assert (await retriever.retrieve(ByQuery("sill"), ASKED)).results
    await running.drain()
    assert running.counters == ShadowCounters(failed=5)


class Full:
    """A ledger that keeps nothing. Implements ShadowLedger."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def add(self, comparisons: Sequence[ShadowComparison], retention: Retention) -> int:
        """Fails."""
        raise self.error

    async def comparisons(
        self, workspace: Workspace | None, since: datetime, after: int, limit: int
    ) -> tuple[Sequence[ShadowComparison], int | None]:
        """Nothing."""
        return [], None


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), RuntimeError("a defect")])
async def test_what_cannot_be_stored_is_counted(home: House, error: Exception) -> None:
    """E12: a database that takes nothing costs the comparisons, not the requests."""
    home.flag.default = SHADOW
    running = runner(home, Full(error))
    for _ in range(3):
        await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
    await running.drain()
    assert running.counters == ShadowCounters(compared=3, lost=3)


async def test_memory_is_bounded_while_nothing_can_be_stored(home: House, shadows: SqlShadowLedger) -> None:
    """E12: comparisons that wait to be stored are bounded; those past the bound are lost and counted."""
    home.flag.default = SHADOW
    running = runner(home, shadows, replace(PATIENT, unwritten=2, linger=60.0))
    for _ in range(5):
        await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
    await eventually(lambda: running.counters.compared == 5)
    assert running.counters == ShadowCounters(compared=5, lost=3)
    await running.close()
    assert running.counters == ShadowCounters(compared=5, lost=3, stored=2)
    assert len(await kept(shadows)) == 2


async def test_comparisons_are_stored_by_themselves(home: House, shadows: SqlShadowLedger) -> None:
    """E12: what is compared is stored soon, without anybody asking for it, and old rows go with it."""
    home.flag.default = SHADOW
    running = runner(home, shadows, replace(PATIENT, linger=0.01, retention=Retention(rows=2)))
    for stored in (1, 2, 3, 4):
        await home.retriever(running.compare).retrieve(ByQuery("sill"), ASKED)
        await eventually(lambda: running.counters.stored == stored)  # noqa: B023 - called before the next round
    assert len(await kept(shadows)) == 2
    await running.close()
