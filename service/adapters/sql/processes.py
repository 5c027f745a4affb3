"""Which process this is, and whether another one is known to be dead.

A process is named by what no other process of its kernel ever shares: the boot, the PID namespace, the PID
and the moment it started. Of a process of another boot, host or namespace nothing is known.
"""

import os
import socket
from pathlib import Path

_START_FIELD = 19  # of /proc/<pid>/stat, counted from the state that follows the name in brackets


def this_process() -> str | None:
    """The name of the process that asks; None where the system does not tell (only Linux does)."""
    place, started = _place(), _started(os.getpid())
    return None if place is None or started is None else f"{place} {os.getpid()} {started}"


def is_dead(process: str | None) -> bool:
    """Whether that process was of this very system and has ended; False where that cannot be known."""
    place = _place()
    if process is None or place is None or not process.startswith(f"{place} "):
        return False
    pid, _, started = process.removeprefix(f"{place} ").partition(" ")
    return bool(pid.isdigit() and started) and _has_ended(int(pid), started)


def _has_ended(pid: int, started: str) -> bool:
    """Whether no process has the PID, or one that began at another moment."""
    try:
        os.kill(pid, 0)  # sends nothing
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's, and it exists
    return _started(pid) not in (started, None)  # /proc may hide the processes of others


def _place() -> str | None:
    """Boot, host and PID namespace: within them a PID means one process at a time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"{boot}/{socket.gethostname()}/{namespace}"


def _started(pid: int) -> str | None:
    """When a process began, in ticks since the boot; None when it cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat.rpartition(b")")[2].split()[_START_FIELD].decode("ascii")
