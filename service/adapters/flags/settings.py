"""What the flag is told at its construction."""

from dataclasses import dataclass, field
from pathlib import Path

from service.ports.flag import FlagHolder


@dataclass(frozen=True, slots=True)
class FlagTiming:
    """Seconds. A state is used for `fresh`, counted from when it was asked for; then it is asked for again.

    A request waits `patience` for the holder, the first one of a workspace `first_patience`: connections are
    made then. When that was not enough, no request waits at all for `recovery`: what was known last counts,
    and the holder is asked in the background. A question without an answer is abandoned after `give_up`.
    """

    fresh: float = 1.0
    first_patience: float = 0.25
    patience: float = 0.05
    recovery: float = 5.0
    give_up: float = 5.0


PROMPT = FlagTiming()  # of a service
PATIENT = FlagTiming(fresh=0.0, first_patience=10.0, patience=10.0)  # a command has nobody else to serve


@dataclass(frozen=True, slots=True)
class FlagSettings:
    """`environment` is the value where the holder has none; `file` is the file holder's."""

    holder: FlagHolder = FlagHolder.STORE
    environment: str = "off"
    file: Path | None = None
    timing: FlagTiming = field(default_factory=FlagTiming)
