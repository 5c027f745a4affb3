"""A laboratory whose encoder fits on a page, a corpus of a few passages, and rankings made by hand."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval.beir import read_dataset
from eval.dataset import Corpus, CorpusKind, Dataset
from eval.instance import Laboratory
from eval.rankings import Hit, QueryRankings, QueryTerms, Rankings
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import open_store
from service.core.fusion import FusionSettings
from service.model import ItemId, Workspace
from service.ports.embedding import EncoderState
from service.settings import Settings, VectorMode

Float32Array = NDArray[np.float32]
DIMENSION = 64
SAME = {"sill": "threshold", "racket": "noise", "mend": "repair", "pane": "glass", "cost": "price"}
DOCUMENTS = {
    "d1": ("Floors > Flush threshold", "The threshold lies flush with the floor."),
    "d2": ("Sound", "Two panels keep the noise of the street out."),
    "d3": ("Care > Repair", "How to repair a bent hinge with a hexagon key."),
    "d4": ("Glass", "Laminated glass holds together when it breaks."),
    "d5": ("Price list", "The price of a wall with four leaves."),
    "d6": ("Codes", "Order code SL45 stands for the small line."),
    "d7": ("Codes of others", "Order code SL4500 stands for the large line."),
}
QUERIES = {
    "q1": "a sill without a step",
    "q2": "racket from traffic",
    "q3": "mend a bent hinge",
    "q4": "SL45",
    "q5": "what does a wall cost",
}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 2}, "q4": {"d6": 1}, "q5": {"d5": 1}}


class ToyEncoder:
    """A word is a dimension, and synonyms share one. Implements Encoder."""

    state = EncoderState.READY
    failure = None
    dimension = DIMENSION

    def __init__(self, fingerprint: str = "toy-1") -> None:
        self.fingerprint = fingerprint
        self.passages = 0

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """(64,) float32, unit length."""
        return _vector(text)

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """One window a text."""
        self.passages += len(texts)
        return [_vector(text)[None, :] for text in texts]


def _vector(text: str) -> Float32Array:
    row = np.zeros(DIMENSION, dtype=np.float32)
    row[0] = 0.1  # so that a text without words has a direction too
    for word in text.lower().replace(".", " ").split():
        name = SAME.get(word, word).encode()
        row[1 + int.from_bytes(hashlib.sha256(name).digest()[:4], "big") % (DIMENSION - 1)] += 1.0
    unit: Float32Array = row / np.linalg.norm(row)
    return unit


@asynccontextmanager
async def toy_laboratory(folder: Path, encoder: ToyEncoder | None = None) -> AsyncIterator[Laboratory]:
    """A laboratory with the toy encoder, its kept embeddings in the folder."""
    settings = Settings(data_dir=folder / "cache", database_url="", vectors=VectorMode.OFF, index_grace=0.2)
    async with open_store(settings) as cache:
        yield Laboratory("toy", encoder or ToyEncoder(), cache, settings, lambda _: MemoryVectorIndex())


def write_folder(
    folder: Path,
    documents: Mapping[str, tuple[str, str]] = DOCUMENTS,
    queries: Mapping[str, str] = QUERIES,
    qrels: Mapping[str, Mapping[str, int]] = QRELS,
) -> Path:
    """A BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": i, "title": title, "text": text}) for i, (title, text) in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    lines = [json.dumps({"_id": i, "text": text}) for i, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
    rows = [f"{q}\t{d}\t{s}" for q, scores in qrels.items() for d, s in scores.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    return folder


def toy_dataset(folder: Path) -> Dataset:
    """The folder's set as it is read."""
    return read_dataset(write_folder(folder / "toy"), "toy")


def made_set(name: str, queries: int, must_not_match: Mapping[str, frozenset[str]] | None = None) -> Dataset:
    """A set of so many queries, each with the one relevant passage `right-<number>`."""
    qrels = {f"q{n}": {f"right-{n}": 1} for n in range(queries)}
    return Dataset(
        name=name,
        corpus=Corpus("made", CorpusKind.BEIR, "made"),
        queries={query: f"the text of {query}" for query in qrels},
        qrels=qrels,
        digest=f"digest-of-{name}",
        must_not_match=must_not_match or {},
    )


def made_rankings(dataset: Dataset, lexical: Sequence[bool], hybrid: Sequence[bool]) -> Rankings:
    """Rankings that find each query's relevant passage at rank 2, or not at all."""
    queries = {
        query: QueryRankings(
            QueryTerms(1.0, 1.0), _ranking(n, lexical[n]), _ranking(n, lexical[n]), _ranking(n, hybrid[n])
        )
        for n, query in enumerate(dataset.qrels)
    }
    return Rankings(FusionSettings(), queries)


def _ranking(number: int, found: bool) -> tuple[Hit, ...]:  # noqa: FBT001 - a row of facts
    names = ["other", f"right-{number}" if found else "another"]
    return tuple(hit(name, score) for name, score in zip(names, (2.0, 1.0), strict=True))


def hit(name: str, score: float = 1.0) -> Hit:
    """A passage that is the whole of its item."""
    return Hit(ItemId(name), 0, name, score)
