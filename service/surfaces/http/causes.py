"""Why something failed, as a log may say it: what kind of errors they were, and no text that a caller sent."""

from collections.abc import Iterator
from typing import Final

MOST: Final = 6  # causes of causes
MOST_CHARS: Final = 200
# Kinds whose messages are about the machine: a connection, a disk, a lock, a time limit.
_PLAIN: Final = frozenset({"OperationalError", "InterfaceError", "OSError", "TimeoutError"})
# Kinds whose messages quote values; a driver may derive them from the kinds above.
_QUOTING: Final = frozenset({"DataError", "IntegrityError", "ValueError"})


def causes_of(error: BaseException) -> list[str]:
    """The chain behind an error, nearest first; each its kind, and what it says where that quotes nothing."""
    return [_told(cause) for cause, _ in zip(_chain(error), range(MOST), strict=False)]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    cause = _behind(error)
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = _behind(cause)


def _behind(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _told(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        kind = f"{kind} [{state}]"
    kinds = {base.__name__ for base in type(error).__mro__}
    said = str(error).partition("\n")[0].strip()[:MOST_CHARS]  # a statement would stand on the lines below
    return f"{kind}: {said}" if said and kinds & _PLAIN and not kinds & _QUOTING else kind
