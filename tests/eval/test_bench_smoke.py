"""The benchmarks of the vector arm at their smallest: what they report, not how fast it was."""

from pathlib import Path

import pytest

from embeddings.encoder_settings import EncoderSettings
from eval.bench import breaker, callers, hybrid, sync
from eval.bench.ready import Drawn
from service.core.breaker import FAILURES
from tests.embeddings.tiny_model import save_transformer

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> EncoderSettings:
    """A sentence-transformers folder with a transformer of two layers."""
    return EncoderSettings(model=str(save_transformer(tmp_path_factory.mktemp("tiny"))), window_overlap=8)


def test_a_text_has_the_same_vector_wherever_it_is_drawn() -> None:
    """A drawn vector depends on the text and the seed alone, not on its batch, and has length 1."""
    drawn = Drawn(dimension=16, seed=3)
    together = drawn.rows(["one text", "another"])
    assert (together[1] == Drawn(16, 3).rows(["another"])[0]).all()
    assert together.shape == (2, 16)
    assert abs(float(together[0] @ together[0]) - 1.0) < 1e-5


async def test_hybrid_searches_a_graph_and_finds_the_nearest(tmp_path: Path) -> None:
    """Every answer is a hybrid one, and the graph's ten best are those of brute force."""
    size = hybrid.Size(passages=1_000, dimension=32, queries=12, rounds=2, seed=5)
    figures = await hybrid.run(size, tmp_path, profile=tmp_path / "profile")
    series = [
        "hybrid, whole use case",
        "lexical, whole use case",
        "bare store, 225 best",
        "bare store, 10 best",
    ]
    for name in series:
        assert set(figures[name]) == {"p50", "p95", "p99", "least p50", "most p50"}
        assert 0.0 < figures[name]["p50"] <= figures[name]["p99"]
    assert figures["vector arm"]["degraded"] == 0
    assert figures["vector arm"]["ran"] == 12 * 3  # a warm-up, and the rounds
    assert figures["recall"]["at 10"] >= 0.99
    assert figures["memory"]["store own MB"] > 0.0
    assert (tmp_path / "profile").stat().st_size > 0


async def test_callers_ask_every_text_once(tiny_model: EncoderSettings) -> None:
    """No query is answered from the cache; without micro-batching a batch is one query."""
    figures = await callers.run(tiny_model, callers.Size(queries=8, rounds=2, callers=(1, 4)))
    for number in (1, 4):
        single, batched = (
            figures[f"{number} callers, one by one"],
            figures[f"{number} callers, micro-batches"],
        )
        assert single["a batch"] == 1.0 <= batched["a batch"]
        assert single["from cache"] == batched["from cache"] == 0.0
        assert single["queries/s"] > 0.0 < batched["queries/s"]
    assert set(figures["micro-batches / one by one"]) == {"1 callers", "4 callers"}


async def test_sync_encodes_a_text_once_in_its_life(tiny_model: EncoderSettings, tmp_path: Path) -> None:
    """A second collection of the same text is complete and not one text is encoded for it."""
    figures = await sync.run(tiny_model, sync.Size(passages=10, rounds=3), tmp_path)
    assert figures["encoded in all"]["texts"] == 30
    second = figures["second collection, same text"]
    assert second["texts encoded"] == 0
    assert second["points"] == figures["encoded in all"]["points"] >= 30
    assert figures["worker / encoder"]["least"] > 0.0 < figures["worker / library"]["least"]


async def test_a_store_that_is_down_is_asked_until_the_breaker_opens(tmp_path: Path) -> None:
    """Whichever way the store is down, every answer comes, and after the failures most do not ask it."""
    figures = await breaker.run(breaker.Size(passages=1_000, queries=8, repeats=2), tmp_path)
    for down in ("server refuses", "server never answers"):
        assert "open ms" in figures[down]
    counted = {f"request {number} ms" for number in range(1, FAILURES + 1)}
    assert counted <= set(figures["server refuses"])
    assert counted & set(figures["server never answers"]) == {"request 1 ms"}
    for down in ("server refuses", "server never answers", "edge killed again and again"):
        assert figures[down]["lexical answer ms"] > 0.0
    assert figures["server refuses"]["answers with vectors"] == 0
    assert figures["server never answers"]["answers with vectors"] == 0
    assert figures["edge killed once"]["answers without vectors"] > 0
