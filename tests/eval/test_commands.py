"""The commands: what they print, write and end with."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from eval.__main__ import PROGRAM
from eval.baseline import compare_reports
from eval.evaluation import Conditions, assemble
from eval.outputs import write_outputs
from eval.report import Model, Report, Timings, report_bytes
from eval.running import Measured
from eval.scoring import score_set
from tests.eval.parts import made_rankings, made_set, write_folder


def run(*arguments: str | Path) -> Result:
    """The program's result, its exit status included."""
    return CliRunner().invoke(PROGRAM, [str(argument) for argument in arguments])


def made(hybrid: list[bool], lexical: list[bool] | None = None) -> Measured:
    """A run made by hand: paraphrase as given, nothing lost on exact tokens."""
    paraphrase, exact = made_set("paraphrase", len(hybrid)), made_set("exact", 4)
    rankings = [
        made_rankings(paraphrase, lexical or [False] * len(hybrid), hybrid),
        made_rankings(exact, [True] * 4, [True] * 4),
    ]
    sets = [score_set(d, r, frozenset(), 1) for d, r in zip((paraphrase, exact), rankings, strict=True)]
    report = assemble(sets, Conditions(model=Model("made", "made-1")), Timings())
    return Measured(report, [paraphrase, exact], rankings)


def stored(folder: Path, report: Report) -> Path:
    """The report's file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(report_bytes(report))
    return folder / "report.json"


GOOD, WORSE = [True] * 19 + [False], [True] * 17 + [False] * 3


def test_report_shows_what_decides(tmp_path: Path) -> None:
    """E1: a report names the three arms side by side, the intervals, and ends with the decision."""
    for hybrid, word in ((GOOD, "GO"), ([False] * 20, "NO-GO")):
        result = run("report", stored(tmp_path / word, made(hybrid).report))
        assert result.exit_code == 0
        assert all(arm in result.stdout for arm in ("lexical", "vector", "hybrid", "recall@8"))
        assert result.stdout.rstrip().splitlines()[-1] == word


def test_report_writes_the_page(tmp_path: Path) -> None:
    """E5: a stored report can be made a page again."""
    report = stored(tmp_path, made(GOOD).report)
    assert run("report", report, "--html", tmp_path / "again.html").exit_code == 0
    assert (tmp_path / "again.html").read_text().startswith("<!doctype html>")


def test_a_drop_past_the_tolerance_fails(tmp_path: Path) -> None:
    """E10: a fall past the tolerance has its own exit status; the same fall inside it has not."""
    before, now = stored(tmp_path / "a", made(GOOD).report), stored(tmp_path / "b", made(WORSE).report)
    assert run("compare", before, now).exit_code == 11
    assert "fell" in run("compare", before, now).stdout
    assert run("compare", before, now, "--tolerance", "0.2").exit_code == 0
    assert run("compare", now, before).exit_code == 0
    assert run("compare", before, before, "--tolerance", "0").exit_code == 0


def test_a_new_stale_passage_is_a_fall(tmp_path: Path) -> None:
    """E10: a stale passage that the baseline had not is a fall whatever the tolerance."""
    dataset = made_set("paraphrase", 2)
    rankings = made_rankings(dataset, [True] * 2, [True] * 2)
    reports = [
        assemble([score_set(dataset, rankings, stale, 1)], Conditions(), Timings())
        for stale in (frozenset[str](), frozenset({"right-0"}))
    ]
    assert any(change.fell for change in compare_reports(reports[0], reports[1], tolerance=1.0))


def test_a_baseline_of_other_data(tmp_path: Path) -> None:
    """E10: a baseline for another data set is an error of its own, not a comparison."""
    report = made(GOOD).report
    other = msgspec.structs.replace(
        report, sets=[msgspec.structs.replace(one, dataset_hash="other") for one in report.sets]
    )
    result = run("compare", stored(tmp_path / "a", other), stored(tmp_path / "b", report))
    assert result.exit_code == 27
    assert "other_dataset" in result.stderr


@pytest.mark.parametrize(
    ("contents", "status"),
    [
        (b'{"schema": "citewell-eval-9"}', 26),
        (b"{}", 26),
        (b"no json", 21),
        (b'{"schema": "citewell-eval-1"}', 21),
    ],
)
def test_a_report_of_another_version(tmp_path: Path, contents: bytes, status: int) -> None:
    """E10: a report of another schema version, and a file that is none, have their exit statuses."""
    (tmp_path / "report.json").write_bytes(contents)
    assert run("compare", tmp_path / "report.json", tmp_path / "report.json").exit_code == status
    assert run("report", tmp_path / "missing.json").exit_code == 20


def test_sweep_from_kept_rankings(tmp_path: Path) -> None:
    """E9: a sweep needs nothing but a run's folder, and says what was held out."""
    write_outputs(made(GOOD, GOOD), tmp_path / "out")
    result = run("sweep", tmp_path / "out", "--method", "rrf", "--folds", "3")
    assert result.exit_code == 0
    assert "held out, against the better single arm" in result.stdout
    assert run("sweep", tmp_path / "nothing").exit_code == 20
    (tmp_path / "damaged.gz").write_bytes(b"no archive")
    assert run("sweep", tmp_path / "damaged.gz").exit_code == 21


