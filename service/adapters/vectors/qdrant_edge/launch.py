"""How the processes of the vector store begin and end; shared by both sides."""

import ctypes
import os
import signal
import sys
from enum import IntEnum, StrEnum

import msgspec

_PR_SET_PDEATHSIG = 1
COPIED = b"copied\n"  # a builder's word for: the source may be written to again


class Exit(IntEnum):
    """Exit codes of a shard's process that mean something; any other ending is a crash."""

    CLEAN = 0
    DAMAGED = 65  # what is on disk is not a whole shard
    FULL = 74  # no room to open it
    BUSY = 75  # held by a process that is still dying, or a resource is short; try again


class Opening(StrEnum):
    """Whether there is a shard already. A shard that should be there and is not was lost."""

    CREATE = "create"
    LOAD = "load"


class ShardOptions(msgspec.Struct, frozen=True):
    """All that a shard's process is told, as its one argument."""

    folder: str
    opening: Opening
    dimension: int
    descriptor: int
    parent: int
    search_depth: int
    oversampling: float
    reserve_bytes: int


class BuildOptions(msgspec.Struct, frozen=True):
    """All that a graph builder is told: build from a copy of `source`, in `target`."""

    source: str
    target: str
    dimension: int
    descriptor: int
    parent: int
    links: int
    build_depth: int
    exact_points: int
    int8: bool
    threads: int


def argument(options: ShardOptions | BuildOptions) -> str:
    """The options as a command-line argument."""
    return msgspec.json.encode(options).decode()


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent does, whatever either of them is doing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request was made
        sys.exit(Exit.CLEAN)
