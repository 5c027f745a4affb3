"""What a caller asks for, and what comes back."""

from dataclasses import dataclass
from enum import StrEnum

from service.core.drill import Drill
from service.core.tokenize import QueryTerm
from service.errors import InvalidLimit, QueryTooLong
from service.model import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    ContentType,
    Facet,
    ItemId,
    RetrievedPassage,
    SelectionContext,
    Workspace,
)

MAX_QUERY_CHARS = 200_000


class View(StrEnum):
    """How much of each passage is shown."""

    SUMMARY = "summary"  # the beginning of the text
    BRIEF = "brief"  # the whole passage
    FULL = "full"  # the passage and its neighbours in the document


class Explain(StrEnum):
    """Whether each hit says why it is where it is."""

    OFF = "off"
    ON = "on"


class Arms(StrEnum):
    """Which arms answer. Callers leave it to the flag; evaluation and shadow runs say which they want."""

    BY_FLAG = "by_flag"
    LEXICAL = "lexical"
    VECTOR = "vector"
    HYBRID = "hybrid"


class ArmState(StrEnum):
    """What became of an arm."""

    OFF = "off"
    RAN = "ran"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """The options every way of retrieving shares. Raises InvalidLimit.

    `arrived` is when the request came to the service (`time.monotonic()` seconds), which waiting for its turn and
    for its body may be long before it is answered; None where it is answered at once. `budget` is how many seconds
    after that the vector arm is done without; None: the setting.
    """

    workspace: Workspace
    limit: int = DEFAULT_LIMIT
    content_type: ContentType | None = None
    cursor: str | None = None
    view: View = View.BRIEF
    explain: Explain = Explain.OFF
    caller: str = ""  # whom a percentage rollout counts by, beside the workspace
    arms: Arms = Arms.BY_FLAG
    drill: Drill | None = None
    budget: float | None = None
    arrived: float | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that no page can have."""
        if isinstance(self.limit, bool) or not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidLimit(f"limit must be from 1 to {MAX_LIMIT}", field="limit")


@dataclass(frozen=True, slots=True)
class BySystem:
    """Passages about a system."""

    system_id: str


@dataclass(frozen=True, slots=True)
class BySelection:
    """Passages about what a buyer chose."""

    context: SelectionContext


@dataclass(frozen=True, slots=True)
class ByQuery:
    """Passages about a free text. Raises QueryTooLong."""

    query: str

    def __post_init__(self) -> None:
        """Refuse a text that is no query any more."""
        if len(self.query) > MAX_QUERY_CHARS:
            raise QueryTooLong(f"a query has at most {MAX_QUERY_CHARS} characters", field="query")


Subject = BySystem | BySelection | ByQuery


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A subject turned into what the arms look for.

    `boosts` and `facets` are of the items that accepted tags lift; `text` is what a vector arm would embed.
    """

    terms: tuple[QueryTerm, ...]
    text: str
    boosts: dict[ItemId, float]
    facets: dict[ItemId, tuple[Facet, ...]]


@dataclass(frozen=True, slots=True)
class LexicalArm:
    """How the lexical arm ran. `source` is `index`, or `scan` while the index is being repaired."""

    state: ArmState
    source: str


@dataclass(frozen=True, slots=True)
class VectorArm:
    """How the vector arm ran, and the reason when it did not."""

    state: ArmState
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One page of a ranking.

    `corpus_changed` is true on a page whose cursor is older than the corpus, `ranking_changed` on one whose
    cursor was issued by an arm that could not run this time; the page then goes on by rank.
    """

    results: tuple[RetrievedPassage, ...]
    has_more: bool
    next_cursor: str | None
    lexical: LexicalArm
    vector: VectorArm
    corpus_changed: bool = False
    ranking_changed: bool = False
