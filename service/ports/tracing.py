"""Who is told how long the steps of a request take: a tracer, and the closed list of steps."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, TypeAlias

Attribute: TypeAlias = str | int | float


class Step(StrEnum):
    """A part of the work that is timed. Closed, so that a dashboard can name every one of them."""

    RETRIEVE = "retrieve"  # a whole read, as the use case sees it
    SNAPSHOT = "snapshot"  # a moment of SQL is fixed
    RESOLVE = "resolve"  # a subject becomes terms, a text and boosts
    INDEX_VIEW = "index_view"  # the lexical index is brought to that moment
    LEXICAL = "lexical"  # the whole lexical arm: its candidates, their rows and their order
    LEXICAL_CANDIDATES = "lexical_candidates"
    LOAD_ROWS = "load_rows"
    VECTOR = "vector"  # the vector arm's first round: it runs beside the lexical arm
    ENCODE = "encode"
    VECTOR_SEARCH = "vector_search"
    VECTOR_WAIT = "vector_wait"  # what the vector arm still took when the lexical arm was done
    FUSE = "fuse"  # rows of the vector arm's hits, further rounds and the blend
    LOAD_VECTOR_ROWS = "load_vector_rows"
    PAGE = "page"  # the cut, the texts and the cursor
    EXTRACT = "extract"  # a document becomes passages
    TRANSACTION = "transaction"  # a write, from waiting for its lock to its commit
    INDEX = "index"  # this process's index learns what was written
    WORKER_STEP = "worker_step"  # one batch of the change log goes into the vector index


class Span(Protocol):
    """One step while it lasts. Attributes are counts and reasons, never what a caller sent."""

    def note(self, name: str, value: Attribute) -> None:
        """Say something of the step."""
        ...

    def fail(self, reason: str) -> None:
        """The step fails, for a reason of a closed list. An exception that leaves it needs no such word."""
        ...

    def note_query(self, text: str) -> None:
        """What a caller asked. It is kept only where the operator has allowed it, and dropped elsewhere."""
        ...


class RequestSpan(Span, Protocol):
    """A whole request."""

    @property
    def trace_id(self) -> str | None:
        """32 hexadecimal digits, the caller's own where it sent one; None while nothing is traced."""
        ...

    def call(self, name: str) -> None:
        """Give the request its name, once it is known which route took it."""
        ...


class Tracer(Protocol):
    """Opens spans. A span opened within another one, also in a task started there, is its child."""

    def span(self, step: Step) -> AbstractContextManager[Span]:
        """A step from entry to exit; an exception passes through."""
        ...

    def request(self, name: str, carrier: Mapping[str, str]) -> AbstractContextManager[RequestSpan]:
        """A request; it goes on with the caller's trace where the carrier has a W3C `traceparent`."""
        ...


class _Nothing:
    """A span that nobody looks at. One serves for all. Implements RequestSpan."""

    __slots__ = ()

    @property
    def trace_id(self) -> str | None:
        """There is none."""
        return None

    def note(self, name: str, value: Attribute) -> None:
        """Forgotten."""

    def fail(self, reason: str) -> None:
        """Forgotten."""

    def note_query(self, text: str) -> None:
        """Forgotten."""

    def call(self, name: str) -> None:
        """Forgotten."""

    def __enter__(self) -> "_Nothing":
        """Begin nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End nothing."""


_NOTHING: Final = _Nothing()


class Untraced:
    """The tracer of whoever has none. Implements Tracer."""

    __slots__ = ()

    def span(self, step: Step) -> AbstractContextManager[Span]:
        """The same nothing each time."""
        return _NOTHING

    def request(self, name: str, carrier: Mapping[str, str]) -> AbstractContextManager[RequestSpan]:
        """The same nothing each time."""
        return _NOTHING


UNTRACED: Final = Untraced()
