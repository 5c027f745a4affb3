"""Whether the service still takes requests: what a balancer asks before it sends one."""

from dataclasses import dataclass
from typing import Final

from litestar.datastructures import State

_NAME: Final = "draining"


@dataclass(slots=True)
class Draining:
    """Set once, by whoever is told to stop; from then on the service says that it is not ready."""

    begun: bool = False

    def begin(self) -> None:
        """No new requests are wanted; those that are here are answered."""
        self.begun = True


def draining_of(state: State) -> Draining:
    """The one of an application's state, made when it is first asked for."""
    found = state.get(_NAME)
    if isinstance(found, Draining):
        return found
    made = Draining()
    state[_NAME] = made
    return made
