"""An evaluation instance: a citewell of its own, filled with a corpus, with every vector in place.

The instance is thrown away after the run: storing is cheap, and an instance that was kept could be of other
code or other data. Only embeddings are kept, in a citewell database of their own under the cache folder,
found by model fingerprint and text.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eval.corpora import load_corpus
from eval.dataset import Corpus
from eval.encoding import CachingEncoder, EncodingCost
from eval.errors import ArmDidNotRun
from eval.progress import Progress
from eval.rankings import BUDGET_S, QueryTerms
from service.bootstrap import application, open_store
from service.core.rollout import FlagKind, FlagState
from service.core.scoring import HEADING_BOOST, K1, TITLE_BOOST, weigh_terms
from service.core.staleness import is_stale
from service.core.tokenize import query_terms
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId, Workspace
from service.ports.embedding import EncoderState
from service.search.plan import Hybrid
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from service.settings import Settings, VectorMode
from service.vector_parts import open_encoder, open_index, open_ledger

if TYPE_CHECKING:
    from service.adapters.sql.store import SqlStore
    from service.bootstrap import Application
    from service.core.fusion import FusionSettings
    from service.ports.embedding import Encoder
    from service.ports.vectors import VectorIndex

LOAD_S: Final = 300.0  # for a model to be read from the disk, or fetched
_POLL_S: Final = 0.05


class AlwaysOn:
    """The flag of an evaluation, which names its arms anyway. Implements RolloutFlag."""

    async def state(self, workspace: Workspace) -> FlagState:
        """On."""
        return FlagState(FlagKind.ON)


@dataclass(slots=True)
class Instance:
    """A corpus ready to be asked. `fingerprint` names the model; `cost` is of this instance alone."""

    app: Application
    corpus: Corpus
    arm: VectorArm
    fingerprint: str
    cost: EncodingCost
    seconds_to_fill: float = 0.0
    _stale: dict[str, bool] = field(default_factory=dict)

    def retriever(self, fusion: FusionSettings) -> Retriever:
        """The production read path with these fusion settings."""
        hybrid = Hybrid(self.arm, AlwaysOn(), fusion, BUDGET_S)
        return Retriever(self.app.store, self.app.lexical, hybrid)

    def weigh(self, text: str) -> QueryTerms:
        """What a query's terms weigh in this corpus, by the index's own statistics."""
        terms = query_terms(text)
        view = self.app.lexical.latest(DEFAULT_WORKSPACE, [term.text for term in terms])
        if view is None:
            return QueryTerms(0.0, 0.0)
        weighed = weigh_terms(terms, view.statistics)
        mass = sum(weighted.idf for weighted in weighed if not weighted.term.standalone)
        return QueryTerms(mass, mass * (TITLE_BOOST + HEADING_BOOST + K1 + 1.0))

    async def names_of(self, item_id: str) -> frozenset[str]:
        """The names of an item's passages; empty for an item that is not there."""
        async with self.app.store.snapshot() as snapshot:
            item = await snapshot.item(DEFAULT_WORKSPACE, ItemId(item_id))
        passages = () if item is None else item.passages
        return frozenset(self.corpus.passage_name(item_id, passage.heading) for passage in passages)

    async def is_stale(self, item_id: str) -> bool:
        """Whether the rows say that the item is retired or superseded."""
        if item_id not in self._stale:
            async with self.app.store.snapshot() as snapshot:
                item = await snapshot.item(DEFAULT_WORKSPACE, ItemId(item_id))
            self._stale[item_id] = item is None or is_stale(item.retired_at, item.superseded_by)
        return self._stale[item_id]


@dataclass(frozen=True, slots=True)
class Laboratory:
    """One model with its kept embeddings, over which instances are opened."""

    model: str
    encoder: Encoder
    cache: SqlStore
    settings: Settings
    open_vectors: Callable[[Settings], VectorIndex] = open_index


@asynccontextmanager
async def open_laboratory(settings: Settings, cache_dir: Path, model: str) -> AsyncIterator[Laboratory]:
    """Load a model and open the kept embeddings.

    Raises ConfigurationError, ArmDidNotRun when the model cannot be loaded.
    """
    cache_settings = Settings(data_dir=cache_dir / "embeddings", database_url="", vectors=VectorMode.OFF)
    async with open_store(cache_settings) as cache:
        service, encoder = open_encoder(settings, model)
        service.start()
        try:
            await _loaded(encoder, model)
            yield Laboratory(model, encoder, cache, settings)
        finally:
            await service.close()


async def _loaded(encoder: Encoder, model: str) -> None:
    until = time.monotonic() + LOAD_S
    while encoder.state is EncoderState.LOADING and time.monotonic() < until:  # noqa: ASYNC110 - the port has no event
        await asyncio.sleep(_POLL_S)
    if encoder.state is not EncoderState.READY:
        raise ArmDidNotRun(f"the model {model} cannot be loaded: {encoder.failure or encoder.state.value}")


@asynccontextmanager
async def open_instance(
    laboratory: Laboratory, corpus: Corpus, progress: Progress | None = None
) -> AsyncIterator[Instance]:
    """Fill an instance and wait until both arms know every passage.

    Raises EvaluationError, ConfigurationError, VectorStoreError, EncoderFailed.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="citewell-eval-"))
        changed = {"data_dir": Path(folder), "database_url": "", "qdrant_url": "", "index_patience": 3_600.0}
        settings = laboratory.settings.model_copy(update=changed)
        app = await stack.enter_async_context(application(settings))
        began = time.perf_counter()
        await load_corpus(app, corpus)
        ledger = open_ledger(settings, app.store.engines)
        index = laboratory.open_vectors(settings)
        stack.push_async_callback(index.close)
        encoder = CachingEncoder(laboratory.encoder, open_ledger(settings, laboratory.cache.engines))
        worker = VectorWorker(ledger, index, encoder, laboratory.model)
        await _filled(worker, corpus, progress)
        yield Instance(
            app,
            corpus,
            VectorArm(encoder, index, ledger),
            encoder.fingerprint,
            encoder.cost,
            time.perf_counter() - began,
        )


async def _filled(worker: VectorWorker, corpus: Corpus, progress: Progress | None) -> None:
    head = await worker.ledger.head()
    while (outcome := await worker.step()) is StepOutcome.WORKED:
        if progress is not None:
            collection = await worker.collection()
            done = None if collection is None else await worker.ledger.progress(collection.name)
            progress(f"embed {corpus.name}", 0 if done is None else done.seq, head)
    if outcome is not StepOutcome.IDLE:
        raise ArmDidNotRun(f"the vectors of {corpus.name} could not be made: {outcome.value}")
    if worker.counters.parked:
        raise ArmDidNotRun(f"{worker.counters.parked} passages of {corpus.name} could not be embedded")
