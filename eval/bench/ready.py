"""An application with a vector arm whose encoder costs nothing, for what is measured without encoding.

Vectors are a seeded function of their text: a mixture in a space of few dimensions, carried into many and
roughened, as `eval.bench.vectors` draws them. So any process can say again which vector a text has.
"""

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings
from service.bootstrap import Application, application, fusion_settings
from service.core.embedding_text import embedding_text
from service.ingest.vectors import StepOutcome, VectorWorker, WorkerSettings
from service.model import DEFAULT_WORKSPACE, Capture, Workspace
from service.ports.embedding import EncoderState, VectorLedger
from service.ports.flag import RolloutFlag
from service.ports.vectors import CollectionName, VectorSearch, collection_name
from service.search.plan import Hybrid
from service.search.request import ArmState, ByQuery, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from service.settings import Settings
from service.vector_parts import open_ledger

LATENT = 32
CLUSTERS = 500
CHUNK = 400  # items whose scores are counted at once
GENEROUS_S = 60.0  # a budget that nothing on a loaded machine exceeds: no answer is cut short
FILLING = WorkerSettings(changes=1_000, page=2_048, batch=2_048, write_timeout=300.0)
Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Drawn:
    """Texts to (dimension,) unit vectors; the same for the same seed in any process."""

    dimension: int
    seed: int

    @cached_property
    def _space(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rng = np.random.default_rng(self.seed)
        centres = rng.standard_normal((CLUSTERS, LATENT))
        return centres, rng.standard_normal((LATENT, self.dimension)) / np.sqrt(LATENT)

    def rows(self, texts: Sequence[str]) -> Matrix:
        """(texts, dimension) float32 unit rows."""
        centres, carrier = self._space
        latent, rough = np.empty((len(texts), LATENT)), np.empty((len(texts), self.dimension))
        for place, text in enumerate(texts):
            number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
            rng = np.random.default_rng(number)
            latent[place] = centres[rng.integers(CLUSTERS)] + 0.7 * rng.standard_normal(LATENT)
            rough[place] = rng.standard_normal(self.dimension)
        rows = (latent @ carrier + 0.3 * rough).astype(np.float32)
        unit: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class ReadyEncoder:
    """Answers queries from what was drawn beforehand, as a cache of query vectors does. Implements Encoder."""

    state = EncoderState.READY
    failure = None

    def __init__(self, drawn: Drawn, queries: Sequence[str] = ()) -> None:
        self.fingerprint = f"ready-{drawn.dimension}-{drawn.seed}"
        self.dimension = drawn.dimension
        self._drawn = drawn
        self._ready: dict[str, Matrix] = dict(zip(queries, drawn.rows(queries), strict=True))

    async def encode_query(self, text: str, workspace: Workspace) -> Matrix:
        """The vector that was drawn for the text."""
        return self._ready[text]

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Matrix]:
        """One window a text."""
        return [row[None, :] for row in self._drawn.rows(texts)]


@dataclass(frozen=True, slots=True)
class House:
    """A real application, and the SQL side of its vectors."""

    app: Application
    ledger: VectorLedger

    def retriever(
        self, arm: VectorArm, flag: RolloutFlag | None = None, budget: float = GENEROUS_S
    ) -> Retriever:
        """The product's read path with this arm, fused as the settings say."""
        hybrid = Hybrid(arm, flag or self.app.flag, fusion_settings(self.app.settings), budget)
        return Retriever(self.app.store, self.app.lexical, hybrid)

    def arm(self, encoder: ReadyEncoder, index: VectorSearch) -> VectorArm:
        """A vector arm, its breaker closed."""
        return VectorArm(encoder, index, self.ledger)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[House]:
    """The application of a data folder, its flag on."""
    settings = Settings(data_dir=folder, database_url="", hybrid_retrieval="on")
    async with application(settings) as app:
        yield House(app, open_ledger(settings, app.store.engines))


@asynccontextmanager
async def edge(folder: Path, exact_points: int) -> AsyncIterator[EdgeVectorIndex]:
    """The embedded vector store of a data folder."""
    index = EdgeVectorIndex(EdgeSettings(folder / "vectors", exact_points=exact_points))
    try:
        yield index
    finally:
        await index.close()


async def follow(worker: VectorWorker) -> None:
    """Bring the worker's collection to the end of the log. Raises RuntimeError when it cannot be."""
    while (outcome := await worker.step()) is StepOutcome.WORKED:
        pass
    if outcome is not StepOutcome.IDLE or worker.counters.parked:
        raise RuntimeError(f"the vectors could not be made: {outcome.value}, {worker.counters}")


def nearest(
    drawn: Drawn, corpus: Iterable[Capture], asked: Sequence[str], depth: int
) -> list[list[tuple[str, int]]]:
    """Per query its `depth` nearest passages, best first: brute force, a chunk of items at a time."""
    wanted = drawn.rows(asked)
    best: list[list[tuple[float, tuple[str, int]]]] = [[] for _ in asked]
    for items in _chunks(corpus):
        names = [(str(item.item_id), one.seq) for item in items for one in item.passages]
        texts = [embedding_text(item.title, one.heading, one.text) for item in items for one in item.passages]
        scores = wanted @ drawn.rows(texts).T
        places = np.argsort(-scores, axis=1)[:, :depth]
        for query, row in enumerate(places):
            merged = [*best[query], *((float(scores[query, place]), names[place]) for place in row)]
            best[query] = sorted(merged, reverse=True)[:depth]
    return [[name for _, name in each] for each in best]


def _chunks(corpus: Iterable[Capture]) -> Iterator[list[Capture]]:
    left = iter(corpus)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


def collection_of(encoder: ReadyEncoder) -> CollectionName:
    """The first collection of the encoder's vectors."""
    return collection_name(encoder.fingerprint)


async def ask(retriever: Retriever, text: str) -> ArmState:
    """One page of the default size; what became of its vector arm."""
    answer = await retriever.retrieve(ByQuery(text), RetrieveOptions(DEFAULT_WORKSPACE))
    return answer.vector.state
