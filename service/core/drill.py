"""Drills: an authorised order to see what callers get when the vector arm fails."""

import re
from dataclasses import dataclass
from enum import StrEnum

from service.errors import InvalidInput

MAX_DELAY_S = 60.0
_SLOW = re.compile(r"slow:(\d{1,5})ms")


class DrillKind(StrEnum):
    """What a drill does to the vector arm."""

    OFF = "off"
    SLOW = "slow"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Drill:
    """An order to see the degraded answer. `delay` is in seconds and counts for SLOW."""

    kind: DrillKind
    delay: float = 0.0


def parse_drill(text: str) -> Drill:
    """off, error or slow:300ms. Raises InvalidInput."""
    word = text.strip().lower()
    if word in (DrillKind.OFF, DrillKind.ERROR):
        return Drill(DrillKind(word))
    match = _SLOW.fullmatch(word)
    if match is None or int(match.group(1)) > MAX_DELAY_S * 1_000:
        raise InvalidInput(
            f"force_arm is off, error or slow:300ms: whole milliseconds, at most {MAX_DELAY_S * 1_000:.0f}",
            field="force_arm",
        )
    return Drill(DrillKind.SLOW, int(match.group(1)) / 1_000)
