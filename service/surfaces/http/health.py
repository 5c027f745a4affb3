"""Whether the process lives, whether it can answer and why not, and what it counts."""

import asyncio
from typing import Final

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec

from service.bootstrap import Application
from service.errors import CitewellError, Unavailable
from service.surfaces.http.access import OPEN, OPERATES_ALL, Connection, admitted
from service.surfaces.http.lifecycle import draining_of
from service.surfaces.http.metric_families import QueueReading
from service.surfaces.http.parts import App, Counted
from service.surfaces.http.problems import PROBLEM_JSON, Problem, problem, responses
from service.surfaces.http.readiness import DetailsOut, PartsOut, Readiness, all_parts
from service.surfaces.http.readings import PATIENCE_S, read_parts

METRICS_TEXT: Final = "text/plain; version=1.0.0"  # Prometheus' own; the framework adds the charset
_TAGS: Final = ["operations"]
_ANSWERING: Final = ("ready", "scanning")


class LiveOut(msgspec.Struct, kw_only=True):
    """The process answers."""

    state: str = "alive"


class ReadyOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The service can answer retrievals. `details` are for operators of every workspace."""

    ready: bool
    parts: PartsOut
    details: DetailsOut | None = None


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
    How far vectors are behind is told to operators of every workspace: it is who wrote.
    """
    application: Application | None = request.app.state.get("application")
    if application is None:
        return _not_ready(all_parts("starting", "the service is not open yet"), "starting")
    if draining_of(request.app.state).begun:
        return _not_ready(all_parts("draining", "the service is about to stop"), "draining")
    readiness: Readiness = request.app.state.readiness
    seen = await readiness.look(application)
    parts, details = seen.parts, None
    if seen.tells_more and await _is_operator(request):
        parts, details = seen.with_counts(), seen.details()
    if parts.lexical.state in _ANSWERING:
        return Response(ReadyOut(ready=True, parts=parts, details=details))
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


async def _is_operator(request: Connection) -> bool:
    """Whether the probe may know of every workspace. Never raises: a probe is no login."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return (await admitted(request)).is_operator
    except (CitewellError, TimeoutError):
        return False
