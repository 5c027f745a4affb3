"""The vector side of the composition root: encoder, index, worker and arm, as the settings say.

Nothing of it is imported by a process whose vectors are switched off: torch alone costs a second and 200 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import ConfigurationError
from service.ingest.absent_encoder import AbsentEncoder
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import VectorWorker
from service.search.vector_arm import VectorArm
from service.settings import Settings, VectorMode

if TYPE_CHECKING:
    from embeddings.encoder_service import EncoderService
    from service.adapters.sql.engine import Engines
    from service.ports.embedding import Encoder, VectorLedger
    from service.ports.vectors import VectorIndex


@dataclass(frozen=True, slots=True)
class VectorParts:
    """What the vector arm is made of. Without vectors there is an arm that says so, and no worker."""

    arm: VectorArm
    worker: VectorWorker | None
    runner: VectorRunner | None
    encoder: EncoderService | None


@asynccontextmanager
async def vector_parts(settings: Settings, engines: Engines) -> AsyncIterator[VectorParts]:
    """The vector side, its model loading in the background. Raises ConfigurationError."""
    if settings.vectors is VectorMode.OFF:
        yield VectorParts(VectorArm(AbsentEncoder(), None, None), None, None, None)
        return
    ledger, service, encoder, index = _open(settings, engines)
    service.start()
    worker = VectorWorker(ledger, index, encoder, settings.embedding_model)
    runner = VectorRunner(worker) if settings.vectors is VectorMode.ON else None
    running = None if runner is None else asyncio.create_task(runner.run())
    try:
        yield VectorParts(VectorArm(encoder, index, ledger), worker, runner, service)
    finally:
        if runner is not None and running is not None:
            runner.stop()
            await running
            await worker.release()
        await service.close()
        await index.close()


def _open(settings: Settings, engines: Engines) -> tuple[VectorLedger, EncoderService, Encoder, VectorIndex]:
    try:
        from embeddings.encoder_service import EncoderService  # noqa: PLC0415 - see the module's docstring
        from embeddings.encoder_settings import (  # noqa: PLC0415
            Backend,
            EncoderSettings,
            HubAccess,
            Precision,
            ServiceLimits,
        )
        from embeddings.errors import InvalidEncoderSettings  # noqa: PLC0415
        from service.adapters.encoder import ServiceEncoder  # noqa: PLC0415
        from service.adapters.sql.ledger import SqlVectorLedger  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "vectors need the extra packages: pip install 'citewell[embeddings]', or CITEWELL_VECTORS=off"
        ) from error
    try:
        chosen = EncoderSettings(
            model=settings.embedding_model,
            revision=settings.embedding_revision or None,
            backend=Backend(settings.embedding_backend),
            precision=Precision(settings.embedding_precision),
            threads=settings.embedding_threads,
            hub=HubAccess.ALLOWED if settings.embedding_hub else HubAccess.NEVER,
        )
    except (InvalidEncoderSettings, ValueError) as error:
        raise ConfigurationError(str(error)) from error
    service = EncoderService.of(chosen, ServiceLimits(cached_queries=settings.embedding_cached_queries))
    ledger = SqlVectorLedger(engines, settings.embedding_cache_dtype)
    return ledger, service, ServiceEncoder(service), _index(settings)


def _index(settings: Settings) -> VectorIndex:
    if settings.qdrant_url:
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
        return ServerVectorIndex(
            connect(server),
            CollectionSettings(shards=settings.qdrant_shards, replicas=settings.qdrant_replicas),
        )
    from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex  # noqa: PLC0415
    from service.adapters.vectors.qdrant_edge.settings import EdgeSettings  # noqa: PLC0415

    return EdgeVectorIndex(EdgeSettings(settings.data_dir / "vectors"))
