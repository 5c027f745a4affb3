"""Metrics: what is counted, from when on, and what can never become a label."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embeddings.encoder_state import EncoderReading
from service.adapters.flags.evaluated import FlagCounters
from service.adapters.tracing.timed import StepTimes
from service.core.breaker import FAILURES, Breaker
from service.core.rollout import RolloutDecision
from service.ingest.vector_status import VectorStatus
from service.ingest.vectors import WorkerCounters
from service.ports.embedding import EncoderState
from service.ports.lexical import CandidateSource
from service.ports.tracing import Step
from service.ports.vector_reports import LOST_S, SeenWorker, VectorFault, WorkerDuty
from service.search.degradation import Reason
from service.search.shadow import ShadowCounters
from service.search.vector_arm import ArmBreakers
from service.settings import Settings
from service.surfaces.http.metric_families import (
    SHOWN_WORKSPACES,
    IndexReading,
    Readings,
    VectorReadings,
)
from service.surfaces.http.metrics import Metrics
from service.surfaces.http.queue import Work
from tests.http.calls import ask, document, store
from tests.http.conftest import Client, connected

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs/grafana/citewell.json"
RARE_WORDS = "xylophone zeppelin"
_NAME = re.compile(r"\b((?:citewell|process)_[a-z_]+)\b")
_SUFFIX = re.compile(r"_(?:bucket|sum|count|total|created|info)$")


@dataclass(frozen=True, slots=True)
class Queue:
    """A gate that says what it is told to. Implements QueueReading."""

    rejected: Mapping[str, int] = field(default_factory=lambda: {"overloaded": 2, "client_gone": 0})

    def lanes(self) -> Mapping[Work, tuple[int, int]]:
        """Some work of each kind."""
        return {Work.READ: (3, 1), Work.WRITE: (1, 0), Work.IMPORT: (0, 0)}


def seen(duty: WorkerDuty, *, is_failing: bool = False, silent: float = 1.0) -> SeenWorker:
    """A worker as another process knows it."""
    return SeenWorker("host:1", "words", duty, is_failing, None, None, None, silent)


def readings(*indexes: IndexReading) -> Readings:
    """A process in which every part has something to say."""
    status = VectorStatus(
        encoder=EncoderState.READY,
        encoder_failure=None,
        collection=None,
        pending=3,
        lag_seconds=1.5,
        points=7,
        parked=1,
        missing=2,
        orphan=0,
        compared_at=datetime(2026, 1, 2, tzinfo=UTC),
        outcome=None,
        failure="no room",
        fault=VectorFault.STORE_FULL,
        workers=[
            seen(WorkerDuty.WORKING, is_failing=True),
            seen(WorkerDuty.STANDBY),
            seen(WorkerDuty.WORKING, silent=LOST_S + 1.0),
        ],
    )
    open_breaker = Breaker(failures=FAILURES, retry_at=9.0)
    times = StepTimes()
    times.observe(Step.ENCODE, 0.02)
    vectors = VectorReadings(
        status, WorkerCounters(encoded=5), EncoderReading(4, 6, 2), ArmBreakers(open_breaker, Breaker())
    )
    return Readings(
        indexes, vectors, times.readings(), FlagCounters(asked=8), ShadowCounters(dropped=9), Queue()
    )


def samples(page: str) -> dict[str, float]:
    """Every sample of a page, as `name{label=value,…}`."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": (
            sample.value
        )
        for found in text_string_to_metric_families(page)
        for sample in found.samples
    }


def family_names(page: str) -> set[str]:
    """The families of a page; the times at which counters were made are none of their own."""
    return {
        found.name for found in text_string_to_metric_families(page) if not found.name.endswith("_created")
    }


def full_page() -> str:
    """A page on which every family of the service is."""
    metrics = Metrics()
    metrics.answered("GET", "/health/live", 200, 0.001)
    return metrics.page(readings(IndexReading("default", 4, 1, 0))).decode()


