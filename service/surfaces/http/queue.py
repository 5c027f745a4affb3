"""Places for work: so many at once, so many waiting in turn, and nobody else."""

import asyncio
import math
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from service.errors import Overloaded

MOST_RETRY_S: Final = 60  # seconds; nobody is sent away for longer
NOBODY: Final = b""  # who brings no key
READ_AHEAD: Final = 256  # requests whose bodies are being read, beyond those that work and wait
_SMOOTHING: Final = 0.05  # share of the newest request in the running mean of how long one holds its slot


class Work(StrEnum):
    """What a request does. Each kind has slots of its own, so that none can take the others'."""

    READ = "read"
    WRITE = "write"
    IMPORT = "import"  # may go on for hours


@dataclass(frozen=True, slots=True)
class LaneSize:
    """How many requests of a kind are worked on at once, and how many wait. `each` bounds one holder's slots."""

    slots: int
    waiting: int
    each: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one process. `deadline` is in seconds from a request's arrival; imports have none."""

    in_flight: int = 8
    waiting: int = 64
    deadline: float = 10.0
    log_queries: bool = False

    @property
    def here(self) -> int:
        """How many requests may be here in all, those included that are still being read."""
        return self.in_flight + self.waiting + READ_AHEAD

    def lanes(self) -> dict[Work, LaneSize]:
        """An eighth of the slots and of the queue for writes, as much for imports, the rest for reads.

        Each has one slot at least, so fewer than three slots in all count as three. Imports may go on for ever,
        so one key never holds the last of several slots for them.
        """
        slots, waiting = max(1, self.in_flight // 8), self.waiting // 8
        small = LaneSize(slots, waiting)
        reads = LaneSize(max(1, self.in_flight - 2 * slots), self.waiting - 2 * waiting)
        return {Work.READ: reads, Work.WRITE: small, Work.IMPORT: replace(small, each=max(1, slots - 1))}


class Place:
    """A place in a queue. `turn` ends when the slot is the waiter's, or with Overloaded."""

    __slots__ = ("caller", "holder", "turn")

    def __init__(self, caller: bytes, holder: bytes) -> None:
        self.caller = caller
        self.holder = holder
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Lane:
    """Slots and a bounded queue before them, in order of arrival for each caller and by turns among callers.

    A full queue makes room for a caller with few waiting requests by sending away the newest of the caller with
    most, so that nobody fills it alone. Callers are those who are known; holders are told apart by what they
    bring, good or not, for what is not good does not hold a slot for long. NOBODY is not bounded.
    """

    def __init__(self, size: LaneSize) -> None:
        self._size = size
        self._queues: OrderedDict[bytes, deque[Place]] = OrderedDict()  # next in turn first; none is empty
        self._held = 0.0  # mean seconds that a request holds its slot
        self._slots_of: Counter[bytes] = Counter()
        self.working = 0
        self.waiting = 0

    def take(self, holder: bytes = NOBODY) -> bool:
        """Whether a slot was free: it is the asker's now, who gives it back with `leave`."""
        if self.working >= self._size.slots or not self._may_hold(holder) or self._next() is not None:
            return False
        self._begin(holder)
        return True

    def line_up(self, caller: bytes, holder: bytes = NOBODY) -> Place:
        """A place in the queue, to be waited for and, if that is broken off, given back. Raises Overloaded."""
        if self.waiting >= self._size.waiting:
            self._make_room(caller)
        place = Place(caller, holder)
        self._queues.setdefault(caller, deque()).append(place)
        self.waiting += 1
        return place

    def leave(self, held: float, holder: bytes = NOBODY) -> None:
        """Give a slot back after `held` seconds; whoever is next has it at once."""
        self._held += _SMOOTHING * (held - self._held)
        self.working -= 1
        self._slots_of -= Counter((holder,))
        place = self._next()
        if place is not None:
            self._queues.move_to_end(place.caller)
            self._queues[place.caller].remove(place)
            self._left_queue(place.caller)
            self._begin(place.holder)
            place.turn.set_result(None)

    def give_back(self, place: Place) -> None:
        """Undo `line_up`, whatever became of the place; the slot, if it had come, is the next one's."""
        if not place.turn.done():
            self._queues[place.caller].remove(place)
            self._left_queue(place.caller)
            place.turn.cancel()
        elif not place.turn.cancelled() and place.turn.exception() is None:
            self.leave(self._held, place.holder)

    @property
    def retry_after(self) -> int:
        """Whole seconds after which today's queue will have been worked off."""
        seconds = (self.waiting + 1) * self._held / self._size.slots
        return min(MOST_RETRY_S, max(1, math.ceil(seconds)))

    def _begin(self, holder: bytes) -> None:
        self.working += 1
        self._slots_of[holder] += 1

    def _may_hold(self, holder: bytes) -> bool:
        each = self._size.each
        return each is None or holder == NOBODY or self._slots_of[holder] < each

    def _next(self) -> Place | None:
        """The first in turn who may hold a slot."""
        places = (place for queue in self._queues.values() for place in queue)
        return next((place for place in places if self._may_hold(place.holder)), None)

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
