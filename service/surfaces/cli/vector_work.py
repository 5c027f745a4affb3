"""What the commands of `citewell vectors` do, over parts that are open for as long as they run."""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from service.bootstrap import open_store
from service.errors import Unavailable
from service.ingest.migration import Migration, migrate
from service.ingest.reconcile import Comparison, Reconciliation, compare, reconcile
from service.ingest.store_pointer import repair_pointer
from service.ingest.vector_collections import (
    caught_up,
    drop_collection,
    own_collection,
    rebuild_collection,
)
from service.ingest.vector_reporting import noted, reporting
from service.ingest.vector_runner import VectorRunner
from service.ingest.vector_status import VectorStatus, active_collection, vector_status
from service.ingest.vectors import VectorWorker, WorkerCounters
from service.ports.embedding import EncoderFailed, EncoderState, KnownCollection
from service.ports.vector_reports import VectorReports
from service.ports.vectors import VectorStoreError
from service.settings import Settings, VectorMode
from service.surfaces.cli.terminal import tell
from service.vector_parts import (
    deployment_of,
    log_difference,
    open_encoder,
    open_index,
    open_ledger,
    open_reports,
    pointing,
)

MODEL_PATIENCE_S = 600.0  # a first load may fetch the model
POLL_S = 0.1


async def status(settings: Settings) -> tuple[VectorStatus, list[KnownCollection]]:
    """How far the index is; rows and points are compared for it. No model is loaded."""
    without = settings.model_copy(update={"vectors": VectorMode.READ})
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings))
        index = open_index(without, await deployment_of(without, store.engines))
        stack.push_async_callback(index.close)
        service, encoder = open_encoder(without, settings.embedding_model)
        stack.push_async_callback(service.close)
        ledger, reports = open_ledger(without, store.engines), open_reports(store.engines)
        working = VectorWorker(ledger, index, encoder, settings.embedding_model)
        compared = await _compared(working)
        if compared is not None:
            await reports.note_comparison(noted(compared))
        found = await vector_status(working, None, compared, reports)
        return found, list(await ledger.collections())


async def sync(settings: Settings) -> WorkerCounters:
    """Follow the log to its end. Raises Conflict, Unavailable with what stood in the way."""
    async with _ready_worker(settings, settings.embedding_model) as working:
        await caught_up(working)
        return working.counters


async def work(settings: Settings) -> None:
    """Follow the log until SIGINT or SIGTERM. A model that cannot be had is waited for."""
    async with _worker(settings, settings.embedding_model) as working:
        runner = VectorRunner(working, tell=log_difference)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, runner.stop)
        tell("following the change log (Ctrl-C stops)")
        async with _reports(settings) as reports, reporting(runner, reports), pointing(working):
            await runner.run()


async def reconciled(settings: Settings, *, repair: bool) -> Reconciliation:
    """Compare by id, and repair. Raises Conflict, Unavailable before anything is repaired."""
    async with _ready_worker(settings, settings.embedding_model) as working:
        collection = await own_collection(working)
        found = await reconcile(working, collection, repair=repair)
        if repair:  # what is kept of the last comparison would still tell of what is repaired
            await repair_pointer(working.ledger, working.index)
            async with _reports(settings) as reports:
                await reports.note_comparison(noted(await compare(working, collection)))
        return found


async def rebuilt(settings: Settings) -> WorkerCounters:
    """Fill the collection anew. Raises Conflict, Unavailable before anything is dropped."""
    async with _ready_worker(settings, settings.embedding_model) as working:
        await rebuild_collection(working)
        return working.counters


async def migrated(settings: Settings, model: str) -> Migration:
    """Change the model. Raises MigrationRefused, Unavailable: then the old one goes on serving."""
    async with _ready_worker(settings, model) as working:
        return await migrate(working)


async def dropped(settings: Settings, name: str) -> None:
    """Remove a collection that does not serve. Raises NotFound, Conflict, Unavailable."""
    async with open_store(settings) as store:
        index = open_index(settings, await deployment_of(settings, store.engines))
        try:
            await drop_collection(open_ledger(settings, store.engines), index, name, uuid.uuid4().hex)
        finally:
            await index.close()


@asynccontextmanager
async def _worker(settings: Settings, model: str) -> AsyncIterator[VectorWorker]:
    """A worker whose model is not loaded yet. Raises ConfigurationError, Unavailable for an ill encoder."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings))
        index = open_index(settings, await deployment_of(settings, store.engines))
        stack.push_async_callback(index.close)
        service, encoder = open_encoder(settings, model)
        stack.push_async_callback(service.close)
        working = VectorWorker(open_ledger(settings, store.engines), index, encoder, model)
        stack.push_async_callback(working.release)
        service.start()
        try:
            yield working
        except EncoderFailed as error:
            raise Unavailable(f"the model {model} cannot encode: {error}") from error


@asynccontextmanager
async def _ready_worker(settings: Settings, model: str) -> AsyncIterator[VectorWorker]:
    """A worker with its model. Raises Unavailable with the reason when it cannot be had."""
    async with _worker(settings, model) as working:
        until = time.monotonic() + MODEL_PATIENCE_S
        while working.encoder.state is not EncoderState.READY:
            if working.encoder.state is EncoderState.FAILED or time.monotonic() > until:
                raise Unavailable(f"the model {model} cannot be loaded: {working.encoder.failure}")
            await asyncio.sleep(POLL_S)
        yield working


@asynccontextmanager
async def _reports(settings: Settings) -> AsyncIterator[VectorReports]:
    """On connections of their own: a worker that waits for the database is heard of all the same."""
    async with open_store(settings) as store:
        yield open_reports(store.engines)


async def _compared(working: VectorWorker) -> Comparison | None:
    """Rows and points of the collection that serves, compared now; None where the index does not answer."""
    collection = active_collection(await working.ledger.collections())
    try:
        return None if collection is None else await compare(working, collection)
    except VectorStoreError:
        return None