def test_every_part_is_shown() -> None:
    """U19: lag, missing, orphans, cache, queue, breakers, flag, shadow and limits are on the page."""
    found = samples(full_page())
    expected = {
        "citewell_index_documents{workspace=default}": 4.0,
        "citewell_index_workspaces{}": 1.0,
        "citewell_vector_pending_changes{}": 3.0,
        "citewell_vector_lag_seconds{}": 1.5,
        "citewell_vector_points{}": 7.0,
        "citewell_vector_missing{}": 2.0,
        "citewell_vector_orphan{}": 0.0,
        "citewell_vector_parked{}": 1.0,
        "citewell_vector_compared_timestamp_seconds{}": 1767312000.0,
        "citewell_vector_workers{health=working}": 0.0,
        "citewell_vector_workers{health=standby}": 1.0,
        "citewell_vector_workers{health=failing}": 1.0,
        "citewell_vector_workers{health=lost}": 1.0,
        "citewell_vector_fault{part=store_full}": 1.0,
        "citewell_vector_fault{part=encoder}": 0.0,
        "citewell_vector_worker_passages_total{done=encoded}": 5.0,
        "citewell_query_vector_lookups_total{outcome=hit}": 4.0,
        "citewell_query_vector_lookups_total{outcome=miss}": 6.0,
        "citewell_encoder_waiting{}": 2.0,
        "citewell_breaker_open{guards=store}": 1.0,
        "citewell_breaker_open{guards=encoder}": 0.0,
        "citewell_flag_questions_total{outcome=asked}": 8.0,
        "citewell_shadow_comparisons_total{outcome=dropped}": 9.0,
        "citewell_queue_working{work=read}": 3.0,
        "citewell_queue_waiting{work=read}": 1.0,
        "citewell_queue_rejected_total{reason=overloaded}": 2.0,
        "citewell_step_seconds_count{step=encode}": 1.0,
        "citewell_step_seconds_bucket{le=0.01,step=encode}": 0.0,
        "citewell_step_seconds_bucket{le=0.025,step=encode}": 1.0,
        "citewell_step_seconds_bucket{le=+Inf,step=encode}": 1.0,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["process_start_time_seconds{}"] > 0
    assert [name for name in found if name.startswith("citewell_build_info{version=")]


def test_counters_are_there_before_they_count() -> None:
    """U19: every reason, decision, source and step is there from the start: a rate sees its first one."""
    found = samples(full_page())
    for reason in Reason:
        assert len([name for name in found if f"vector_reads_total{{reason={reason.value}," in name]) == 1
    assert found["citewell_vector_reads_total{reason=ran,state=ran}"] == 0.0
    assert found["citewell_vector_reads_total{reason=off,state=off}"] == 0.0
    assert found["citewell_vector_reads_total{reason=store_timeout,state=degraded}"] == 0.0
    for decision in RolloutDecision:
        assert found[f"citewell_flag_decisions_total{{decision={decision.value}}}"] == 0.0
    for source in CandidateSource:
        assert found[f"citewell_lexical_reads_total{{source={source.value}}}"] == 0.0
    for step in Step:
        assert f"citewell_step_seconds_count{{step={step.value}}}" in found
    assert found["citewell_rate_limited_requests_total{}"] == 0.0


def test_workspaces_are_bounded() -> None:
    """U18, U19: only so many workspaces have samples, however many have an index; their number is told."""
    many = [IndexReading(f"w{number:05}", 1, 0, 0) for number in range(SHOWN_WORKSPACES + 50)]
    found = samples(Metrics().page(readings(*many)).decode())
    assert len([name for name in found if name.startswith("citewell_index_documents{")]) == SHOWN_WORKSPACES
    assert found["citewell_index_workspaces{}"] == SHOWN_WORKSPACES + 50


@pytest.mark.anyio
async def test_what_a_request_says_never_becomes_a_label(http: Client) -> None:
    """U18, U19: unknown workspaces, queries, ids, methods and paths of requests are nowhere on the page."""
    await store(http, document("a", "sill"))
    foreign = {"x-citewell-workspace": "a-foreign-workspace", "x-citewell-caller": "somebody-special"}
    for headers in ({}, foreign):
        await http.post("/v1/retrieve", json={"query": RARE_WORDS}, headers=headers)
        await http.get(f"/v1/systems/{RARE_WORDS}/passages", headers=headers)
        await http.get(f"/v1/items/{RARE_WORDS}", headers=headers)
        await http.request("BREW", f"/v1/{RARE_WORDS}", headers=headers)
    page = (await http.get("/metrics", headers=foreign)).text
    for word in (*RARE_WORDS.split(), "a-foreign-workspace", "somebody-special", "BREW"):
        assert word not in page
    workspaces = {name for name in samples(page) if "workspace=" in name}
    assert all("workspace=default" in name for name in workspaces)


@pytest.mark.anyio
async def test_reads_are_counted_by_decision_and_step(sqlite_settings: Settings) -> None:
    """U19: a read counts once under the flag's decision, its arm's reason, and each of its steps."""
    asked = sqlite_settings.model_copy(update={"hybrid_retrieval": "on"})
    async with connected(asked) as client:
        await store(client, document("a", "sill"))
        await ask(client, "sill")
        found = samples((await client.get("/metrics")).text)
    assert found["citewell_flag_decisions_total{decision=run}"] == 1.0
    assert found["citewell_vector_reads_total{reason=no_model,state=degraded}"] == 1.0
    for step in (Step.RETRIEVE, Step.LEXICAL, Step.PAGE, Step.TRANSACTION, Step.INDEX):
        assert found[f"citewell_step_seconds_count{{step={step.value}}}"] == 1.0, step
    assert found["citewell_queue_working{work=read}"] == 0.0, "the page itself holds no place"


def expressions(part: object) -> Iterator[str]:
    """Every query of a dashboard, wherever it is."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("expr", "query") and isinstance(value, str):
                yield value
            yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


def test_the_dashboard_asks_for_what_exists() -> None:
    """U19: every metric in docs/grafana/citewell.json is on the page, under that very name."""
    page = full_page()
    there = {name.split("{")[0] for name in samples(page)}
    used = {name for one in expressions(json.loads(DASHBOARD.read_text())) for name in _NAME.findall(one)}
    assert used
    assert used <= there


def test_the_dashboard_shows_every_family() -> None:
    """U19: whatever the service measures has its place on the dashboard."""
    used = {name for one in expressions(json.loads(DASHBOARD.read_text())) for name in _NAME.findall(one)}
    shown = {_SUFFIX.sub("", name) for name in used}
    own = {name for name in family_names(full_page()) if name.startswith("citewell_")}
    missing = {name for name in own if _SUFFIX.sub("", name) not in shown}
    assert missing == set()


def test_the_dashboards_parts_have_ids_and_places_of_their_own() -> None:
    """A dashboard that Grafana imports: distinct ids, and no panel reaches out of the 24 columns."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == [
        "Traffic",
        "Latency per arm",
        "Vector arm",
        "Indexes and their lag",
        "Encoder",
        "Limits and the process",
    ]


def test_every_metric_is_documented() -> None:
    """U19: docs/operations.md has a row for every metric, and none for one that does not exist."""
    text = (ROOT / "docs/operations.md").read_text()
    rows = [
        line.split("|")[1] for line in text.splitlines() if line.startswith(("| `citewell_", "| `process_"))
    ]
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    there = {
        found.name + ("_total" if found.type == "counter" else "")
        for found in text_string_to_metric_families(full_page())
        if not found.name.endswith("_created")
    }
    assert documented == there
