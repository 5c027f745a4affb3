"""The status page: each part, how far the indexes are behind, and the flag."""

from dataclasses import dataclass
from typing import Final

from litestar import Response, get

from service.bootstrap import Application
from service.core.access import Access
from service.ingest.vector_status import VectorStatus
from service.ports.embedding import EncoderState
from service.ports.flag import FlagReading
from service.surfaces.http import health
from service.surfaces.http.access import FOR_PAGES, OPERATES, Asking
from service.surfaces.http.health import NotReadyOut, ReadyOut
from service.surfaces.http.pages.rendering import page
from service.surfaces.http.pages.visit import PageRequest, visit_of
from service.surfaces.http.pages.words import flag_told
from service.surfaces.http.parts import App
from service.surfaces.http.readiness import PartsOut
from service.surfaces.http.readings import behind, status_of_vectors

_GOOD: Final = frozenset({"ready"})
_IDLE: Final = frozenset({"off", "empty", "loading", "scanning"})


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of the service, its state and why it is not the best one."""

    name: str
    role: str
    state: str
    mood: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The workspace's lexical index. `lag` counts change-log entries; None where it cannot be known."""

    state: str
    documents: int
    rebuilds: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class StatusView:
    """Everything an operator looks at first.

    `vectors` are those of all workspaces; `is_told` is whether the visitor may know their numbers.
    """

    is_ready: bool
    parts: tuple[PartRow, ...]
    index: IndexRow | None
    vectors: VectorStatus | None
    is_told: bool
    vectors_mode: str
    model: str
    flag: FlagReading
    flag_meaning: str

    @property
    def index_mood(self) -> str:
        """Good while the index keeps up."""
        return (
            "idle"
            if self.index is None
            else "bad"
            if self.index.state != "ready"
            else _kept_up(self.index.lag)
        )

    @property
    def vector_mood(self) -> str:
        """Good while vectors keep up; off is no failure."""
        if self.vectors is None:
            return "idle" if self.vectors_mode == "off" else "bad"
        if self.vectors.failure or self.vectors.encoder_failure:
            return "bad"
        return _kept_up(self.vectors.pending) if self.is_told else "good"

    @property
    def vector_state(self) -> str:
        """What anybody may know of vectors that are switched on."""
        if self.vectors is None:
            return "unknown"
        if self.vectors.encoder is EncoderState.READY and not self.vectors.failure:
            return "behind" if self.vectors.pending and self.is_told else "ready"
        return "loading" if self.vectors.encoder is EncoderState.LOADING else "degraded"


def _kept_up(behind: int | None) -> str:
    return "good" if behind == 0 else "idle"


@get("/status", opt={**OPERATES, FOR_PAGES: True})
async def status_page(request: PageRequest, application: App, access: Asking) -> Response[str]:
    """The state of this process and of the visitor's workspace. It answers whatever the parts do."""
    answer: Response[ReadyOut] | Response[NotReadyOut] = await health.ready.fn(request=request)
    reading = await application.flag.reading(access.workspace)
    view = StatusView(
        is_ready=answer.content.ready,
        parts=_parts(answer.content.parts),
        index=await _index(application, access),
        vectors=await status_of_vectors(application),
        is_told=access.is_operator,
        vectors_mode=application.settings.vectors.value,
        model=application.vectors.model or application.settings.embedding_model,
        flag=reading,
        flag_meaning=flag_told(reading.state),
    )
    return page("status.html", visit_of(request, access), view)


def _parts(parts: PartsOut) -> tuple[PartRow, ...]:
    rows = (
        ("Store", "the SQL database: the truth", parts.store),
        ("Lexical index", "finds words and codes", parts.lexical),
        ("Vectors", "find what is meant; answers do without", parts.vectors),
    )
    return tuple(
        PartRow(name, role, part.state, _mood(part.state), part.reason or "") for name, role, part in rows
    )


def _mood(state: str) -> str:
    if state in _GOOD:
        return "good"
    return "idle" if state in _IDLE else "bad"


async def _index(application: Application, access: Access) -> IndexRow | None:
    """None while nobody has asked this process for the workspace's index."""
    status = application.lexical.status().get(access.workspace)
    if status is None:
        return None
    lag = await behind(application, access.workspace, status.applied)
    return IndexRow(status.state.value, status.documents, status.rebuilds, lag)
