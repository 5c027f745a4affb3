"""A process that looks at a server's health, one look after the other, until its input ends.

Arguments: the server's host, port and process id. Prints a line for each look: the seconds that it took, and
of these the seconds for which the machine, and not the server, kept it waiting.

For the machine stands what the kernel says of each thread of the server: how long it was ready to run and had no
processor. And a loop beside the looks, which only sleeps and looks at the clock, tells how late it was.
"""

import http.client
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

TICK_S = 0.002
TICKS = 5_000  # kept: ten seconds, far more than a look takes


class Metronome:
    """A loop that has nothing to do, and how late it was at each of its ticks."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=TICKS)
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self) -> None:
        before = time.perf_counter()
        while True:
            time.sleep(TICK_S)
            now = time.perf_counter()
            self._late.append((now, now - before - TICK_S))
            before = now

    def late_since(self, moment: float) -> float:
        """The seconds of the worst tick since then."""
        time.sleep(TICK_S * 2)  # a tick that is late now is known only when it comes
        return max((late for at, late in list(self._late) if at >= moment), default=0.0)


def kept_waiting(tasks: Path) -> Mapping[str, float]:
    """The seconds that each thread has waited for a processor; none where the kernel does not tell."""
    found = {}
    for file in tasks.glob("*/schedstat"):
        try:
            found[file.parent.name] = int(file.read_text().split()[1]) / 1e9
        except FileNotFoundError:
            continue  # the thread has ended
    return found


def longest_wait(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The seconds of the thread that waited most; whoever waits for a lock waits as long as its holder."""
    return max((now - before.get(thread, now) for thread, now in after.items()), default=0.0)


def _read_to_the_end(told: threading.Event) -> None:
    sys.stdin.read()
    told.set()


def main() -> None:
    """Look until standard input ends, in another thread so that nothing is asked between two looks."""
    host, port, tasks = sys.argv[1], int(sys.argv[2]), Path("/proc") / sys.argv[3] / "task"
    connection = http.client.HTTPConnection(host, port, timeout=60)
    metronome, told = Metronome(), threading.Event()
    threading.Thread(target=_read_to_the_end, args=(told,), daemon=True).start()
    while not told.is_set():
        before, began = kept_waiting(tasks), time.perf_counter()
        connection.request("GET", "/health/live")
        response = connection.getresponse()
        response.read()
        took = time.perf_counter() - began
        assert response.status == 200, response.status
        machine = longest_wait(before, kept_waiting(tasks)) + metronome.late_since(began)
        sys.stdout.write(f"{took} {min(machine, took)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
