"""The flag that controls the vector arm: as the read path sees it, and as it is set and accounted for."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from service.core.rollout import FlagState
from service.model import Workspace

FLAG_KEY = "corpus-hybrid-retrieval"


class FlagHolder(StrEnum):
    """Who holds the flag's value."""

    STORE = "store"  # rows in SQL, set with an audit
    ENV = "env"  # the environment's value, read at the start
    FILE = "file"  # a JSON file, read again when it changes
    FLAGD = "flagd"  # a flagd server or its file


class RolloutFlag(Protocol):
    """Reads the flag. Whatever goes wrong, the answer is a state: off when nothing better is known."""

    async def state(self, workspace: Workspace) -> FlagState:
        """The state for a workspace, now. Cheap: it is asked on every request."""
        ...


@dataclass(frozen=True, slots=True)
class FlagReading:
    """A state with where it comes from. `problem` says why it is not what the holder was meant to say."""

    state: FlagState
    holder: FlagHolder
    problem: str | None = None


class FlagReader(RolloutFlag, Protocol):
    """A flag that also says where its state comes from."""

    async def reading(self, workspace: Workspace) -> FlagReading:
        """The state for a workspace and its origin."""
        ...

    async def close(self) -> None:
        """Let the holder go."""
        ...


@dataclass(frozen=True, slots=True)
class FlagRows:
    """What is stored for a workspace: its override and the default, None where there is no row."""

    override: str | None
    default: str | None

    @property
    def text(self) -> str | None:
        """The row that counts."""
        return self.default if self.override is None else self.override


class Verdict(StrEnum):
    """What an evaluation report decides."""

    GO = "GO"
    NO_GO = "NO-GO"


@dataclass(frozen=True, slots=True)
class FlagEvidence:
    """The evaluation report that a change rests on. `created_at` is aware."""

    path: str
    verdict: Verdict
    dataset_hash: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FlagChange:
    """One change of the flag, as it is kept for good.

    `workspace` is None for the default. `before` and `after` are None where there is no row. `forced` is true
    when the change was made although no evaluation said GO.
    """

    workspace: Workspace | None
    at: datetime
    who: str
    before: str | None
    after: str | None
    reason: str
    evidence: FlagEvidence | None
    forced: bool


class FlagWrite(Protocol):
    """The row of one scope while nobody else can change it."""

    @property
    def before(self) -> str | None:
        """What the scope's row says; None where there is none."""
        ...

    @property
    def default(self) -> str | None:
        """What the default row says; None where there is none."""
        ...

    async def record(self, change: FlagChange) -> None:
        """Put the row as the change says, and keep the change."""
        ...


class FlagWrites(Protocol):
    """Every scope's row while nobody else can change any of them."""

    @property
    def rows(self) -> Mapping[Workspace | None, str]:
        """What is stored, by workspace, in workspace order; the default's is None and comes first."""
        ...

    async def record(self, change: FlagChange) -> None:
        """Put the row of the change's scope as the change says, and keep the change."""
        ...


class FlagSweep(Protocol):
    """Changes several scopes at once: all of it happens, or nothing."""

    def sweeping(self) -> AbstractAsyncContextManager[FlagWrites]:
        """A transaction: committed on a clean exit, rolled back on an exception. Raises StoreUnavailable."""
        ...


class FlagLedger(Protocol):
    """The flag's rows and every change that was ever made to them."""

    async def rows(self, workspace: Workspace) -> FlagRows:
        """What is stored for a workspace. Raises StoreUnavailable."""
        ...

    async def all_rows(self) -> Mapping[Workspace | None, str]:
        """Every row by workspace, in workspace order; the default's is None and comes first."""
        ...

    def changing(self, workspace: Workspace | None) -> AbstractAsyncContextManager[FlagWrite]:
        """A transaction: committed on a clean exit, rolled back on an exception. Raises StoreUnavailable."""
        ...

    async def changes(self, limit: int) -> Sequence[FlagChange]:
        """The newest changes, newest first."""
        ...
