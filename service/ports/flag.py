"""The flag that controls the vector arm, as the read path sees it."""

from typing import Protocol

from service.core.rollout import FlagState
from service.model import Workspace

FLAG_KEY = "corpus-hybrid-retrieval"


class RolloutFlag(Protocol):
    """Reads the flag. Whatever goes wrong, the answer is a state: off when nothing better is known."""

    async def state(self, workspace: Workspace) -> FlagState:
        """The state for a workspace, now. Cheap: it is asked on every request."""
        ...
