"""Who gets the vector arm: the flag's states, and the one decision taken from them."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from service.errors import InvalidInput
from service.model import Workspace

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%")
BUCKETS = 10_000


class FlagKind(StrEnum):
    """The flag's four kinds of state."""

    OFF = "off"
    SHADOW = "shadow"
    PERCENT = "percent"
    ON = "on"


@dataclass(frozen=True, slots=True)
class FlagState:
    """A state of the flag; `percent` counts for the kind PERCENT only."""

    kind: FlagKind
    percent: float = 0.0

    def __str__(self) -> str:
        """The form in which it is set and shown: off, shadow, 12.5%, on."""
        return f"{self.percent:g}%" if self.kind is FlagKind.PERCENT else self.kind.value


OFF = FlagState(FlagKind.OFF)


class RolloutDecision(StrEnum):
    """What a request does with the vector arm."""

    OFF = "off"
    SHADOW = "shadow"
    NOT_IN_ROLLOUT = "not_in_rollout"
    RUN = "run"


def parse_flag(text: str) -> FlagState:
    """off, shadow, on or a percentage such as 12.5%. Raises InvalidInput."""
    word = text.strip().lower()
    if word in (FlagKind.OFF, FlagKind.SHADOW, FlagKind.ON):
        return FlagState(FlagKind(word))
    match = _PERCENT.fullmatch(word)
    if match is None or float(match.group(1)) > 100.0:
        raise InvalidInput("the flag is off, shadow, on or a percentage such as 12.5%", field="flag")
    return FlagState(FlagKind.PERCENT, float(match.group(1)))


def decide_rollout(state: FlagState, workspace: Workspace, caller: str) -> RolloutDecision:
    """The same workspace and caller always get the same answer, and a larger percentage keeps whom it had."""
    match state.kind:
        case FlagKind.OFF:
            return RolloutDecision.OFF
        case FlagKind.SHADOW:
            return RolloutDecision.SHADOW
        case FlagKind.ON:
            return RolloutDecision.RUN
        case FlagKind.PERCENT:
            inside = bucket(workspace, caller) < state.percent * BUCKETS / 100.0
            return RolloutDecision.RUN if inside else RolloutDecision.NOT_IN_ROLLOUT


def bucket(workspace: Workspace, caller: str) -> int:
    """A stable number from 0 to BUCKETS - 1."""
    name = f"{len(workspace)}:{workspace}{caller}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % BUCKETS
