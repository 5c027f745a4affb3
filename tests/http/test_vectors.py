"""Vectors over HTTP: a real small model, a real embedded index, and a flag."""

import asyncio
from pathlib import Path

import pytest

from service.settings import Settings, VectorMode
from tests.http.calls import ask, document, part, store
from tests.http.conftest import Client, connected

pytestmark = [pytest.mark.anyio, pytest.mark.model]


async def ready(client: Client) -> None:
    """Wait until the model is loaded and every passage has its vector."""
    for _ in range(600):
        found = (await client.get("/health/ready")).json()["parts"]["vectors"]
        if found == {"state": "ready", "reason": None}:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"vectors never became ready: {found}")


async def test_hybrid_answers_from_the_small_model(tmp_path: Path) -> None:
    """C24: with the flag on, a paraphrase without a common word is found, by the model a package ships."""
    settings = Settings(
        data_dir=tmp_path / "data",
        vectors=VectorMode.ON,
        embedding_model="minilm",
        hybrid_retrieval="on",
        vector_budget=30.0,
    )
    async with connected(settings) as client:
        await store(client, document("a", "The threshold drains rain water outward through weep holes."))
        await store(client, document("b", "Payment is due within thirty days of the invoice."))
        await ready(client)
        body = await ask(client, "where does wetness go when it pours")
        assert part(body, "arms", "vector") == {"state": "ran", "reason": "ran"}
        results = body["results"]
        assert isinstance(results, list)
        assert "threshold" in results[0]["text"]
        page = (await client.get("/metrics")).text
        assert "citewell_vector_points 2.0" in page
        assert "citewell_vector_pending_changes 0.0" in page


async def test_a_model_that_cannot_be_had_costs_only_the_vectors(tmp_path: Path) -> None:
    """C27: a model that is nowhere gives lexical answers with no_model, and readiness says why."""
    settings = Settings(
        data_dir=tmp_path / "data",
        vectors=VectorMode.ON,
        embedding_model=str(tmp_path / "no-such-model"),
        embedding_hub=False,
        hybrid_retrieval="on",
    )
    async with connected(settings) as client:
        await store(client, document("a", "sill"))
        for _ in range(100):
            body = await ask(client, "sill")
            if part(body, "arms", "vector")["reason"] == "no_model":
                break
            await asyncio.sleep(0.1)
        assert part(body, "arms", "vector") == {"state": "degraded", "reason": "no_model"}
        assert body["shown"] == 1
        ready_page = await client.get("/health/ready")
        assert ready_page.status_code == 200
        assert ready_page.json()["parts"]["vectors"]["state"] == "unavailable"
