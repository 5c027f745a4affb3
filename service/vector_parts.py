"""The vector side of the composition root: encoder, index, worker and arm, as the settings say.

Nothing of it is imported by a process whose vectors are switched off: torch alone costs a second and 200 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from service.adapters.sql.store import SqlStore
from service.adapters.vectors.qdrant_server.settings import (
    CollectionSettings,
    Deployment,
    Quantization,
    Residence,
    ServerSettings,
    Transport,
)
from service.errors import ConfigurationError, Unavailable
from service.ingest.absent_encoder import AbsentEncoder
from service.ingest.model_change import ModelChange
from service.ingest.reconcile import Comparison
from service.ingest.store_pointer import PointerKeeper
from service.ingest.vector_reporting import reporting
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import VectorWorker
from service.ports.tracing import UNTRACED, Tracer
from service.search.vector_arm import VectorArm
from service.settings import Settings, VectorMode

if TYPE_CHECKING:
    from embeddings.encoder_service import EncoderService
    from service.adapters.sql.engine import Engines
    from service.ports.embedding import Encoder, VectorLedger
    from service.ports.vector_reports import VectorReports
    from service.ports.vectors import VectorIndex


_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class VectorParts:
    """What the vector arm is made of. Without vectors there is an arm that says so, and no worker.

    All of it is of the model that this process searches with now: it changes when the model does.
    """

    arm: VectorArm
    worker: VectorWorker | None
    runner: VectorRunner | None
    encoder: EncoderService | None
    reports: VectorReports | None = None

    @property
    def model(self) -> str | None:
        """The model that this process searches with, as the settings name it."""
        return None if self.worker is None else self.worker.model

    def switch(self, runner: VectorRunner, encoder: EncoderService) -> None:
        """Search with the model of that runner's worker from the next request on."""
        self.arm.switch(runner.worker.encoder)
        self.worker, self.runner, self.encoder = runner.worker, runner, encoder


def preload_vectors(settings: Settings) -> None:
    """Import what the encoder needs before the event loop runs; nothing where vectors are switched off.

    Takes about five seconds. Raises ConfigurationError.
    """
    if settings.vectors is VectorMode.OFF:
        return
    with _extras():
        from embeddings.encoder_settings import Backend  # noqa: PLC0415
        from embeddings.preload import preload  # noqa: PLC0415
    preload(Backend(settings.embedding_backend))


@asynccontextmanager
async def vector_parts(
    settings: Settings, engines: Engines, tracer: Tracer = UNTRACED
) -> AsyncIterator[VectorParts]:
    """The vector side, its model loading in the background. Raises ConfigurationError."""
    if settings.vectors is VectorMode.OFF:
        yield VectorParts(VectorArm(AbsentEncoder(), None, None), None, None, None)
        return
    async with AsyncExitStack() as stack:
        ledger = open_ledger(settings, engines)
        index = open_index(settings, await deployment_of(settings, engines))
        stack.push_async_callback(index.close)
        service, encoder = open_encoder(settings, settings.embedding_model)
        stack.push_async_callback(service.close)
        service.start()
        arm = VectorArm(encoder, index, ledger)
        stack.push_async_callback(arm.close)
        worker = VectorWorker(ledger, index, encoder, settings.embedding_model, tracer=tracer)
        parts = VectorParts(arm, worker, None, service, open_reports(engines))
        if settings.vectors is VectorMode.ON:
            await stack.enter_async_context(_following(settings, parts, worker))
        yield parts


@asynccontextmanager
async def _following(settings: Settings, parts: VectorParts, worker: VectorWorker) -> AsyncIterator[None]:
    """The worker in this process, and where the settings say so the one that builds the next model's vectors."""
    parts.runner = runner = VectorRunner(worker, tell=log_difference)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_running(runner, worker))
        await stack.enter_async_context(pointing(worker))
        if parts.reports is not None:
            await stack.enter_async_context(reporting(runner, parts.reports))
        if settings.embedding_next_model:
            await stack.enter_async_context(_changing(settings, parts, worker))
        yield


