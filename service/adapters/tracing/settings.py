"""What tracing is told at the start."""

from dataclasses import dataclass
from enum import StrEnum


class QueryText(StrEnum):
    """Whether spans hold what callers ask."""

    HIDDEN = "hidden"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """`endpoint` is the OTLP/HTTP receiver's URL, with or without `/v1/traces`; empty: nothing is traced.

    `export_timeout` bounds one delivery and `close_timeout` the last one at the end, in seconds; `waiting` is
    how many spans are kept for a receiver that does not take them, before new ones are dropped.
    """

    endpoint: str = ""
    queries: QueryText = QueryText.HIDDEN
    version: str = ""
    export_timeout: float = 5.0
    close_timeout: float = 2.0
    export_every: float = 2.0
    waiting: int = 4_096
