"""The vector side of the composition root: encoder, index, worker and arm, as the settings say.

Nothing of it is imported by a process whose vectors are switched off: torch alone costs a second and 200 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from service.errors import CitewellError, ConfigurationError, Unavailable
from service.ingest.absent_encoder import AbsentEncoder
from service.ingest.migration import migrate
from service.ingest.reconcile import Comparison
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import VectorWorker
from service.ports.embedding import EncoderFailed
from service.ports.tracing import UNTRACED, Tracer
from service.search.vector_arm import VectorArm
from service.settings import Settings, VectorMode

if TYPE_CHECKING:
    from embeddings.encoder_service import EncoderService
    from service.adapters.sql.engine import Engines
    from service.ports.embedding import Encoder, VectorLedger
    from service.ports.vectors import VectorIndex


_log = structlog.get_logger(__name__)
CHANGE_RETRY_S = 5.0  # between two tries to build the next model's collection


@dataclass(frozen=True, slots=True)
class VectorParts:
    """What the vector arm is made of. Without vectors there is an arm that says so, and no worker."""

    arm: VectorArm
    worker: VectorWorker | None
    runner: VectorRunner | None
    encoder: EncoderService | None


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
        ledger, index = open_ledger(settings, engines), open_index(settings)
        stack.push_async_callback(index.close)
        service, encoder = open_encoder(settings, settings.embedding_model)
        stack.push_async_callback(service.close)
        service.start()
        arm = VectorArm(encoder, index, ledger)
        stack.push_async_callback(arm.close)
        worker = VectorWorker(ledger, index, encoder, settings.embedding_model, tracer=tracer)
        runner = None
        if settings.vectors is VectorMode.ON:
            runner = VectorRunner(worker, tell=log_difference)
            await stack.enter_async_context(_running(runner, worker))
            if settings.embedding_next_model:
                await stack.enter_async_context(_changing(settings, worker, arm))
        yield VectorParts(arm, worker, runner, service)


@asynccontextmanager
async def _running(runner: VectorRunner, worker: VectorWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await task
        with suppress(Unavailable):  # the lease ends by itself
            await worker.release()


@asynccontextmanager
async def _changing(settings: Settings, serving: VectorWorker, arm: VectorArm) -> AsyncIterator[None]:
    """Build the next model's collection beside the one that serves, then search with it, without a restart."""
    service, encoder = open_encoder(settings, settings.embedding_next_model)
    service.start()
    following = VectorWorker(
        serving.ledger, serving.index, encoder, settings.embedding_next_model, tracer=serving.tracer
    )
    runner = VectorRunner(following, tell=log_difference)
    task = asyncio.create_task(change_model(following, runner, lambda: arm.switch(encoder)))
    try:
        yield
    finally:
        runner.stop()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        with suppress(Unavailable):
            await following.release()
        await service.close()


async def change_model(worker: VectorWorker, runner: VectorRunner, switch: Callable[[], None]) -> None:
    """Wait for the model, migrate, switch, and follow the log with it. A failure is logged and tried again."""
    while True:
        try:
            await migrate(worker)
            break
        except (CitewellError, EncoderFailed) as error:
            if not isinstance(error, EncoderFailed) or worker.encoder.failure:
                _log.warning("model_change_waits", model=worker.model, reason=str(error))
            await asyncio.sleep(CHANGE_RETRY_S)
    switch()
    _log.info("model_changed", model=worker.model)
    await runner.run()


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


def open_index(settings: Settings) -> VectorIndex:
    """Qdrant Edge in the data directory, or the Qdrant server of the settings. Raises ConfigurationError."""
    with _extras():
        return _server_index(settings) if settings.qdrant_url else _edge_index(settings)


def _server_index(settings: Settings) -> VectorIndex:
    from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect  # noqa: PLC0415
    from service.adapters.vectors.qdrant_server.settings import (  # noqa: PLC0415
        CollectionSettings,
        ServerSettings,
        Transport,
    )

    server = ServerSettings(
        settings.qdrant_url,
        api_key=settings.qdrant_api_key.get_secret_value() or None,
        transport=Transport.GRPC if settings.qdrant_grpc else Transport.REST,
    )
    collections = CollectionSettings(shards=settings.qdrant_shards, replicas=settings.qdrant_replicas)
    return ServerVectorIndex(connect(server), collections)


def _edge_index(settings: Settings) -> VectorIndex:
    from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex  # noqa: PLC0415
    from service.adapters.vectors.qdrant_edge.settings import EdgeSettings  # noqa: PLC0415

    return EdgeVectorIndex(EdgeSettings(settings.data_dir / "vectors"))
