"""The central proof, in its short form: the same examples in every run."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.central.machine import CorpusMachine
from tests.postgres import PostgresServer

Make = Callable[[], CorpusMachine]


def run(make: Make, examples: int, steps: int, seeded: int) -> None:
    """Run the state machine on `examples` histories of up to `steps` steps."""
    run_state_machine_as_test(
        cast("type[CorpusMachine]", seed(seeded)(make)),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )


def on_sqlite(folder: Path) -> Make:
    """A fresh SQLite database for each history."""
    made = iter(range(1_000_000))

    def make() -> CorpusMachine:
        home = folder / str(next(made))
        home.mkdir()
        return CorpusMachine(home, f"sqlite:///{home / 'citewell.db'}")

    return make


def test_on_sqlite(fast_folder: Path) -> None:
    """C14: whatever happened before, on SQLite, an answer is the pure function of the live corpus."""
    run(on_sqlite(fast_folder), examples=8, steps=40, seeded=1)


def test_on_postgresql(fast_folder: Path, postgres_server: PostgresServer) -> None:
    """C14: whatever happened before, on PostgreSQL, an answer is the pure function of the live corpus."""
    made = iter(range(1_000_000))
    with ExitStack() as databases:

        def make() -> CorpusMachine:
            home = fast_folder / str(next(made))
            home.mkdir()
            return CorpusMachine(home, databases.enter_context(postgres_server.database()))

        run(make, examples=4, steps=25, seeded=2)
