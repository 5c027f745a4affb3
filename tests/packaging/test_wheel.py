"""The wheel: whole, clean, and enough to run from anywhere."""

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.wheels import ROOT, Installed, install, names_in

PACKAGES = ("service", "embeddings", "eval")
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own."""
    return install(wheel, tmp_path_factory.mktemp("installed"))


def tracked() -> set[str]:
    """The files under version control in the packages; skips, saying so, outside of a clone."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no version control to ask")
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *PACKAGES]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


def test_every_tracked_file_is_in_it(wheel: Path) -> None:
    """C30: what version control has of the packages, their data included, is in the wheel."""
    assert tracked() - names_in(wheel) == set()


def test_data_is_in_it(wheel: Path) -> None:
    """Shipped corpora, judged queries, the report's template and the migrations are in the wheel."""
    names = names_in(wheel)
    for name in (
        "service/shipped/products/vocabulary.json",
        "service/shipped/doc2dial/corpus.jsonl",
        "service/adapters/sql/migrations/env.py",
        "service/adapters/sql/migrations/versions/v0001_first_schema.py",
        "eval/data/doc2dial/queries.jsonl",
        "eval/templates/report.html",
    ):
        assert name in names


def test_nothing_else_is_in_it(wheel: Path) -> None:
    """The wheel holds its packages and its metadata: no tests, no caches, no runs, no databases."""
    names = names_in(wheel)
    tops = {name.split("/")[0] for name in names}
    (metadata,) = tops - set(PACKAGES)
    assert metadata.endswith(".dist-info")
    for name in names:
        assert not name.startswith("eval/runs/"), name
        assert not any(part.startswith(".") or part == "__pycache__" for part in name.split("/")), name
        assert not name.endswith((".pyc", ".db", ".db-wal", ".log", ".sqlite")), name
        assert "/tests/" not in name, name
        assert not name.split("/")[-1].startswith("test_"), name


def test_the_licence_is_in_it(wheel: Path) -> None:
    """The licence travels with the wheel."""
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names_in(wheel))


def test_nothing_of_the_checkout_is_used(installed: Installed) -> None:
    """The installed program is the wheel's: every package comes from the new environment."""
    script = f"from importlib.util import find_spec; print(*(find_spec(n).origin for n in {PACKAGES!r}))"
    for place in installed.run([str(installed.python), "-c", script]).split():
        assert Path(place).is_relative_to(installed.folder)
    path = installed.run([str(installed.python), "-c", "import sys; print('\\n'.join(sys.path))"])
    assert str(ROOT) not in path.splitlines()


def test_version(installed: Installed) -> None:
    """`citewell --version` says the version of the project."""
    assert installed.run(installed.citewell("--version")).strip() == f"citewell {version('citewell')}"


def test_every_command_is_there(installed: Installed) -> None:
    """The help page lists the commands of both packages: the service's and the evaluation's."""
    page = installed.run(installed.citewell("--help"))
    for name in ("serve", "ingest", "retrieve", "export", "import", "eval"):
        assert f"\n  {name} " in page


def test_demo(installed: Installed) -> None:
    """`citewell demo` runs from the wheel, in an empty folder, and leaves it empty."""
    assert "SL45" in installed.run(installed.citewell("demo"))
    assert list(installed.home.iterdir()) == []


def test_serve(installed: Installed) -> None:
    """C12: `citewell serve --shipped` from the wheel is ready, and answers with the shipped passages."""
    with served(installed) as address:
        body = json.dumps({"query": "NW-SL45/20-D"}).encode()
        request = urllib.request.Request(  # noqa: S310 - the server of this test
            f"{address}/v1/retrieve", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - the same
            found = json.load(answer)
    assert found["results"][0]["provenance"]["item_id"] == "sl45-overview-2024"


@contextmanager
def served(installed: Installed) -> Iterator[str]:
    """The address of a server that says that it is ready."""
    process = subprocess.Popen(
        installed.citewell("serve", "--shipped", "--port", "0"),
        cwd=installed.home,
        env=installed.variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        told = next((line for line in process.stderr if "listens on " in line), "")
        assert told, "the server ended"
        address = told.split("listens on ")[1].split()[0]
        wait_until_ready(address)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def wait_until_ready(address: str) -> None:
    """Ask until the server is ready."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health/ready", timeout=10) as answer:  # noqa: S310 - the same
                assert answer.status == 200
                return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < until, "the server does not get ready"
            time.sleep(0.1)
