"""What a run leaves behind: JSON, HTML, runs, qrels and the rankings for later sweeps."""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from eval.artifacts import write_all
from eval.dataset import Dataset, Qrels
from eval.errors import MalformedLine, MissingFile, OtherSchema
from eval.html_report import html_of
from eval.rankings import ARMS, QueryRankings, Rankings
from eval.report import REPORT_FILE, report_bytes
from eval.running import Measured
from eval.scoring import run_of
from eval.trec import once_each, qrels_text, run_text
from service.core.fusion import FusionSettings

KEPT_SCHEMA: Final = "citewell-rankings-1"
KEPT_FILE: Final = "rankings.json.gz"


class KeptSet(msgspec.Struct, frozen=True):
    """One set's judgements and rankings, enough to fuse and score again."""

    name: str
    dataset_hash: str
    qrels: dict[str, dict[str, int]]
    queries: dict[str, QueryRankings]


class Kept(msgspec.Struct, frozen=True):
    """The rankings of a run."""

    schema: str
    model: str
    fusion: FusionSettings
    sets: list[KeptSet]


def write_outputs(measured: Measured, folder: Path) -> None:
    """All files of a run. Raises EvaluationError, and then nothing was changed."""
    files = {
        REPORT_FILE: report_bytes(measured.report),
        "report.html": html_of(measured.report).encode(),
        KEPT_FILE: kept_bytes(measured),
    }
    for dataset, rankings in zip(measured.datasets, measured.rankings, strict=True):
        files.update(_trec(dataset, rankings))
    write_all(folder, files)


def _trec(dataset: Dataset, rankings: Rankings) -> Mapping[str, bytes]:
    files = {f"runs/{dataset.name}.qrels": qrels_text(dataset.qrels).encode()}
    for arm in ARMS:
        run = {query: once_each(names) for query, names in run_of(rankings, arm).items()}
        files[f"runs/{dataset.name}.{arm.value}.run"] = run_text(run, f"citewell-{arm.value}").encode()
    return files


def kept_bytes(measured: Measured) -> bytes:
    """The rankings, compressed; equal for equal rankings."""
    sets = kept_sets(measured.datasets, measured.rankings)
    kept = Kept(KEPT_SCHEMA, measured.report.model.fingerprint, measured.rankings[0].fusion, sets)
    return gzip.compress(msgspec.json.encode(kept), compresslevel=6, mtime=0)


def kept_sets(datasets: Iterable[Dataset], rankings: Sequence[Rankings]) -> list[KeptSet]:
    """Sets with their rankings."""
    return [
        KeptSet(one.name, one.digest, plain(one.qrels), dict(ranked.queries))
        for one, ranked in zip(datasets, rankings, strict=True)
    ]


def plain(qrels: Qrels) -> dict[str, dict[str, int]]:
    """Judgements as plain dictionaries."""
    return {query: dict(scores) for query, scores in qrels.items()}


def read_kept(path: Path) -> Kept:
    """The rankings of an earlier run. Raises MissingFile, MalformedLine, OtherSchema."""
    place = path / KEPT_FILE if path.is_dir() else path
    try:
        raw = gzip.decompress(place.read_bytes())
        kept = msgspec.json.decode(raw, type=Kept)
    except FileNotFoundError as error:
        raise MissingFile(f"there are no rankings {place.name}") from error
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise MalformedLine.at(place, 1, f"no rankings of a run: {error}"[:300]) from error
    if kept.schema != KEPT_SCHEMA:
        raise OtherSchema(f"{place.name} has schema {kept.schema[:40]!r}; this version reads {KEPT_SCHEMA}")
    return kept