@pytest.mark.parametrize(
    ("spoiled", "text", "status"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", 22),
        ("qrels/test.tsv", "q1\td1\t0\n", 24),
        ("queries.jsonl", "no json\n", 21),
        ("queries.jsonl", '{"_id":"q1","text":"a"}\n{"_id":"q1","text":"b"}\n', 23),
    ],
)
def test_bad_sets_end_before_anything_runs(tmp_path: Path, spoiled: str, text: str, status: int) -> None:
    """E1: a set that cannot be read ends the run in one line, with its own status and nothing written."""
    folder = write_folder(tmp_path / "set")
    (folder / spoiled).write_text(text)
    result = run("run", "--set", folder, "--out", tmp_path / "out")
    assert result.exit_code == status
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_wrong_options(tmp_path: Path) -> None:
    """E1: weights that are none, and sets that share a name, are refused."""
    assert run("run", "--weights", "much").exit_code == 2
    one, other = write_folder(tmp_path / "a" / "set"), write_folder(tmp_path / "b" / "set")
    assert run("run", "--set", one, "--set", other).exit_code == 23
    assert run("run", "--set", tmp_path / "nowhere").exit_code == 20


def test_a_report_is_plain_json(tmp_path: Path) -> None:
    """E11: the report carries data hash, fingerprint, settings, versions, seed and every query's values."""
    report = json.loads(report_bytes(made(GOOD).report))
    assert report["schema"] == "citewell-eval-1"
    assert report["decision"] == "GO"
    assert report["dataset_hash"]
    assert report["model"]["fingerprint"] == "made-1"
    assert {"fusion_k", "fusion_lexical_weight"} <= report["settings"].keys()
    assert {"python", "ir-measures"} <= report["versions"].keys()
    assert isinstance(report["seed"], int)
    assert len(report["sets"][0]["per_query"]["hybrid"]["R@8"]) == 20
    assert datetime.fromisoformat(report["created_at"]) <= datetime.now(UTC)


def test_discordant_queries_show_both_rankings() -> None:
    """E7: every query on which hybrid and lexical differ is listed with both rankings."""
    one = made([True, False, True], [False, False, True]).report.sets[0]
    (discordant,) = one.discordant
    assert discordant.query_id == "q0"
    assert [place.relevant for place in discordant.rankings["hybrid"]] == [False, True]
    assert [place.name for place in discordant.rankings["lexical"]] == ["other", "another"]


def test_nothing_turns_the_flag(tmp_path: Path) -> None:
    """E3: no module of the evaluation names the flag's control."""
    for path in (Path(__file__).parents[2] / "eval").glob("*.py"):
        assert "FlagControl" not in path.read_text()
        assert "set_flag" not in path.read_text()
