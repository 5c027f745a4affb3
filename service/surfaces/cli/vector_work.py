"""What the commands of `citewell vectors` do, over parts that are open for as long as they run."""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from service.bootstrap import open_store
from service.errors import NotFound, Unavailable
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
from service.ingest.vectors import StepOutcome, VectorWorker, WorkerCounters
from service.ports.embedding import EncoderFailed, EncoderState, KnownCollection
from service.ports.vector_reports import VectorReports
from service.ports.vectors import VectorStoreError
from service.settings import Settings
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

if TYPE_CHECKING:
    from embeddings.encoder_service import EncoderService

MODEL_PATIENCE_S = 600.0  # a first load may fetch the model
POLL_S = 0.1
_FOLLOWS = "following the change log"
_DUTIES = {
    StepOutcome.WORKED: _FOLLOWS,
    StepOutcome.IDLE: _FOLLOWS,
    StepOutcome.OTHER_WORKER: "standing by: another worker follows the change log",
    StepOutcome.OTHER_MODEL: "idle: another model's collection serves",
    StepOutcome.NO_MODEL: "waiting for the model",
}


async def status(settings: Settings) -> tuple[VectorStatus, list[KnownCollection]]:
    """How far the index is; rows and points are compared for it. No model is loaded."""
    async with _idle_worker(settings, settings.embedding_model) as working, _reports(settings) as reports:
        compared = await _compared(working)
        if compared is not None:
            await reports.note_comparison(noted(compared))
        found = await vector_status(working, None, compared, reports)
        return found, list(await working.ledger.collections())


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
        async with _reports(settings) as reports, reporting(runner, reports), pointing(working):
            running = asyncio.create_task(runner.run())
            await _tell_duties(runner, running)
            await running


async def _tell_duties(runner: VectorRunner, running: asyncio.Task[None]) -> None:
    """Say what the worker does, whenever that changes, until it ends."""
    tell("the worker runs (Ctrl-C stops)")
    said = ""
    while True:
        is_over = running.done()
        duty = said if runner.outcome is None else _DUTIES[runner.outcome]
        if duty != said:
            tell(duty)
        if is_over:
            return
        said = duty
        await asyncio.wait([running], timeout=POLL_S)


async def checked(settings: Settings) -> Reconciliation:
    """Compare the collection that serves by id, whichever model it is of: none is loaded. Raises NotFound."""
    async with _idle_worker(settings, settings.embedding_model) as working:
        collection = active_collection(await working.ledger.collections())
        if collection is None:
            raise NotFound("there are no vectors yet")
        return await reconcile(working, collection, repair=False)


async def reconciled(settings: Settings) -> Reconciliation:
    """Compare by id, and repair. Raises Conflict, Unavailable before anything is repaired."""
    async with _ready_worker(settings, settings.embedding_model) as working:
        collection = await own_collection(working)
        found = await reconcile(working, collection, repair=True)
        # What is kept of the last comparison would still tell of what is repaired.
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
async def _idle_worker(settings: Settings, model: str) -> AsyncIterator[VectorWorker]:
    """A worker that never encodes: its model is not loaded. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        yield (await _opened(stack, settings, model))[0]


async def _opened(
    stack: AsyncExitStack, settings: Settings, model: str
) -> tuple[VectorWorker, "EncoderService"]:
    store = await stack.enter_async_context(open_store(settings))
    index = open_index(settings, await deployment_of(settings, store.engines))
    stack.push_async_callback(index.close)
    service, encoder = open_encoder(settings, model)
    stack.push_async_callback(service.close)
    return VectorWorker(open_ledger(settings, store.engines), index, encoder, model), service


@asynccontextmanager
async def _worker(settings: Settings, model: str) -> AsyncIterator[VectorWorker]:
    """A worker whose model is not loaded yet. Raises ConfigurationError, Unavailable for an ill encoder."""
    async with AsyncExitStack() as stack:
        working, service = await _opened(stack, settings, model)
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
