"""A PostgreSQL server for the tests: initdb in a temporary folder, a Unix socket, never as root."""

import os
import pwd
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SERVER_USER = "postgres"  # PostgreSQL refuses to run as root


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server, reached through its socket folder."""

    socket_folder: Path
    user: str

    def url(self, database: str) -> str:
        """A SQLAlchemy URL of a database."""
        return f"postgresql://{self.user}@/{database}?host={self.socket_folder}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty database, dropped afterwards."""
        name = f"t{uuid.uuid4().hex}"
        self.sql(f'CREATE DATABASE "{name}"')
        try:
            yield self.url(name)
        finally:
            self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def sql(self, statement: str) -> None:
        """Run a statement in the maintenance database."""
        command = [
            "psql",
            "-q",
            "-h",
            str(self.socket_folder),
            "-U",
            self.user,
            "-d",
            "postgres",
            "-c",
            statement,
        ]
        subprocess.run(command, check=True, capture_output=True)


def missing_postgres() -> str | None:
    """Why PostgreSQL tests cannot run here, or None."""
    absent = [name for name in ("initdb", "pg_ctl", "psql") if shutil.which(name) is None]
    if absent:
        return f"PostgreSQL is not installed ({', '.join(absent)} not found)"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(SERVER_USER)
        except KeyError:
            return f"running as root, and there is no user {SERVER_USER} to run PostgreSQL as"
    return None


@contextmanager
def start_postgres(folder: Path) -> Iterator[PostgresServer]:
    """A server on a socket in `folder`, tuned for tests that need no durability."""
    user = SERVER_USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    base = Path("/tmp") / f"cw-pg-{uuid.uuid4().hex[:8]}"  # noqa: S108 - socket paths must be short
    base.mkdir()
    if os.getuid() == 0:
        shutil.chown(base, user, user)
    data = base / "data"
    options = (
        f"-k {base} -c listen_addresses='' -c fsync=off -c synchronous_commit=off -c max_connections=200"
    )
    _run(["initdb", "-D", str(data), "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"], user)
    log = str(base / "log")
    _run(["pg_ctl", "-D", str(data), "-l", log, "-o", options, "-w", "-t", "60", "start"], user)
    try:
        yield PostgresServer(base, user)
    finally:
        _run(["pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop"], user)
        for _ in range(20):
            shutil.rmtree(base, ignore_errors=True)
            if not base.exists():
                break
            time.sleep(0.1)


def _run(command: list[str], user: str) -> None:
    as_user = {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}
    subprocess.run(command, check=True, capture_output=True, cwd="/", **as_user)  # type: ignore[call-overload]
