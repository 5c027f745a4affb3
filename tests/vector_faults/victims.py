"""Processes that are started to be killed, as their parent sees them."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import TypeVar

from tests.vector_faults.driver import PATIENCE_S, live_until_killed
from tests.vector_faults.orders import Churn, HaltAt, House, Leave, Order, Report

FORKSERVER = multiprocessing.get_context("forkserver")
Said = TypeVar("Said")


@dataclass(slots=True)
class Victim:
    """A process on a pipe."""

    process: ForkServerProcess
    pipe: Connection

    def told(self, kind: type[Said]) -> Said:
        """The next thing it says. It is no answer to end, or to say nothing for long."""
        assert self.pipe.poll(PATIENCE_S), "it says nothing"
        said = self.pipe.recv()
        assert isinstance(said, kind), said
        return said

    def kill(self) -> None:
        """SIGKILL; its own child, which holds the store, is ended by the kernel."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Household:
    """One data folder, used by one process after the other."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._victim: Victim | None = None

    def start(self) -> Victim:
        """Start a fresh process; it begins to recover by itself."""
        assert self._victim is None
        mine, its = FORKSERVER.Pipe()
        process = FORKSERVER.Process(target=live_until_killed, args=(its, self._house), daemon=False)
        process.start()
        its.close()
        self._victim = Victim(process, mine)
        return self._victim

    def recovered(self) -> Report:
        """Start a fresh process: what it found, and what it made of it."""
        return self.start().told(Report)

    def order(self, order: HaltAt | Churn) -> None:
        """Give the process its order; it has reached its point, or begun to write, when this returns."""
        victim = self._victim
        assert victim is not None
        victim.pipe.send(order)
        match order:
            case HaltAt(point=point):
                assert victim.told(type(point)) is point
            case Churn():
                victim.told(str)

    def kill(self) -> None:
        """Kill the process that runs, if one does."""
        if self._victim is not None:
            self._victim.kill()
            self._victim = None

    def leave(self) -> None:
        """Let the process end in order."""
        victim = self._victim
        assert victim is not None
        leave: Order = Leave()
        victim.pipe.send(leave)
        victim.process.join(PATIENCE_S)
        assert victim.process.exitcode == 0
        self._victim = None


@contextmanager
def household(house: House) -> Iterator[Household]:
    """A household whose last process does not outlive the block."""
    house.data_dir.mkdir(parents=True, exist_ok=True)
    made = Household(house)
    try:
        yield made
    finally:
        made.kill()
