"""What follows when a shard's process ends. Pure."""

import signal
from collections import deque
from enum import Enum

from service.adapters.vectors.qdrant_edge.launch import Exit

CRASHES = 3
CRASH_WINDOW_SECONDS = 600.0

_SOMEBODY_ELSE = {Exit.CLEAN, Exit.BUSY, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT}


class Fate(Enum):
    """What to do before the process is started again."""

    RESTART = "restart"
    WAIT_FOR_ROOM = "wait for room"
    SET_ASIDE = "set aside"


class CrashRecord:
    """Crashes of one collection's processes that nobody caused from outside."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=CRASHES)

    def fate(self, code: int, *, room: bool, now: float) -> Fate:
        """Decide by the exit code (minus the signal's number), whether there is `room`, and the past.

        A shard that reports damage, or whose process crashes `CRASHES` times within the window, is set
        aside. Being killed counts for nothing (memory, an operator), and neither does anything that
        happens on a full file system: writing to a mapped file is fatal there.
        """
        if code == Exit.FULL or not room:
            return Fate.WAIT_FOR_ROOM
        if code == Exit.DAMAGED:
            return self._fresh_start()
        if code in _SOMEBODY_ELSE:
            return Fate.RESTART
        self._times.append(now)
        if len(self._times) == CRASHES and now - self._times[0] <= CRASH_WINDOW_SECONDS:
            return self._fresh_start()
        return Fate.RESTART

    def _fresh_start(self) -> Fate:
        self._times.clear()
        return Fate.SET_ASIDE


class Backoff:
    """Growing pauses between attempts, in seconds."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def pause(self) -> float:
        """The next pause."""
        pause = self._next
        self._next = min(self._next * 2, self._longest)
        return pause

    def reset(self) -> None:
        """Begin with the first pause again: the last attempt lived."""
        self._next = self._first
