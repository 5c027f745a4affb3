"""The database refuses, goes away, comes back, or is held by somebody else."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.adapters.sql import engine
from service.bootstrap import Application, application
from service.errors import StoreUnavailable
from service.model import DEFAULT_WORKSPACE
from service.ports.lexical import CandidateSource
from tests.central.model import Corpus
from tests.faults.corpus import SUBJECTS, ask, assert_exact, document, fill, settings_in, upkeep
from tests.postgres import PostgresServer, _run, missing_postgres, start_postgres

pytestmark = pytest.mark.anyio

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server that may be stopped."""
    missing = missing_postgres()
    if missing:
        pytest.skip(missing)
    with start_postgres(tmp_path_factory.mktemp("stoppable")) as running:
        running.sql(f'ALTER ROLE "{running.user}" SET synchronous_commit = on')  # a crash must lose no commit
        yield running


def stop(server: PostgresServer) -> None:
    """Stop it as a crash would."""
    _run(["pg_ctl", "-D", str(server.socket_folder / "data"), "-m", "immediate", "-w", "stop"], server.user)


def start(server: PostgresServer) -> None:
    """Start it again; it recovers from its log first."""
    data, log = str(server.socket_folder / "data"), str(server.socket_folder / "log")
    options = f"-k {server.socket_folder} -c listen_addresses=''"
    _run(["pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "-t", "60", "start"], server.user)


async def everything_is_refused(app: Application) -> None:
    """Reads and writes all say that the store does not answer."""
    for subject in SUBJECTS:
        with pytest.raises(StoreUnavailable):
            await ask(app, subject)
    with pytest.raises(StoreUnavailable):
        await app.capturing.capture(DEFAULT_WORKSPACE, document(90))
    with pytest.raises(StoreUnavailable):
        await app.lifecycle.retire(DEFAULT_WORKSPACE, document(0).item_id)  # type: ignore[arg-type]


async def test_postgresql_stops_and_comes_back(server: PostgresServer, home: Path) -> None:
    """C14: while the database is down every request says so; when it is back all answers are exact again."""
    corpus = Corpus()
    with server.database() as url:
        async with application(settings_in(home, url)) as app:
            await fill(app, corpus, range(6))
            stop(server)
            await everything_is_refused(app)
            for shard in app.lexical._shards.values():
                with pytest.raises(StoreUnavailable):
                    await shard.rebuild()
            start(server)
            await assert_exact(app, corpus)
            await fill(app, corpus, range(6, 9))
            await upkeep(app)
            await assert_exact(app, corpus)
            assert app.lexical.status()[DEFAULT_WORKSPACE].documents == 9 * 8
            assert (await ask(app, SUBJECTS[0])).lexical.source == CandidateSource.INDEX
            for _ in range(engine.GLANCE_POOL_SIZE + 1):
                assert await app.store.glance(DEFAULT_WORKSPACE, [1], None) is not None
        async with application(settings_in(home, url)) as app:
            await assert_exact(app, corpus)


async def test_a_database_put_back_under_a_running_process(
    postgres_server: PostgresServer, home: Path
) -> None:
    """C14: when a backup takes the database's place, what the index knew beyond it is not shown."""
    corpus = Corpus()
    with postgres_server.database() as url:
        name = url.split("@/")[1].split("?")[0]
        backup = f"{name}-backup"
        async with application(settings_in(home / "1", url)) as app:
            await fill(app, corpus, range(4))
        postgres_server.sql(f'CREATE DATABASE "{backup}" TEMPLATE "{name}"')
        async with application(settings_in(home / "2", url)) as app:
            await fill(app, corpus.copy(), range(10, 14))
            postgres_server.sql(f'DROP DATABASE "{name}" WITH (FORCE)')
            postgres_server.sql(f'ALTER DATABASE "{backup}" RENAME TO "{name}"')
            await assert_exact(app, corpus)
            await fill(app, corpus, range(4, 7))
            await assert_exact(app, corpus)


async def test_the_process_ends_while_postgresql_is_down(server: PostgresServer, home: Path) -> None:
    """A process whose database is away still ends in order, and its successor takes up the same index."""
    corpus = Corpus()
    with server.database() as url:
        async with application(settings_in(home, url)) as app:
            await fill(app, corpus, range(6))
            stop(server)
            with pytest.raises(StoreUnavailable):
                await app.lexical.rebuild(DEFAULT_WORKSPACE)
        with pytest.raises(StoreUnavailable):
            async with application(settings_in(home, url)):
                pass
        start(server)
        async with application(settings_in(home, url)) as app:
            await assert_exact(app, corpus)
            assert [path.name for path in (home / "lexical").iterdir()] == ["slot-0"]


async def test_requests_on_the_way_when_postgresql_stops(server: PostgresServer, home: Path) -> None:
    """C16: requests cut off by a crash end in an answer or in StoreUnavailable; what was acknowledged stays."""
    corpus = Corpus()
    with server.database() as url:
        async with application(settings_in(home, url)) as app:
            await fill(app, corpus, range(6))
            acknowledged = []

            async def write() -> None:
                for number in range(20, 400):
                    await app.capturing.capture(DEFAULT_WORKSPACE, document(number))
                    acknowledged.append(number)

            async def read(number: int) -> None:
                while True:
                    await ask(app, SUBJECTS[number % len(SUBJECTS)])

            work = asyncio.gather(write(), *(read(number) for number in range(6)), return_exceptions=True)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(stop, server)
            for outcome in await work:
                assert isinstance(outcome, StoreUnavailable), outcome
            start(server)
            async with app.store.snapshot() as snapshot:
                for number in acknowledged:
                    found = document(number).item_id
                    assert found is not None
                    assert await snapshot.item(DEFAULT_WORKSPACE, found) is not None


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@/nothing?host={}", "postgresql://{user}@/nothing?host={}"]
)
async def test_a_database_that_lets_nobody_in(postgres_server: PostgresServer, home: Path, url: str) -> None:
    """A database that refuses the connection is a store that does not answer, by our own error."""
    wrong = url.format(postgres_server.socket_folder, user=postgres_server.user)
    with pytest.raises(StoreUnavailable):
        async with application(settings_in(home, wrong)):
            pass


async def test_too_many_connections(postgres_server: PostgresServer, home: Path) -> None:
    """A database that has no connection left is a store that does not answer, and recovers."""
    corpus = Corpus()
    with postgres_server.database() as url:
        name = url.split("@/")[1].split("?")[0]
        role = f"r{name}"
        postgres_server.sql(f'CREATE ROLE "{role}" LOGIN CONNECTION LIMIT 1')
        postgres_server.sql(f'ALTER DATABASE "{name}" OWNER TO "{role}"')
        try:
            async with application(settings_in(home, url)) as owner:
                await fill(owner, corpus, range(4))
            postgres_server.sql(f'GRANT "{postgres_server.user}" TO "{role}"')
            limited = url.replace(f"//{postgres_server.user}@", f"//{role}@")
            with pytest.raises(StoreUnavailable):
                async with application(settings_in(home, limited)) as app:
                    await asyncio.gather(*(ask(app, subject) for subject in SUBJECTS * 3))
        finally:
            postgres_server.sql(f'ALTER ROLE "{role}" SUPERUSER')
            postgres_server.sql(f'ALTER DATABASE "{name}" OWNER TO "{postgres_server.user}"')
            postgres_server.sql(f'DROP ROLE "{role}"')


@contextmanager
def held(database: Path) -> Iterator[None]:
    """Another process holds SQLite's write lock."""
    command = [sys.executable, "-c", HOLD, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            process.kill()


async def test_sqlite_held_by_another_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that waits too long for another process's says so; reads go on exactly, and writes afterwards."""
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.2)
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(6))
        with held(home / "citewell.db"):
            with pytest.raises(StoreUnavailable):
                await app.capturing.capture(DEFAULT_WORKSPACE, document(90))
            await assert_exact(app, corpus)
        await fill(app, corpus, range(6, 8))
        await assert_exact(app, corpus)
