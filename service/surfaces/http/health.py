"""Whether the process lives, whether it can answer and why not, and what it counts."""

import asyncio
from typing import Final

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec

from service.bootstrap import Application
from service.errors import CitewellError, Unavailable
from service.ingest.vector_runner import VectorStatus
from service.model import Workspace
from service.ports.embedding import EncoderState
from service.surfaces.http.access import OPEN, OPERATES_ALL, Connection, admitted
from service.surfaces.http.lifecycle import draining_of
from service.surfaces.http.metric_families import QueueReading
from service.surfaces.http.parts import App, Counted
from service.surfaces.http.problems import PROBLEM_JSON, Problem, problem, responses
from service.surfaces.http.readings import PATIENCE_S, read_parts, status_of_vectors

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
async def ready(request: Connection) -> Response[ReadyOut] | Response[NotReadyOut]:
    """200 when the lexical arm can answer, from its index or from the rows; else 503. Both with each part.

    503 too before everything is open (`starting`) and from the moment the process is told to stop (`draining`).
    """
    application: Application | None = request.app.state.get("application")
    if application is None:
        return _not_ready(_all("starting", "the service is not open yet"), "starting")
    if draining_of(request.app.state).begun:
        return _not_ready(_all("draining", "the service is about to stop"), "draining")
    parts = await _parts(application, request)
    if parts.lexical.state in _ANSWERING:
        return Response(ReadyOut(ready=True, parts=parts))
    return _not_ready(parts, parts.lexical.reason or "not ready")


@get(
    "/metrics",
    tags=_TAGS,
    summary="Prometheus metrics",
    media_type=METRICS_TEXT,
    responses=responses(),
    opt=OPERATES_ALL,
)
async def metrics_page(application: App, metrics: Counted, state: State) -> bytes:
    """Requests, reads by how they were answered, how long the steps take, and the state of every part."""
    queue: QueueReading | None = state.get("gate")
    return metrics.page(await read_parts(application, queue))


def _not_ready(parts: PartsOut, why: str) -> Response[NotReadyOut]:
    told = problem(503, Unavailable.code, Unavailable.title, why)
    body = NotReadyOut(**msgspec.structs.asdict(told), ready=False, parts=parts)
    return Response(body, status_code=503, media_type=PROBLEM_JSON, headers={"Retry-After": "1"})


def _all(state: str, reason: str) -> PartsOut:
    part = _part(state, reason)
    return PartsOut(store=part, lexical=part, vectors=part)


async def _parts(application: Application, request: Connection) -> PartsOut:
    """What each part says of itself. Reasons are fixed texts: what a library says may name a path."""
    workspace = Workspace(application.settings.workspace)
    status = application.lexical.status().get(workspace)
    has_index = status is None or status.applied is not None  # an index nobody asked for opens when asked for
    bound = application.settings.scan_bound
    try:
        async with asyncio.timeout(PATIENCE_S), application.store.snapshot() as snapshot:
            is_small = has_index or await snapshot.count_scorable(workspace, bound + 1) <= bound
    except (Unavailable, TimeoutError):
        return _all("unavailable", "the store does not answer")
    vectors = await _vectors(application, request)
    if status is None or has_index:
        return PartsOut(store=_part("ready"), lexical=_part("ready"), vectors=vectors)
    why = f"the index is {status.state.value}"
    if is_small:
        scanning = _part("scanning", f"{why}; the rows are read instead")
        return PartsOut(store=_part("ready"), lexical=scanning, vectors=vectors)
    unavailable = _part("unavailable", f"{why}; the rows are too many to read")
    return PartsOut(store=_part("ready"), lexical=unavailable, vectors=vectors)


async def _vectors(application: Application, request: Connection) -> PartOut:
    """The vector arm's state. It never decides readiness: without it answers are lexical."""
    status = await status_of_vectors(application)
    if status is None:
        return _part("off")
    match status.encoder:
        case EncoderState.READY if status.collection is None:
            return _part("empty", "there are no vectors yet")
        case EncoderState.READY if status.failure is None:
            return _part("ready", await _how_far_behind(status, request))
        case EncoderState.READY:
            return _part("degraded", "the vector store does not answer")
        case EncoderState.LOADING:
            return _part("loading", "the model is being loaded")
        case _:
            return _part("unavailable", "the model cannot be had")


async def _how_far_behind(status: VectorStatus, request: Connection) -> str | None:
    """How many changes, for an operator; that there are some, for everybody else: it is who wrote them."""
    if not status.pending:
        return None
    return f"{status.pending} changes behind" if await _is_operator(request) else "behind"


async def _is_operator(request: Connection) -> bool:
    """Whether the probe brings a key that may operate, or needs none. Never raises: a probe is no login."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return (await admitted(request)).is_operator
    except (CitewellError, TimeoutError):
        return False


def _part(state: str, reason: str | None = None) -> PartOut:
    return PartOut(state=state, reason=reason)
