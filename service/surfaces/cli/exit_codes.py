"""What the process's exit status says."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from service.errors import CitewellError, Conflict, NotFound, Unavailable
from service.ports.vectors import VectorStorageFull, VectorStoreTimeout, VectorStoreUnavailable

OK: Final = 0
PARTIAL: Final = 1  # some of what was asked for could not be done; each failure was reported
USAGE: Final = 2  # the command, its input or a setting is wrong: the same again cannot succeed
NOT_FOUND: Final = 3
CONFLICT: Final = 4
UNAVAILABLE: Final = 5  # the same again may succeed later
INTERNAL: Final = 70  # a defect of this program
INTERRUPTED: Final = 130  # stopped by Ctrl-C; what was reported as stored is stored
BROKEN_PIPE: Final = 141  # whoever read the output went away

MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        OK: "done",
        PARTIAL: "done in part: every failure was reported, the rest is stored",
        USAGE: "wrong command, input or setting",
        NOT_FOUND: "no such item or tag",
        CONFLICT: "contradicts what is stored",
        UNAVAILABLE: "temporarily unavailable: try again",
        INTERNAL: "a defect of citewell",
        INTERRUPTED: "stopped by Ctrl-C",
        BROKEN_PIPE: "the reader of the output went away",
    }
)


def exit_code(error: CitewellError) -> int:
    """The exit status of a command that an error ended."""
    match error:
        case NotFound():
            return NOT_FOUND
        case Conflict():
            return CONFLICT
        case Unavailable() | VectorStoreUnavailable() | VectorStoreTimeout() | VectorStorageFull():
            return UNAVAILABLE
        case _:
            return USAGE
