"""The central proof, in its long form: new histories for as long as it is told to."""

import random
import time
from pathlib import Path

import pytest

from tests.central.test_central import on_sqlite, run


@pytest.mark.soak
def test_soak(pytestconfig: pytest.Config, fast_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C14: no history of any seed makes an answer other than the pure function's."""
    seconds = pytestconfig.getoption("--soak", default=None)
    if seconds is None:
        pytest.skip("runs with --soak SECONDS only")
    chosen = pytestconfig.getoption("--soak-seed", default=None)
    first = random.randrange(2**32) if chosen is None else int(chosen)  # noqa: S311 - printed, not secret
    until = time.monotonic() + float(seconds)
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        with capsys.disabled():
            print(f"\nsoak: round {rounds}, --soak-seed {first + rounds}", end="", flush=True)  # noqa: T201
        home = fast_folder / str(rounds)
        home.mkdir()
        run(on_sqlite(home), examples=15, steps=60, seeded=first + rounds)
        rounds += 1
