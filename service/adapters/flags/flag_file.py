"""A flag held by a JSON file: ``{"default": "off", "workspaces": {"acme": "50%"}}``.

The file is read again when it has changed, so that an edit is a kill switch. A file that is broken or gone
means off, never an older value: whoever deletes it in an emergency gets what they want.
"""

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import Reason

from service.adapters.flags.providers import PROBLEM, Details, TextProvider, workspace_of
from service.core.rollout import OFF

MAX_BYTES = 1_000_000
SETTLED_S = 3.0  # an older edit cannot share its time stamps with a new one


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """The file's form."""

    default: str = str(OFF)
    workspaces: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a version of the file says, or why it says nothing."""

    document: _Document
    problem: str | None


_Signature = tuple[int, int, int, int]


class FileProvider(TextProvider):
    """Reads the file on the caller's thread; the flag asks it on one that nobody waits for."""

    def __init__(self, path: Path) -> None:
        super().__init__("file")
        self._path = path
        self._read: tuple[_Signature, _Contents] | None = None

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """What the file says now."""
        contents = self._contents()
        if contents.problem is not None:
            return Details(value=str(OFF), reason=Reason.ERROR, flag_metadata={PROBLEM: contents.problem})
        own = contents.document.workspaces.get(workspace_of(evaluation_context))
        if own is not None:
            return Details(value=own, reason=Reason.TARGETING_MATCH)
        return Details(value=contents.document.default, reason=Reason.STATIC)

    def _contents(self) -> _Contents:
        try:
            return self._current()
        except FileNotFoundError:
            return _Contents(_Document(), "the flag file is not there")
        except OSError as error:
            return _Contents(_Document(), f"the flag file cannot be read ({type(error).__name__})")

    def _current(self) -> _Contents:
        signature, settled = _signature(self._path)
        if self._read is not None and self._read[0] == signature:
            return self._read[1]
        contents = _parse(self._path)
        self._read = (signature, contents) if settled else None
        return contents


def _signature(path: Path) -> tuple[_Signature, bool]:
    """What an edit changes, and whether the next edit surely will: clocks of file systems tick coarsely.

    Taken before the file is read, so that an edit in between is seen at the next question. Raises OSError.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("no regular file")
    settled = time.time() - max(found.st_mtime, found.st_ctime) > SETTLED_S
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino), settled


def _parse(path: Path) -> _Contents:
    """Raises OSError."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            return _Contents(_Document(), f"the flag file is larger than {MAX_BYTES} bytes")
        raw = file.read(MAX_BYTES)
    try:
        return _Contents(msgspec.json.decode(raw, type=_Document), None)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return _Contents(_Document(), f"the flag file is broken: {error}"[:300])
