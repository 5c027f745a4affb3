"""Switching the vector arm off for everybody, in one action."""

from collections.abc import Sequence

from service.core.rollout import OFF
from service.ingest.capture import Clock
from service.ingest.flag import FlagOrder, require_held_here
from service.model import Workspace
from service.ports.flag import FlagChange, FlagHolder, FlagSweep


class KillSwitch:
    """Switches the vector arm off for every workspace, in one action."""

    def __init__(self, sweep: FlagSweep, holder: FlagHolder, clock: Clock) -> None:
        self._sweep = sweep
        self._holder = holder
        self._clock = clock

    async def off_everywhere(self, who: str, reason: str) -> Sequence[FlagChange]:
        """The default and every row that says anything else are off: all of it in one transaction, or nothing.

        Rows are put to off and not removed: whoever turns the default on again later turns on nobody who
        had a state of their own. Each change is kept; the default's comes first, and always.

        Raises InvalidInput, FlagHeldElsewhere, StoreUnavailable.
        """
        order = FlagOrder(workspace=None, state=OFF, who=who, reason=reason)
        require_held_here(self._holder)
        async with self._sweep.sweeping() as writes:
            lit = [scope for scope, text in writes.rows.items() if scope is not None and text != str(OFF)]
            changes = [self._change(order, scope, writes.rows.get(scope)) for scope in (None, *lit)]
            for change in changes:
                await writes.record(change)
        return changes

    def _change(self, order: FlagOrder, scope: Workspace | None, before: str | None) -> FlagChange:
        return FlagChange(
            workspace=scope,
            at=self._clock(),
            who=order.who,
            before=before,
            after=str(OFF),
            reason=order.reason,
            evidence=None,
            forced=False,
        )