@asynccontextmanager
async def _running(runner: VectorRunner, worker: VectorWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await task
        await _release(worker)


@asynccontextmanager
async def pointing(worker: VectorWorker) -> AsyncIterator[None]:
    """Keep the store's own pointer where SQL points for as long as the block lasts."""
    keeper = PointerKeeper(
        worker.ledger, worker.index, lambda reason: _log.warning("pointer_not_moved", reason=reason)
    )
    async with _in_background(keeper.run()):
        yield


@asynccontextmanager
async def _changing(settings: Settings, parts: VectorParts, serving: VectorWorker) -> AsyncIterator[None]:
    """Build the next model's collection beside the one that serves, then search with it, without a restart."""
    model = settings.embedding_next_model
    service, encoder = open_encoder(settings, model)
    following = VectorWorker(serving.ledger, serving.index, encoder, model, tracer=serving.tracer)
    runner = VectorRunner(following, tell=log_difference)

    def switch() -> None:
        parts.switch(runner, service)
        _log.info("model_changed", model=model)

    def tell(reason: str) -> None:
        _log.warning("model_change_waits", model=model, reason=reason)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        stack.push_async_callback(_release, following)
        service.start()
        await stack.enter_async_context(_in_background(ModelChange(runner, switch, tell).run()))
        if parts.reports is not None:
            await stack.enter_async_context(reporting(runner, parts.reports))
        yield


@asynccontextmanager
async def _in_background(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Work that never raises, cancelled at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _release(worker: VectorWorker) -> None:
    with suppress(Unavailable):  # the lease ends by itself
        await worker.release()


def log_difference(found: Comparison) -> None:
    """A difference that nothing explains is worth a warning, although it is being repaired."""
    _log.warning(
        "vectors_differ_from_rows", collection=found.collection, missing=found.missing, orphan=found.orphan
    )


def open_ledger(settings: Settings, engines: Engines) -> VectorLedger:
    """The SQL side of the vector index. Raises ConfigurationError."""
    with _extras():
        from service.adapters.sql.ledger import SqlVectorLedger  # noqa: PLC0415 - see the module's docstring
    return SqlVectorLedger(engines, settings.embedding_cache_dtype)


def open_reports(engines: Engines) -> VectorReports:
    """What the processes tell each other of the vector index."""
    from service.adapters.sql.vector_reports import SqlVectorReports  # noqa: PLC0415 - as its neighbours

    return SqlVectorReports(engines)


def open_encoder(settings: Settings, model: str) -> tuple[EncoderService, Encoder]:
    """An encoder of a model, not started. Raises ConfigurationError."""
    with _extras():
        from embeddings.encoder_service import EncoderService  # noqa: PLC0415
        from embeddings.encoder_settings import (  # noqa: PLC0415
            Backend,
            EncoderSettings,
            HubAccess,
            Precision,
            ServiceLimits,
        )
        from embeddings.errors import InvalidEncoderSettings  # noqa: PLC0415
        from service.adapters.encoder import ServiceEncoder  # noqa: PLC0415
    try:
        chosen = EncoderSettings(
            model=model,
            revision=settings.embedding_revision or None,
            backend=Backend(settings.embedding_backend),
            precision=Precision(settings.embedding_precision),
            threads=settings.embedding_threads,
            hub=HubAccess.ALLOWED if settings.embedding_hub else HubAccess.NEVER,
        )
    except InvalidEncoderSettings as error:
        raise ConfigurationError(error.detail) from error
    service = EncoderService.of(chosen, ServiceLimits(cached_queries=settings.embedding_cached_queries))
    return service, ServiceEncoder(service)


@contextmanager
def _extras() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "vectors need the extra packages: pip install 'citewell[embeddings]', or CITEWELL_VECTORS=off"
        ) from error


async def deployment_of(settings: Settings, engines: Engines) -> Deployment | None:
    """Whose collections a Qdrant server keeps for this database; None where there is no server."""
    if not settings.qdrant_url:
        return None
    ledger = open_ledger(settings, engines)
    seen = {one.name: await ledger.progress(one.name) for one in await ledger.collections()}
    return Deployment(
        await SqlStore(engines).database_id(),
        {name: progress.incarnation for name, progress in seen.items() if progress and progress.incarnation},
    )


def open_index(settings: Settings, deployment: Deployment | None = None) -> VectorIndex:
    """Qdrant Edge in the data directory, or the deployment's collections on the Qdrant server of the settings.

    Raises ConfigurationError, also for a server without a deployment: nothing would keep databases apart.
    """
    with _extras():
        if not settings.qdrant_url:
            return _edge_index(settings)
        if deployment is None:
            raise ConfigurationError("a Qdrant server holds the vectors of one database: name the deployment")
        return _server_index(settings, deployment)


def server_settings(settings: Settings) -> ServerSettings:
    """Where the Qdrant server is, as the settings say."""
    return ServerSettings(
        settings.qdrant_url,
        api_key=settings.qdrant_api_key.get_secret_value() or None,
        transport=Transport.GRPC if settings.qdrant_grpc else Transport.REST,
        grpc_port=settings.qdrant_grpc_port,
        authority=settings.qdrant_ca_file,
        longest_call_seconds=settings.qdrant_timeout,
    )


def collection_settings(settings: Settings, deployment: Deployment) -> CollectionSettings:
    """How a database's collections on a server are named, made and searched, as the settings say."""
    return CollectionSettings(
        prefix=settings.qdrant_prefix or deployment.prefix,
        deployment=deployment,
        links=settings.qdrant_hnsw_m,
        build_depth=settings.qdrant_hnsw_ef_construct,
        search_depth=settings.qdrant_hnsw_ef,
        quantization=Quantization.INT8 if settings.qdrant_quantization else Quantization.NONE,
        oversampling=settings.qdrant_oversampling,
        residence=Residence.DISK if settings.qdrant_on_disk else Residence.MEMORY,
        shards=settings.qdrant_shards,
        replicas=settings.qdrant_replicas,
    )


def _server_index(settings: Settings, deployment: Deployment) -> VectorIndex:
    from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect  # noqa: PLC0415

    try:
        client = connect(server_settings(settings))
    except OSError as error:
        raise ConfigurationError(
            f"CITEWELL_QDRANT_CA_FILE: no certificate can be read from it ({error.strerror or error})"
        ) from error
    return ServerVectorIndex(client, collection_settings(settings, deployment))


def _edge_index(settings: Settings) -> VectorIndex:
    from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex  # noqa: PLC0415
    from service.adapters.vectors.qdrant_edge.settings import EdgeSettings  # noqa: PLC0415

    return EdgeVectorIndex(EdgeSettings(settings.data_dir / "vectors"))
