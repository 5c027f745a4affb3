"""What is read and written, and what is said of what cannot be read."""

from collections.abc import Callable
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.artifacts import write_all
from eval.beir import kind_of, read_dataset
from eval.errors import (
    MEANINGS,
    EmptyQrels,
    EvaluationError,
    MalformedLine,
    MissingFile,
    NoRelevantPassage,
    OverlappingIds,
    RunWithGaps,
)
from eval.sets import NamedSet, open_set
from eval.trec import escaped, once_each, qrels_text, read_qrels, read_run, run_text
from tests.eval.parts import QRELS, QUERIES, write_folder


def test_a_beir_folder(tmp_path: Path) -> None:
    """E5: a BEIR folder gives its queries, its judgements with their grades and its corpus."""
    dataset = read_dataset(write_folder(tmp_path / "set"), "set")
    assert dataset.queries == QUERIES
    assert dataset.qrels == QRELS
    assert dataset.corpus.path == tmp_path / "set" / "corpus.jsonl"


def test_the_project_s_own_form() -> None:
    """E5: the paraphrase set is judged over the product corpus, by section names, at least 120 queries."""
    dataset = open_set("paraphrase")
    assert dataset.corpus.name == "products"
    assert len(dataset.qrels) >= 120
    assert all("#" in name for scores in dataset.qrels.values() for name in scores)


@pytest.mark.parametrize("name", list(NamedSet))
def test_every_named_set_opens(name: str) -> None:
    """E5: every named set is judged, and every judged query has its text."""
    dataset = open_set(name)
    assert dataset.qrels.keys() <= dataset.queries.keys()
    assert not dataset.findings.unknown_queries


def test_every_query_of_the_paraphrase_set_diverges() -> None:
    """E8: at most 20 % of a paraphrase query's content words stand in the passage names it is judged by."""
    dataset = open_set("paraphrase")
    stop = set((Path(__file__).parents[2] / "eval/data/paraphrase/stopwords.txt").read_text().split())
    for query, scores in dataset.qrels.items():
        words = {w for w in dataset.queries[query].lower().split() if w not in stop}
        named = {w for name in scores for w in name.lower().replace("#", " ").replace("-", " ").split()}
        assert len(words & named) <= 0.2 * len(words), query


def test_tags(tmp_path: Path) -> None:
    """E8: tags come from a query's line, from <tag>_ids.txt, and from the form of the query."""
    folder = write_folder(tmp_path / "set")
    lines = (folder / "queries.jsonl").read_text().replace('"_id": "q1"', '"_id": "q1", "tags": ["floors"]')
    (folder / "queries.jsonl").write_text(lines)
    (folder / "long_passage_ids.txt").write_text("q2\n\nq3\n")
    tags = read_dataset(folder, "set").tags
    assert tags["q1"] == ("floors", "natural-language")
    assert tags["q2"] == ("long-passage",)
    assert tags["q4"] == ("exact-token",)
    assert kind_of("what is the NW-SL45/2 for") == ("exact-token",)


def test_reported_and_not_scored(tmp_path: Path) -> None:
    """E6: a judgement given twice counts once, and a judgement of an unknown query not at all; both are told."""
    folder = write_folder(tmp_path / "set")
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q1\td1\t0\nnobody\td1\t1\n")
    dataset = read_dataset(folder, "set")
    assert dataset.qrels["q1"] == {"d1": 1}
    assert dataset.findings.duplicate_judgements == ("q1 d1",)
    assert dataset.findings.unknown_queries == ("nobody",)


def test_the_digest_covers_every_file(tmp_path: Path) -> None:
    """E11: another query, judgement or passage is another data set."""
    seen = {read_dataset(write_folder(tmp_path / "a"), "set").digest}
    assert read_dataset(write_folder(tmp_path / "same"), "set").digest in seen
    for number, name in enumerate(("queries.jsonl", "qrels/test.tsv", "corpus.jsonl")):
        folder = write_folder(tmp_path / f"b{number}")
        (folder / name).write_text((folder / name).read_text() + "\n")
        seen.add(read_dataset(folder, "set").digest)
    assert len(seen) == 4


def spoil(name: str, text: str) -> Callable[[Path], object]:
    """Replace a file of a folder."""
    return lambda folder: (folder / name).write_text(text)


