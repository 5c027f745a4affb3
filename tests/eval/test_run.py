"""A whole run over a real instance with a toy encoder: what it asks, finds, writes and repeats."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import eval as package
from eval.baseline import compare_reports, same_figures
from eval.beir import read_dataset
from eval.dataset import Dataset
from eval.errors import OtherDataset
from eval.fusing import Candidate, coverage_of, fused_names
from eval.instance import open_instance
from eval.models import compare_models
from eval.outputs import kept_sets, read_kept, write_outputs
from eval.rankings import DEPTH, collect
from eval.report import read_report
from eval.running import Measured, RunPlan, run_in
from eval.sets import open_set
from eval.trec import read_qrels, read_run
from service.adapters.flags.report_file import read_report as flag_reads
from service.core.fusion import FusionMethod, FusionSettings, query_coverage
from service.core.scoring import ScorablePassage, TermStatistics, weigh_terms
from service.core.tokenize import query_terms, stored_tokens
from service.ports.flag import Verdict
from service.search.request import Arms
from tests.eval.parts import QRELS, ToyEncoder, toy_dataset, toy_laboratory

pytestmark = pytest.mark.anyio
FUSION = FusionSettings(10, 1.0, 2.0)


async def measured(folder: Path, dataset: Dataset, encoder: ToyEncoder | None = None) -> Measured:
    """A run over one set."""
    async with toy_laboratory(folder, encoder) as laboratory:
        plan = RunPlan([dataset], "toy", FUSION, folder, laboratory.settings)
        return await run_in(laboratory, plan)


async def test_three_arms_side_by_side(tmp_path: Path) -> None:
    """E1: a run has every measure of lexical, vector and hybrid, and synonyms are found by vectors alone."""
    report = (await measured(tmp_path, toy_dataset(tmp_path))).report
    (one,) = report.sets
    assert one.arms.keys() == {"lexical", "vector", "hybrid"}
    assert one.per_query["lexical"]["R@8"]["q2"] == 0.0
    assert one.per_query["vector"]["R@8"]["q2"] == one.per_query["hybrid"]["R@8"]["q2"] == 1.0
    assert report.decision == "NO-GO"


async def test_two_runs_give_the_same(tmp_path: Path) -> None:
    """E11: two runs from empty instances agree in every figure, and the page and the rankings byte by byte."""
    dataset = toy_dataset(tmp_path)
    first, second = [await measured(tmp_path / name, dataset) for name in ("a", "b")]
    assert all(same_figures(first.report, second.report).values())
    assert first.rankings[0].queries == second.rankings[0].queries
    assert first.report.seed == second.report.seed
    assert first.report.versions["ir-measures"] != "absent"
    assert first.report.settings["fusion_k"] == 10


async def test_embeddings_are_kept(tmp_path: Path) -> None:
    """E11: a second run over the same cache encodes no passage and finds the same."""
    dataset, encoder = toy_dataset(tmp_path), ToyEncoder()
    first = await measured(tmp_path, dataset, encoder)
    encoded = encoder.passages
    second = await measured(tmp_path, dataset, encoder)
    assert encoder.passages == encoded == first.report.timings.passages_encoded
    assert second.report.timings.passages_from_cache == encoded
    assert all(same_figures(first.report, second.report).values())


async def test_the_files_of_a_run(tmp_path: Path) -> None:
    """E5: report, page, runs and qrels are written, open again, and the flag reads the decision."""
    result = await measured(tmp_path, toy_dataset(tmp_path))
    write_outputs(result, tmp_path / "out")
    assert read_report(tmp_path / "out") == result.report
    assert flag_reads(tmp_path / "out" / "report.json").verdict is Verdict.NO_GO
    assert read_qrels(tmp_path / "out/runs/toy.qrels") == QRELS
    for arm in ("lexical", "vector", "hybrid"):
        assert read_run(tmp_path / f"out/runs/toy.{arm}.run")
    (kept,) = read_kept(tmp_path / "out").sets
    assert kept.queries == result.rankings[0].queries


async def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """E5: the HTML report has its plots inside and refers to nothing outside; texts of the data are escaped."""
    dataset = toy_dataset(tmp_path)
    hostile = "racket from <script>alert(1)</script>"
    (tmp_path / "toy" / "queries.jsonl").write_text(
        (tmp_path / "toy" / "queries.jsonl").read_text().replace("racket from traffic", hostile)
    )
    dataset = read_dataset(tmp_path / "toy", "toy")
    write_outputs(await measured(tmp_path, dataset), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "The threshold lies flush" in page or "noise of the street" in page


async def test_the_sweep_is_the_read_path(tmp_path: Path) -> None:
    """E4: fusing the kept single arms gives the ranking that the production retriever gave, for any setting."""
    dataset = toy_dataset(tmp_path)
    async with (
        toy_laboratory(tmp_path) as laboratory,
        open_instance(laboratory, dataset.corpus) as instance,
    ):
        for fusion in (FusionSettings(), FusionSettings(2, 3.0, 1.0), FusionSettings(10, 1.0, 3.0)):
            rankings = await collect(instance.retriever(fusion), dataset, fusion, instance.weigh)
            for ranked in rankings.queries.values():
                fused = fused_names(ranked, Candidate(FusionMethod.RRF, fusion))
                assert fused[:DEPTH] == [hit.name for hit in ranked.hybrid]


async def test_coverage_from_kept_masses(tmp_path: Path) -> None:
    """E9: the coverage of kept rankings is what the service's own function says of the passages."""
    result = await measured(tmp_path, toy_dataset(tmp_path))
    ranked = result.rankings[0].queries["q4"]
    assert coverage_of(ranked) == 1.0
    statistics = TermStatistics(7, 8.0, {"sl45": 1})
    body, length = stored_tokens("Order code SL45 stands for the small line.")
    passage = ScorablePassage(ranked.lexical[0].item_id, 0, "", "", body, length)
    assert query_coverage([passage], weigh_terms(query_terms("SL45"), statistics)) == 1.0


