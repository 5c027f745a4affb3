"""Each reason of the closed list is caused over HTTP, told in the answer, and counted once a request."""

import asyncio
import time
from pathlib import Path

import pytest

from service.search.degradation import Reason
from service.surfaces.http.metrics import vector_outcomes
from service.surfaces.http.shadow_metrics import RAN
from tests.http.calls import Json, part, read
from tests.http.reason_causes import (
    BRIEF_S,
    PATIENT_S,
    Asked,
    Cause,
    all_is_well,
    drill,
    erring_store,
    failing_encoder,
    flag,
    hanging_encoder,
    loading_model,
    missing_model,
    no_vectors_yet,
    other_vectors,
    refusing_store,
    silent_store,
    vectors_off,
)
from tests.telemetry.test_metrics import samples

pytestmark = pytest.mark.anyio

CAUSES: list[tuple[str, str, Cause]] = [
    (RAN, "all is well", all_is_well),
    (Reason.OFF, "flag off", flag("off")),
    (Reason.SHADOW, "flag shadow", flag("shadow")),
    (Reason.NOT_IN_ROLLOUT, "flag 1 %", flag("1%", **{"x-citewell-caller": "somebody"})),
    (Reason.NO_MODEL, "vectors off", vectors_off),
    (Reason.NO_MODEL, "missing model", missing_model),
    (Reason.MODEL_LOADING, "loading model", loading_model),
    (Reason.ENCODE_TIMEOUT, "hanging encoder", hanging_encoder),
    (Reason.ENCODE_ERROR, "failing encoder", failing_encoder),
    (Reason.STORE_UNAVAILABLE, "refusing store", refusing_store),
    (Reason.STORE_TIMEOUT, "silent store", silent_store),
    (Reason.STORE_TIMEOUT, "drill slow", drill("slow:30000ms", budget=BRIEF_S)),
    (Reason.STORE_ERROR, "erring store", erring_store),
    (Reason.STORE_ERROR, "drill error", drill("error")),
    (Reason.FINGERPRINT_MISMATCH, "another model's vectors", other_vectors),
    (Reason.NO_VECTORS, "no worker yet", no_vectors_yet),
    (Reason.FORCED_OFF, "drill off", drill("off")),
]
STATES = {reason: state for state, reason in vector_outcomes()}


async def ask(asked: Asked) -> Json:
    """The answer to a retrieval, which is always a success with the lexical hit."""
    body = {"query": "sill", **asked.options}
    answer = await asked.client.post("/v1/retrieve", json=body, headers=asked.headers)
    assert answer.status_code == 200, answer.text[:500]
    assert read(answer)["shown"] == 1
    return part(read(answer), "arms", "vector")


async def until_it_is(asked: Asked, reason: str) -> None:
    """Ask until the cause has its effect."""
    give_up = time.monotonic() + PATIENT_S
    while (told := await ask(asked))["reason"] != reason:
        assert time.monotonic() < give_up, told
        await asyncio.sleep(0.05)


async def reads(asked: Asked) -> dict[str, float]:
    """The counter of retrievals, by state and reason."""
    found = samples((await asked.client.get("/metrics")).text)
    return {name: count for name, count in found.items() if name.startswith("citewell_vector_reads_total")}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        pytest.param(
            reason,
            cause,
            id=name.replace(" ", "-"),
            marks=[pytest.mark.model] if cause is missing_model else [],
        )
        for reason, name, cause in CAUSES
    ],
)
async def test_a_reason_is_counted(
    reason: str, cause: Cause, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: a request whose vector arm does not run is answered, says why, and counts once under that reason."""
    async with cause(tmp_path, monkeypatch) as asked:
        await until_it_is(asked, reason)
        before = await reads(asked)
        told = await ask(asked)
        after = await reads(asked)
    assert told == {"state": STATES[reason], "reason": reason}
    counted = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert counted == {f"citewell_vector_reads_total{{reason={reason},state={STATES[reason]}}}": 1.0}


def test_no_reason_is_left_out() -> None:
    """C27: whatever reason there is, the tests above cause it."""
    assert {reason for reason, _, _ in CAUSES} == {RAN, *(reason.value for reason in Reason)}
