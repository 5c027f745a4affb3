"""Places for work: so many at once, so many waiting in turn, and nobody else."""

import asyncio
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.errors import Overloaded

MOST_RETRY_S: Final = 60  # seconds; nobody is sent away for longer
_SMOOTHING: Final = 0.05  # share of the newest request in the running mean of how long one holds its slot


class Work(StrEnum):
    """What a request does. Each kind has slots of its own, so that none can take the others'."""

    READ = "read"
    WRITE = "write"
    IMPORT = "import"  # may go on for hours


@dataclass(frozen=True, slots=True)
class LaneSize:
    """How many requests of a kind are worked on at once, and how many wait."""

    slots: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one process. `deadline` is in seconds from a request's arrival; imports have none."""

    in_flight: int = 8
    waiting: int = 64
    deadline: float = 10.0
    log_queries: bool = False

    def lanes(self) -> dict[Work, LaneSize]:
        """An eighth of the slots and of the queue for writes, as much for imports, the rest for reads.

        Each has one slot at least, so fewer than three slots in all count as three.
        """
        slots, waiting = max(1, self.in_flight // 8), self.waiting // 8
        small = LaneSize(slots, waiting)
        reads = LaneSize(max(1, self.in_flight - 2 * slots), self.waiting - 2 * waiting)
        return {Work.READ: reads, Work.WRITE: small, Work.IMPORT: small}


class Place:
    """A place in a queue. `turn` ends when the slot is the waiter's, or with Overloaded."""

    __slots__ = ("caller", "turn")

    def __init__(self, caller: bytes) -> None:
        self.caller = caller
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Lane:
    """Slots and a bounded queue before them, in order of arrival for each caller and by turns among callers.

    A full queue makes room for a caller with few waiting requests by sending away the newest of the caller with
    most, so that nobody fills it alone.
    """

    def __init__(self, size: LaneSize) -> None:
        self._size = size
        self._queues: OrderedDict[bytes, deque[Place]] = OrderedDict()  # next in turn first; none is empty
        self._held = 0.0  # mean seconds that a request holds its slot
        self.working = 0
        self.waiting = 0

    def take(self) -> bool:
        """Whether a slot was free: it is the asker's now, who gives it back with `leave`."""
        if self.working >= self._size.slots or self.waiting:
            return False
        self.working += 1
        return True

    def line_up(self, caller: bytes) -> Place:
        """A place in the queue, to be waited for and, if that is broken off, given back. Raises Overloaded."""
        if self.waiting >= self._size.waiting:
            self._make_room(caller)
        place = Place(caller)
        self._queues.setdefault(caller, deque()).append(place)
        self.waiting += 1
        return place

    def leave(self, held: float) -> None:
        """Give a slot back after `held` seconds; whoever is next has it at once."""
        self._held += _SMOOTHING * (held - self._held)
        self.working -= 1
        if self._queues:
            caller, queue = next(iter(self._queues.items()))
            self._queues.move_to_end(caller)
            place = queue.popleft()
            self._left_queue(caller)
            self.working += 1
            place.turn.set_result(None)

    def give_back(self, place: Place) -> None:
        """Undo `line_up`, whatever became of the place; the slot, if it had come, is the next one's."""
        if not place.turn.done():
            self._queues[place.caller].remove(place)
            self._left_queue(place.caller)
            place.turn.cancel()
        elif not place.turn.cancelled() and place.turn.exception() is None:
            self.leave(self._held)

    @property
    def retry_after(self) -> int:
        """Whole seconds after which today's queue will have been worked off."""
        seconds = (self.waiting + 1) * self._held / self._size.slots
        return min(MOST_RETRY_S, max(1, math.ceil(seconds)))

    def _make_room(self, caller: bytes) -> None:
        """Send away the newest request of the caller with most. Raises Overloaded if that is the asker."""
        own = len(self._queues.get(caller, ()))
        longest: deque[Place] = max(self._queues.values(), key=len, default=deque())
        if len(longest) <= own + 1:
            raise self._overloaded()
        place = longest.pop()
        self._left_queue(place.caller)
        place.turn.set_exception(self._overloaded())

    def _left_queue(self, caller: bytes) -> None:
        self.waiting -= 1
        if not self._queues[caller]:
            del self._queues[caller]

    def _overloaded(self) -> Overloaded:
        return Overloaded(
            "the service is answering as many requests as it can, and as many wait; nothing was begun",
            retry_after=self.retry_after,
        )