async def test_unknown_passages_are_reported(tmp_path: Path) -> None:
    """E6: a judged passage that the corpus does not have is reported, and its query scored on the others."""
    dataset = toy_dataset(tmp_path)
    with (tmp_path / "toy/qrels/test.tsv").open("a") as file:
        file.write("q1\tgone\t1\n")
    dataset = read_dataset(tmp_path / "toy", "toy")
    (one,) = (await measured(tmp_path, dataset)).report.sets
    assert one.findings.unknown_passages == ["gone"]
    assert one.per_query["lexical"]["R@8"].keys() == QRELS.keys()


async def test_the_function(tmp_path: Path) -> None:
    """E4: `eval.evaluate` measures any retriever of the service on any set."""
    dataset = toy_dataset(tmp_path)
    async with (
        toy_laboratory(tmp_path) as laboratory,
        open_instance(laboratory, dataset.corpus) as instance,
    ):
        conditions = package.Conditions(fusion=FUSION)
        report = await package.evaluate(instance.retriever(FUSION), dataset, conditions)
    whole = (await measured(tmp_path, dataset)).report
    assert report.sets[0].arms == whole.sets[0].arms


async def test_two_models(tmp_path: Path) -> None:
    """E15: two models on one set stand side by side with what encoding and answering cost."""
    dataset = toy_dataset(tmp_path)
    reports = [
        (await measured(tmp_path / name, dataset, ToyEncoder(name))).report for name in ("toy-1", "toy-2")
    ]
    first, second = compare_models(reports)
    assert first.against_first is None
    assert second.against_first is not None
    assert second.against_first.difference.estimate == 0.0
    assert first.encode_passage_ms is not None
    assert first.encode_passage_ms > 0.0
    assert first.answer_ms is not None


async def test_stale_passages_do_not_come_back(tmp_path: Path) -> None:
    """E8: over the product corpus with its lifecycle no arm shows a stale passage for a query made to find it."""
    whole = open_set("stale-trap")
    some = dict(list(whole.qrels.items())[::4])
    dataset = replace(whole, qrels=some)
    (one,) = (await measured(tmp_path, dataset)).report.sets
    assert one.queries == len(some)
    assert one.stale == []
    assert one.findings.unknown_passages == []


async def test_models_on_other_data(tmp_path: Path) -> None:
    """E15: models measured on different data are not compared."""
    reports = [(await measured(tmp_path, toy_dataset(tmp_path))).report]
    (tmp_path / "toy" / "queries.jsonl").write_text((tmp_path / "toy" / "queries.jsonl").read_text() + "\n")
    changed = read_dataset(tmp_path / "toy", "toy")
    reports.append((await measured(tmp_path, changed)).report)
    with pytest.raises(OtherDataset):
        compare_models(reports)
    with pytest.raises(OtherDataset):
        compare_reports(reports[0], reports[1])


async def test_lexical_and_vector_are_themselves(tmp_path: Path) -> None:
    """E4: a single arm's hits carry that arm's own score: cosine at most 1, lexical above 0, both falling."""
    result = await measured(tmp_path, toy_dataset(tmp_path))
    for ranked in result.rankings[0].queries.values():
        for arm in (Arms.LEXICAL, Arms.VECTOR):
            scores = [hit.score for hit in ranked.of(arm)]
            assert scores == sorted(scores, reverse=True)
        assert all(-1.0 <= hit.score <= 1.0 + 1e-6 for hit in ranked.vector)
    assert kept_sets(result.datasets, result.rankings)[0].name == "toy"
