"""What shadow mode sees becomes metrics: overlap, moves, added time and reasons, under closed labels."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from service.adapters.sql.rollout import SqlShadowLedger
from service.core.rollout import FlagKind, FlagState
from service.ports.shadow import RankMove, ShadowComparison
from service.search.degradation import Reason
from service.search.plan import Hybrid
from service.search.request import ByQuery, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.shadow import ShadowCounters, ShadowRunner, ShadowSettings
from service.settings import Settings
from service.surfaces.http.shadow_metrics import ShadowMetrics
from tests.http.calls import ask, document, store
from tests.http.conftest import connected
from tests.rollout.parts import GENEROUS_S, QUERIES, WORKSPACE, House
from tests.telemetry.test_metrics import samples

SINCE = datetime(2000, 1, 1, tzinfo=UTC)
COMPARED = ShadowComparison(
    workspace=WORKSPACE,
    at=SINCE,
    subject="query",
    query_hash="0" * 32,
    lexical_ms=10.0,
    hybrid_ms=40.0,
    degraded=None,
    overlap=0.875,
    moves=(
        RankMove("entered at 2", None, 2),
        RankMove("up by 3", 5, 2),
        RankMove("down by 1", 1, 2),
        RankMove("left from 8", 8, None),
    ),
)


def observed(*comparisons: ShadowComparison) -> dict[str, float]:
    """The samples after comparisons."""
    registry = CollectorRegistry()
    metrics = ShadowMetrics(registry)
    for comparison in comparisons:
        metrics.observe(comparison)
    found = samples(generate_latest(registry).decode())
    return {name: value for name, value in found.items() if "_created" not in name}


def test_a_comparison_checked_by_hand() -> None:
    """E13: seven of eight in common, 30 ms added, and moves of 7, 3, 1 and 1 places are what is shown."""
    found = observed(COMPARED)
    expected = {
        "citewell_shadow_overlap_ratio_count{}": 1.0,
        "citewell_shadow_overlap_ratio_sum{}": 0.875,
        "citewell_shadow_overlap_ratio_bucket{le=0.75}": 0.0,
        "citewell_shadow_overlap_ratio_bucket{le=0.875}": 1.0,
        "citewell_shadow_added_seconds_sum{}": 0.03,
        "citewell_shadow_added_seconds_bucket{le=0.025}": 0.0,
        "citewell_shadow_added_seconds_bucket{le=0.05}": 1.0,
        "citewell_shadow_rank_move_places_sum{direction=entered}": 7.0,
        "citewell_shadow_rank_move_places_sum{direction=up}": 3.0,
        "citewell_shadow_rank_move_places_sum{direction=down}": 1.0,
        "citewell_shadow_rank_move_places_sum{direction=left}": 1.0,
        "citewell_shadow_rank_move_places_bucket{direction=up,le=2.0}": 0.0,
        "citewell_shadow_rank_move_places_bucket{direction=up,le=3.0}": 1.0,
        "citewell_shadow_reasons_total{reason=ran}": 1.0,
    }
    assert {name: found.get(name) for name in expected} == expected


def test_an_arm_that_did_not_run_counts_by_its_reason_alone() -> None:
    """E13: a degraded comparison has no overlap that would flatter it, and no added time."""
    found = observed(replace(COMPARED, degraded="encode_timeout", overlap=None, moves=()))
    assert {name for name, value in found.items() if value} == {
        "citewell_shadow_reasons_total{reason=encode_timeout}"
    }


def test_a_faster_hybrid_adds_nothing() -> None:
    """E13: where the hybrid happened to be faster, the sum of added time does not go down."""
    found = observed(COMPARED, replace(COMPARED, hybrid_ms=1.0))
    assert found["citewell_shadow_added_seconds_sum{}"] == 0.03
    assert found["citewell_shadow_added_seconds_bucket{le=0.0}"] == 1.0


def test_labels_are_closed() -> None:
    """U18, E13: every label value is there from the start at zero, and no comparison adds another one."""
    reasons = (reason.value for reason in Reason if reason not in ("off", "shadow", "not_in_rollout"))
    degraded = [replace(COMPARED, degraded=reason, overlap=None, moves=()) for reason in reasons]
    assert set(observed()) == set(observed(COMPARED, *degraded))
    assert set(observed().values()) == {0.0}


def shadow_runner(home: House, settings: ShadowSettings) -> ShadowRunner:
    """A runner over a retriever of its own, as the service has it."""
    retriever = Retriever(home.app.store, home.app.lexical, Hybrid(home.arm, home.flag, budget=GENEROUS_S))
    ledger = SqlShadowLedger(home.app.store.engines)
    return ShadowRunner(retriever, ledger, lambda: datetime.now(UTC), settings)


@pytest.mark.anyio
async def test_metrics_and_table_tell_the_same(home: House) -> None:
    """E13: over real comparisons the histograms hold what the table keeps."""
    home.flag.default = FlagState(FlagKind.SHADOW)
    registry = CollectorRegistry()
    running = shadow_runner(home, ShadowSettings(budget=GENEROUS_S))
    running.watch(ShadowMetrics(registry).observe)
    for query in QUERIES:
        await home.retriever(running.compare).retrieve(ByQuery(query), RetrieveOptions(WORKSPACE))
        await running.drain()
    kept, _ = await SqlShadowLedger(home.app.store.engines).comparisons(None, SINCE, 0, 1_000)
    found = samples(generate_latest(registry).decode())
    moves = sum(len(comparison.moves) for comparison in kept)
    assert moves > 0
    assert moves == sum(
        value for name, value in found.items() if name.startswith("citewell_shadow_rank_move_places_count")
    )
    assert found["citewell_shadow_reasons_total{reason=ran}"] == len(kept) == len(QUERIES)
    assert found["citewell_shadow_overlap_ratio_sum{}"] == pytest.approx(
        sum(comparison.overlap or 0.0 for comparison in kept)
    )


@pytest.mark.anyio
async def test_what_cannot_be_stored_is_observed_all_the_same(home: House) -> None:
    """E12, E13: metrics do not depend on the table: a comparison for which there is no room is seen."""
    home.flag.default = FlagState(FlagKind.SHADOW)
    registry = CollectorRegistry()
    running = shadow_runner(home, ShadowSettings(budget=GENEROUS_S, unwritten=0))
    running.watch(ShadowMetrics(registry).observe)
    await home.retriever(running.compare).retrieve(ByQuery("sill"), RetrieveOptions(WORKSPACE))
    await running.drain()
    assert running.counters == ShadowCounters(compared=1, lost=1)
    assert samples(generate_latest(registry).decode())["citewell_shadow_overlap_ratio_count{}"] == 1.0


@pytest.mark.anyio
async def test_the_page_shows_what_the_shadow_saw(sqlite_settings: Settings) -> None:
    """E13: a request served in shadow mode is on /metrics with the reason of its comparison, once it is made."""
    asked = sqlite_settings.model_copy(update={"hybrid_retrieval": "shadow"})
    async with connected(asked) as client:
        await store(client, document("a", "sill"))
        await ask(client, "sill")
        for _ in range(1_000):
            found = samples((await client.get("/metrics")).text)
            if found["citewell_shadow_comparisons_total{outcome=compared}"]:
                break
    assert found["citewell_shadow_reasons_total{reason=no_model}"] == 1.0
    assert found["citewell_shadow_reasons_total{reason=ran}"] == 0.0