FAULTS: list[tuple[Callable[[Path], object], type[EvaluationError], str]] = [
    (lambda f: (f / "queries.jsonl").unlink(), MissingFile, "queries.jsonl"),
    (lambda f: (f / "corpus.jsonl").unlink(), MissingFile, "corpus.jsonl"),
    (spoil("queries.jsonl", '{"_id": "a", "text": "b"}\n{"_id": "c"\n'), MalformedLine, "queries.jsonl:2"),
    (spoil("queries.jsonl", '{"_id": "a"}\n'), MalformedLine, "queries.jsonl:1"),
    (spoil("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\n"), MalformedLine, "test.tsv:2"),
    (spoil("qrels/test.tsv", "q1\td1\tvery\n"), MalformedLine, "test.tsv:1"),
    (spoil("qrels/test.tsv", "query-id\tcorpus-id\tscore\n"), EmptyQrels, "test.tsv"),
    (spoil("qrels/test.tsv", "nobody\td1\t1\n"), EmptyQrels, "set"),
    (
        spoil("queries.jsonl", '{"_id":"a","text":"b"}\n{"_id":"a","text":"c"}\n'),
        OverlappingIds,
        "queries.jsonl:2",
    ),
    (spoil("qrels/test.tsv", "q1\td1\t0\nq2\td2\t1\n"), NoRelevantPassage, "q1"),
    (lambda f: (f / "qrels/test.tsv").write_bytes(b"q1\td1\t1\nq\xff\td1\t1\n"), MalformedLine, "test.tsv:2"),
]


@pytest.mark.parametrize(("spoiled", "kind", "named"), FAULTS)
def test_bad_folders(
    tmp_path: Path, spoiled: Callable[[Path], object], kind: type[EvaluationError], named: str
) -> None:
    """E5: every fault of a folder is an error of its own kind that names the file and the line."""
    folder = write_folder(tmp_path / "set")
    spoiled(folder)
    with pytest.raises(kind, match=named):
        read_dataset(folder, "set")


def test_every_kind_has_its_exit_status() -> None:
    """E1: no two kinds of error share an exit status, and none has GO's."""
    kinds: list[type[EvaluationError]] = [EvaluationError, *EvaluationError.__subclasses__()]
    statuses = {kind.exit_status for kind in kinds}
    assert len(statuses) == len(kinds)
    assert statuses <= MEANINGS.keys() - {0}


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda n: "%again" not in n
)


@given(run=st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=6), min_size=1, max_size=3))
def test_a_run_comes_back(run: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """E5: a run that was written is read back in the same order, whatever its names hold."""
    placed = {query: once_each(names) for query, names in run.items()}
    path = tmp_path_factory.mktemp("run") / "a.run"
    path.write_text(run_text(placed, "tag"), newline="")
    assert read_run(path, run) == placed


def test_standard_tools_open_runs_and_qrels(tmp_path: Path) -> None:
    """E5: ir_measures' own readers take run and qrels, and score them as the harness does."""
    (tmp_path / "a.run").write_text(run_text({"q 1": ["a#b c", "d"]}, "citewell"))
    (tmp_path / "a.qrels").write_text(qrels_text({"q 1": {"d": 1}}))
    run = ir_measures.read_trec_run(str(tmp_path / "a.run"))  # type: ignore[no-untyped-call] # untyped there
    qrels = ir_measures.read_trec_qrels(str(tmp_path / "a.qrels"))  # type: ignore[no-untyped-call]
    assert ir_measures.calc_aggregate([ir_measures.RR], qrels, run)[ir_measures.RR] == 0.5
    assert read_qrels(tmp_path / "a.qrels") == {"q 1": {"d": 1}}


def test_names_stay_different() -> None:
    """E5: escaping keeps white space out and different names different."""
    assert escaped("a b") == "a%20b"
    assert escaped("a%20b") == "a%2520b"


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        ("q Q0 a 1 3\n", MalformedLine, "a.run:1"),
        ("q Q0 a 1 3 t\nq Q0 b 3 2 t\n", RunWithGaps, "1 to 2"),
        ("q Q0 a 1 3 t\nq Q0 b 2 4 t\n", RunWithGaps, "rise"),
        ("q Q0 a 1 3 t\nq Q0 a 2 2 t\n", OverlappingIds, "a.run:2"),
        ("q Q0 a 1 much t\n", MalformedLine, "a.run:1"),
        ("p Q0 a 1 3 t\n", RunWithGaps, "no line for query"),
    ],
)
def test_bad_runs(tmp_path: Path, text: str, kind: type[EvaluationError], named: str) -> None:
    """E5: a run with gaps, with a repeated passage or with a damaged line is refused by name."""
    (tmp_path / "a.run").write_text(text)
    with pytest.raises(kind, match=named):
        read_run(tmp_path / "a.run", ["q"])


def test_nothing_half_written(tmp_path: Path) -> None:
    """E5: when one file cannot be written, none is, and no temporary file stays."""
    (tmp_path / "taken").write_text("a file where a folder is needed")
    with pytest.raises(EvaluationError):
        write_all(tmp_path, {"report.json": b"{}", "taken/run": b""})
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_unknown_set() -> None:
    """E1: a set that is neither a name nor a folder is named in the error with the names there are."""
    with pytest.raises(MissingFile, match="stale-trap"):
        open_set("no-such-set")
