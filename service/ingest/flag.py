"""The rollout flag, shown and set. Past shadow it goes on an evaluation that says GO, or by force; all is kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.core.rollout import OFF, FlagKind, FlagState, parse_flag
from service.core.text import is_storable
from service.errors import FlagHeldElsewhere, FlagNeedsEvaluation, InvalidInput
from service.ingest.capture import Clock
from service.model import Workspace
from service.ports.flag import (
    FlagChange,
    FlagEvidence,
    FlagHolder,
    FlagLedger,
    FlagReader,
    FlagReading,
    Verdict,
)

MAX_WHO = 200  # characters
MAX_REASON = 2_000
MAX_WORKSPACE = 200
SHOWN_CHANGES = 20
PAST_SHADOW = frozenset({FlagKind.PERCENT, FlagKind.ON})
ReportReader = Callable[[Path], FlagEvidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagOrder:
    """What a person wants. `workspace` None is the default; `state` None removes the scope's row.

    Raises InvalidInput when nobody, or no reason, stands behind it.
    """

    workspace: Workspace | None
    state: FlagState | None
    who: str
    reason: str
    report: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        """An order that the audit could not account for is none."""
        _check_text("who", self.who, MAX_WHO)
        _check_text("reason", self.reason, MAX_REASON)
        if self.workspace is not None:
            _check_text("workspace", self.workspace, MAX_WORKSPACE)


@dataclass(frozen=True, slots=True)
class FlagOverview:
    """The flag as a workspace sees it, as others do, every row (None is the default's) and the newest changes.

    `readings` are by workspace, in workspace order: what counts for each, wherever it comes from.
    """

    workspace: Workspace
    reading: FlagReading
    environment: str
    readings: Mapping[Workspace, FlagReading]
    rows: Mapping[Workspace | None, str]
    changes: Sequence[FlagChange]


@dataclass(frozen=True, slots=True)
class FlagOrigin:
    """Who holds the flag, and the environment's value, which counts where the database has no row."""

    holder: FlagHolder
    environment: str


class FlagControl:
    """Shows the flag and carries out orders. Only people give orders: nothing in the program does."""

    def __init__(
        self,
        ledger: FlagLedger,
        flag: FlagReader,
        origin: FlagOrigin,
        read_report: ReportReader,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._flag = flag
        self._origin = origin
        self._read_report = read_report
        self._clock = clock

    async def show(self, workspace: Workspace, among: Sequence[Workspace] = ()) -> FlagOverview:
        """The flag now, for `among` and every workspace with a row, too. Raises StoreUnavailable."""
        rows = await self._ledger.all_rows()
        scopes = {workspace, *among, *(scope for scope in rows if scope is not None)}
        readings = {scope: await self._flag.reading(scope) for scope in sorted(scopes)}
        return FlagOverview(
            workspace=workspace,
            reading=readings[workspace],
            environment=self._origin.environment,
            readings=readings,
            rows=rows,
            changes=await self._ledger.changes(SHOWN_CHANGES),
        )

    async def stored(self) -> Mapping[Workspace, str]:
        """The rows of single workspaces, in workspace order. Raises StoreUnavailable."""
        rows = await self._ledger.all_rows()
        return {scope: text for scope, text in rows.items() if scope is not None}

    async def set_flag(self, order: FlagOrder) -> FlagChange:
        """Carry an order out: the row and its account in one transaction.

        Raises FlagHeldElsewhere, FlagNeedsEvaluation, InvalidReport, StoreUnavailable.
        """
        require_held_here(self._origin.holder)
        evidence = None
        if order.report is not None:
            evidence = await asyncio.to_thread(self._read_report, order.report)
        async with self._ledger.changing(order.workspace) as write:
            after = order.state if order.state is not None else self._left(order.workspace, write.default)
            lacking = lacking_evidence(after, evidence)
            if lacking is not None and not order.force:
                raise FlagNeedsEvaluation(lacking)
            change = FlagChange(
                workspace=order.workspace,
                at=self._clock(),
                who=order.who,
                before=write.before,
                after=None if order.state is None else str(order.state),
                reason=order.reason,
                evidence=evidence,
                forced=lacking is not None,
            )
            await write.record(change)
        return change

    def _left(self, workspace: Workspace | None, default: str | None) -> FlagState:
        """What counts for a scope once its row is gone."""
        text = self._origin.environment if workspace is None or default is None else default
        try:
            return parse_flag(text)
        except InvalidInput:
            return OFF  # as the read path takes it


def require_held_here(holder: FlagHolder) -> None:
    """A row that nobody reads is not written. Raises FlagHeldElsewhere."""
    if holder is not FlagHolder.STORE:
        raise FlagHeldElsewhere(f"the flag is held by {holder.value}; {_WHERE[holder]}")


_WHERE = {
    FlagHolder.ENV: "set CORPUS_HYBRID_RETRIEVAL and restart",
    FlagHolder.FILE: "edit the file of CITEWELL_FLAG_FILE, or remove it: without it everybody is off",
    FlagHolder.FLAGD: "set it there; a flag that is disabled there is off for everybody",
}


def lacking_evidence(after: FlagState, evidence: FlagEvidence | None) -> str | None:
    """Why a state cannot be taken on this evidence; None when it can."""
    if after.kind not in PAST_SHADOW:
        return None
    if evidence is None:
        return "past shadow, the flag needs an evaluation report that says GO (--report), or --force"
    if evidence.verdict is not Verdict.GO:
        return f"the evaluation report says {evidence.verdict.value}"
    return None


def _check_text(name: str, text: str, longest: int) -> None:
    if not text.strip() or len(text) > longest or not is_storable(text):
        raise InvalidInput(f"{name} is a text of at most {longest} characters", field=name)
