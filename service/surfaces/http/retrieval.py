"""The three ways to retrieve, and the two shapes that a selection's passages also come in."""

from dataclasses import dataclass
from typing import Annotated, Final

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.bootstrap import Application
from service.core.access import Access
from service.model import DEFAULT_LIMIT, MAX_LIMIT, ContentType, SelectionContext, Workspace
from service.search.request import (
    Answer,
    ByQuery,
    BySelection,
    BySystem,
    Explain,
    RetrieveOptions,
    Subject,
    View,
)
from service.surfaces import wire
from service.surfaces.envelope import RetrievalOut, retrieval_out
from service.surfaces.http.access import READS, Asking, Caller, Sender
from service.surfaces.http.access_log import note_retrieval
from service.surfaces.http.answers import SELECTION_PATH, EvidenceOut, HandOffOut, as_evidence, as_hand_off
from service.surfaces.http.bodies import RetrieveIn, SelectionIn, ViewName, drill_of
from service.surfaces.http.metrics import Metrics
from service.surfaces.http.parts import App, Counted
from service.surfaces.http.problems import responses
from service.surfaces.http.requests import limit_of

EVIDENCE_PATH: Final = "/v1/selection/evidence"
HAND_OFF_PATH: Final = "/v1/selection/hand-off"
_TAGS: Final = ["retrieval"]

# Read as text and checked here: the framework's own reading would take 8.0 and 1e1 for whole numbers.
LimitText = Annotated[
    str, QueryParameter(schema_extra={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 8})
]
ContentTypeText = Annotated[
    str | None, QueryParameter(schema_extra={"enum": [kind.value for kind in ContentType]})
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request and the answer to it."""

    subject: Subject
    options: RetrieveOptions
    answer: Answer


@post(
    "/v1/retrieve",
    status_code=200,
    tags=_TAGS,
    summary="Retrieve by free text",
    responses=responses(413, 415),
    opt=READS,
)
async def retrieve(
    data: JSONBody[RetrieveIn], application: App, access: Asking, metrics: Counted, caller: Caller
) -> RetrievalOut:
    """The live passages that answer a text, best first. A miss is an empty list."""
    options = data.options(access, caller)
    return _page(application, await _ask(application, metrics, ByQuery(data.query), options))


@get(
    "/v1/systems/{system_id:str}/passages",
    tags=_TAGS,
    summary="Retrieve by system",
    responses=responses(),
    opt=READS,
)
async def system_passages(
    application: App,
    access: Asking,
    metrics: Counted,
    caller: Caller,
    system_id: FromPath[str],
    limit: LimitText = str(DEFAULT_LIMIT),
    content_type: ContentTypeText = None,
    cursor: FromQuery[str | None] = None,
    view: FromQuery[ViewName] = "brief",
    explain: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter has a name
    force_arm: FromQuery[str | None] = None,
) -> RetrievalOut:
    """The live passages about a system, retired or not. An unknown system is an empty list."""
    options = RetrieveOptions(
        access.workspace,
        limit=limit_of(limit),
        content_type=wire.content_type(content_type),
        cursor=cursor,
        view=View(view),
        explain=Explain.ON if explain else Explain.OFF,
        caller=caller.name,
        drill=drill_of(force_arm, access),
        arrived=caller.arrived,
    )
    return _page(application, await _ask(application, metrics, BySystem(system_id), options))


@post(
    SELECTION_PATH,
    status_code=200,
    tags=_TAGS,
    summary="Retrieve by selection",
    responses=responses(413, 415),
    opt=READS,
)
async def selection_passages(
    data: JSONBody[SelectionIn], application: App, access: Asking, metrics: Counted, caller: Caller
) -> RetrievalOut:
    """The live passages about what a buyer chose. Unknown options count for nothing."""
    asked = await _select(application, access, metrics, data, caller)
    return _page(application, asked)


@post(
    EVIDENCE_PATH,
    status_code=200,
    tags=_TAGS,
    summary="A selection's evidence",
    responses=responses(413, 415),
    opt=READS,
)
async def selection_evidence(
    data: JSONBody[SelectionIn], application: App, access: Asking, metrics: Counted, caller: Caller
) -> EvidenceOut:
    """The selection's passages, each with its citation."""
    asked = await _select(application, access, metrics, data, caller)
    return as_evidence(_page(application, asked), asked.answer.results, EVIDENCE_PATH)


@post(
    HAND_OFF_PATH,
    status_code=200,
    tags=_TAGS,
    summary="A selection's hand-off",
    responses=responses(413, 415),
    opt=READS,
)
async def selection_hand_off(
    data: JSONBody[SelectionIn], application: App, access: Asking, metrics: Counted, caller: Caller
) -> HandOffOut:
    """The selection's passages and the documents they come from, CAD resources left out of the latter."""
    asked = await _select(application, access, metrics, data, caller)
    return as_hand_off(_page(application, asked), asked.answer.results, HAND_OFF_PATH)


async def _select(
    application: Application, access: Access, metrics: Metrics, data: SelectionIn, caller: Sender
) -> _Asked:
    subject = BySelection(SelectionContext(tuple(data.option_ids)))
    return await _ask(application, metrics, subject, data.options(access, caller))


async def _ask(
    application: Application, metrics: Metrics, subject: Subject, options: RetrieveOptions
) -> _Asked:
    answer = await application.retriever.retrieve(subject, options)
    metrics.retrieved(answer)
    note_retrieval(subject, answer)
    return _Asked(subject, options, answer)


def _page(application: Application, asked: _Asked) -> RetrievalOut:
    default = Workspace(application.settings.workspace)
    return retrieval_out(asked.answer, asked.subject, asked.options, default)
