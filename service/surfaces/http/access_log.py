"""One line a request: who asked what kind of thing, how it ended, how long it took. Never what was asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import structlog

from service.core.access import Access
from service.search.request import Answer, ByQuery, Subject

_log = structlog.get_logger("citewell.access")

EVENT: Final = "request"
_ERRORS: Final = 400


@dataclass(slots=True)
class Notes:
    """What a handler knows of its request and the gate does not."""

    answer: Answer | None = None
    query: str | None = None
    code: str | None = None  # of the problem that the answer is


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that is over. `route` is the route's template; `reason` says why the gate cut it short."""

    method: str
    route: str
    status: int
    seconds: float
    request_id: str
    access: Access | None
    reason: str | None


_notes: ContextVar[Notes | None] = ContextVar("citewell_request_notes", default=None)


@contextmanager
def noting() -> Iterator[Notes]:
    """Collect what the handlers of one request note."""
    notes = Notes()
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_retrieval(subject: Subject, answer: Answer) -> None:
    """Note how a retrieval was answered, for its line; outside a request nothing happens."""
    notes = _notes.get()
    if notes is not None:
        notes.answer = answer
        notes.query = subject.query if isinstance(subject, ByQuery) else None


def note_code(code: str) -> None:
    """Note the code of the problem that the request is answered with; outside a request nothing happens."""
    notes = _notes.get()
    if notes is not None:
        notes.code = code


def write_line(finished: Finished, notes: Notes, *, quiet: bool, log_queries: bool) -> None:
    """Write the line; health checks, which are `quiet`, only where debug lines are wanted."""
    line: dict[str, object] = {
        "method": finished.method,
        "route": finished.route,
        "status": finished.status,
        "ms": round(finished.seconds * 1_000, 2),
        "request_id": finished.request_id,
    }
    if finished.access is not None:
        line |= {"workspace": finished.access.workspace, "key_id": finished.access.key_id}
    if finished.reason is not None:
        line["reason"] = finished.reason
    if notes.code is not None and finished.status >= _ERRORS:
        line["code"] = notes.code
    if notes.answer is not None:
        line |= {
            "lexical": notes.answer.lexical.source,
            "vector": notes.answer.vector.state.value,
            "vector_reason": notes.answer.vector.reason,
            "shown": len(notes.answer.results),
        }
    if log_queries and notes.query is not None:
        line["query"] = notes.query
    (_log.debug if quiet else _log.info)(EVENT, **line)
