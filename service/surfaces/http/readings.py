"""What the parts say of themselves, gathered for health checks and for Prometheus, in bounded time."""

import asyncio
from contextlib import suppress
from typing import Final

from service.bootstrap import Application
from service.errors import Unavailable
from service.ingest.vector_status import VectorStatus, vector_status
from service.model import Workspace
from service.surfaces.http.metric_families import IndexReading, QueueReading, Readings, VectorReadings

PATIENCE_S: Final = 2.0  # how long a health check waits for the store
VECTOR_PATIENCE_S: Final = 1.25  # for the vector store, within that: its silence is told as its own


async def read_parts(application: Application, queue: QueueReading | None) -> Readings:
    """Every part as it is now. Never raises: what does not answer in time is unknown."""
    status = await status_of_vectors(application)
    parts, lags = application.vectors, await _lags(application)
    return Readings(
        indexes=[
            IndexReading(
                workspace=shard.workspace,
                documents=shard.documents,
                rebuilds=shard.rebuilds,
                lag=lags.get(shard.workspace),
            )
            for shard in application.lexical.status().values()
        ],
        vectors=VectorReadings(
            status=status,
            worker=None if parts.runner is None or parts.worker is None else parts.worker.counters,
            encoder=None if parts.encoder is None else parts.encoder.reading,
            breakers=parts.arm.breakers,
            rounds=parts.arm.counters,
        ),
        steps=application.tracing.times.readings(),
        flag=application.flag.counters,
        shadow=application.shadow.counters,
        queue=queue,
    )


async def status_of_vectors(application: Application) -> VectorStatus | None:
    """How far vectors are; None where they are switched off or the store does not answer in time."""
    worker = application.vectors.worker
    if worker is None:
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            parts = application.vectors
            return await vector_status(
                worker, parts.runner, reports=parts.reports, patience=VECTOR_PATIENCE_S
            )
    except (Unavailable, TimeoutError):
        return None


async def _lags(application: Application) -> dict[Workspace, int]:
    """How far the open indexes are behind, as many as the store tells of in time."""
    lags: dict[Workspace, int] = {}
    with suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for shard in application.lexical.status().values():
                if shard.applied is not None:
                    lags[shard.workspace] = await application.store.behind(shard.workspace, shard.applied)
    return lags


async def behind(application: Application, workspace: Workspace, applied: int | None) -> int | None:
    """How many of a workspace's own changes its index lacks, or None while the store does not answer."""
    if applied is None:
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await application.store.behind(workspace, applied)
    except (Unavailable, TimeoutError):
        return None
