"""Whether the process lives, whether it can answer and why not, and what it counts."""

import asyncio
from typing import Final

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from service.bootstrap import Application
from service.errors import Unavailable
from service.ingest.vector_runner import VectorStatus, vector_status
from service.model import Workspace
from service.ports.embedding import EncoderState
from service.surfaces.http.access import OPEN, OPERATES
from service.surfaces.http.metrics import IndexReading
from service.surfaces.http.parts import App, Counted
from service.surfaces.http.problems import PROBLEM_JSON, Problem, problem, responses

PATIENCE_S: Final = 2.0  # how long a health check waits for the store
METRICS_TEXT: Final = "text/plain; version=1.0.0"  # Prometheus' own; the framework adds the charset
_TAGS: Final = ["operations"]
_ANSWERING: Final = ("ready", "scanning")


class LiveOut(msgspec.Struct, kw_only=True):
    """The process answers."""

    state: str = "alive"


class PartOut(msgspec.Struct, kw_only=True):
    """One part of the service: its state, and why it is not the best one."""

    state: str
    reason: str | None


class PartsOut(msgspec.Struct, kw_only=True):
    """Everything that a retrieval needs, and the vector arm, which it does not need."""

    store: PartOut
    lexical: PartOut
    vectors: PartOut


class ReadyOut(msgspec.Struct, kw_only=True):
    """The service can answer retrievals."""

    ready: bool
    parts: PartsOut


class NotReadyOut(Problem, kw_only=True):
    """The service cannot answer retrievals, and what is missing."""

    ready: bool
    parts: PartsOut


_NOT_READY: Final = {
    **responses(),
    503: ResponseSpec(
        NotReadyOut,
        description="Retrievals cannot be answered",
        media_type=PROBLEM_JSON,
        generate_examples=False,
    ),
}


@get(
    "/health/live",
    tags=_TAGS,
    summary="Is the process alive?",
    responses=responses(),
    opt=OPEN,
    security=[{}],
)
async def live() -> LiveOut:
    """The process answers, whatever its parts do."""
    return LiveOut()


@get(
    "/health/ready",
    tags=_TAGS,
    summary="Can retrievals be answered?",
    responses=_NOT_READY,
    opt=OPEN,
    security=[{}],
)
async def ready(application: App) -> Response[ReadyOut] | Response[NotReadyOut]:
    """200 when the lexical arm can answer, from its index or from the rows; else 503. Both with each part."""
    parts = await _parts(application)
    if parts.lexical.state in _ANSWERING:
        return Response(ReadyOut(ready=True, parts=parts))
    told = problem(503, Unavailable.code, Unavailable.title, parts.lexical.reason or "not ready")
    body = NotReadyOut(**msgspec.structs.asdict(told), ready=False, parts=parts)
    return Response(body, status_code=503, media_type=PROBLEM_JSON, headers={"Retry-After": "1"})


@get(
    "/metrics",
    tags=_TAGS,
    summary="Prometheus metrics",
    media_type=METRICS_TEXT,
    responses=responses(),
    opt=OPERATES,
)
async def metrics_page(application: App, metrics: Counted) -> bytes:
    """Requests, reads by how they were answered, and the state of the index."""
    head = await _head(application)
    return metrics.page(
        [
            IndexReading(
                workspace=status.workspace,
                documents=status.documents,
                rebuilds=status.rebuilds,
                lag=None if head is None or status.applied is None else max(0, head - status.applied),
            )
            for status in application.lexical.status().values()
        ],
        await _vector_status(application),
    )


async def _parts(application: Application) -> PartsOut:
    """What each part says of itself. Reasons are fixed texts: what a library says may name a path."""
    workspace = Workspace(application.settings.workspace)
    status = application.lexical.status().get(workspace)
    has_index = status is None or status.applied is not None  # an index nobody asked for opens when asked for
    bound = application.settings.scan_bound
    try:
        async with asyncio.timeout(PATIENCE_S), application.store.snapshot() as snapshot:
            is_small = has_index or await snapshot.count_scorable(workspace, bound + 1) <= bound
    except (Unavailable, TimeoutError):
        away = "the store does not answer"
        unknown = _part("unavailable", away)
        return PartsOut(store=unknown, lexical=unknown, vectors=unknown)
    vectors = await _vectors(application)
    if status is None or has_index:
        return PartsOut(store=_part("ready"), lexical=_part("ready"), vectors=vectors)
    why = f"the index is {status.state.value}"
    if is_small:
        scanning = _part("scanning", f"{why}; the rows are read instead")
        return PartsOut(store=_part("ready"), lexical=scanning, vectors=vectors)
    unavailable = _part("unavailable", f"{why}; the rows are too many to read")
    return PartsOut(store=_part("ready"), lexical=unavailable, vectors=vectors)


async def _vectors(application: Application) -> PartOut:
    """The vector arm's state. It never decides readiness: without it answers are lexical."""
    status = await _vector_status(application)
    if status is None:
        return _part("off")
    match status.encoder:
        case EncoderState.READY if status.collection is None:
            return _part("empty", "there are no vectors yet")
        case EncoderState.READY if status.failure is None:
            behind = f"{status.pending} changes behind" if status.pending else None
            return _part("ready", behind)
        case EncoderState.READY:
            return _part("degraded", "the vector store does not answer")
        case EncoderState.LOADING:
            return _part("loading", "the model is being loaded")
        case _:
            return _part("unavailable", "the model cannot be had")


async def _vector_status(application: Application) -> VectorStatus | None:
    """How far vectors are; None where they are switched off or the store does not answer in time."""
    worker = application.vectors.worker
    if worker is None:
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await vector_status(worker, application.vectors.runner)
    except (Unavailable, TimeoutError):
        return None


def _part(state: str, reason: str | None = None) -> PartOut:
    return PartOut(state=state, reason=reason)


async def _head(application: Application) -> int | None:
    """The store's newest sequence number, or None while it does not answer."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await application.store.head()
    except (Unavailable, TimeoutError):
        return None
