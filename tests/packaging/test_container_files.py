"""The container's files, without a container engine: every step that can be tried by hand is tried."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # no type information is shipped with it

from service.settings import Settings
from service.surfaces.cli.program import ENTRIES
from tests.cli.commands import CommandLine
from tests.cli.test_serve import address_of
from tests.packaging.container import Stage, command, sent, stages
from tests.packaging.wheels import ROOT, contents_of

IGNORE = ROOT / ".dockerignore"
STAGES = stages(ROOT / "Dockerfile")
BUILD, FINAL = STAGES[0], STAGES[-1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*")
OURS = ("service", "worker")


def setting_names() -> set[str]:
    """The variable of every setting."""
    return {
        str(field.validation_alias or f"CITEWELL_{name.upper()}")
        for name, field in Settings.model_fields.items()
    }


def unknown(variables: set[str]) -> set[str]:
    """What looks like a setting and is none."""
    return {name for name in variables if name.startswith(("CITEWELL_", "CORPUS_"))} - setting_names()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with just what the build stage copies of the build's context."""
    target = tmp_path_factory.mktemp("context") / "src"
    target.mkdir()
    for sources, place in BUILD.copied:
        for source in sources:
            assert (ROOT / source).exists(), source
            assert sent(IGNORE, source), f"{source} is not sent to the build"
            copy_sent(source, target if place == "./" else target / place)
    return target


def copy_sent(source: str, place: Path) -> None:
    """Copy a file or a folder as it arrives in the build."""
    if (ROOT / source).is_file():
        shutil.copy(ROOT / source, place)
        return
    for path in (ROOT / source).rglob("*"):
        name = path.relative_to(ROOT)
        if path.is_file() and sent(IGNORE, name.as_posix()):
            to = place / path.relative_to(ROOT / source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


def test_what_is_copied_builds_the_wheel(wheel: Path, context: Path, tmp_path: Path) -> None:
    """The build stage's own step, run over what it copies, gives the wheel of the checkout, file for file."""
    step = next(argument for argument in BUILD.all("RUN") if "pip wheel" in argument)
    environment = {
        **os.environ,  # noqa: TID251 - a process needs its path
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - the same
        "PIP_NO_INDEX": "1",
    }
    step = step.replace("/wheels", str(tmp_path)).replace(
        "pip wheel", "python -m pip wheel --no-build-isolation"
    )
    subprocess.run(["sh", "-euc", step], cwd=context, env=environment, check=True, capture_output=True)
    (built,) = tmp_path.glob("citewell-*.whl")
    assert contents_of(built) == contents_of(wheel)


def test_only_what_is_needed_is_sent() -> None:
    """Neither version control, environments, data, tests nor caches are sent to the build."""
    for name in (
        *(".git/HEAD", ".venv/bin/python", "data/citewell.db", "tests/conftest.py", "docs/contract.md"),
        *(
            "service/__pycache__/model.cpython-311.pyc",
            "service/.mypy_cache/x.db",
            "eval/runs/latest/run.json",
        ),
        *(".env", "compose.yaml", "Makefile"),
    ):
        assert not sent(IGNORE, name), name
    for name in (
        "service/shipped/products/tags.json",
        "eval/data/DATASHEET.md",
        "LICENSE",
        "constraints.txt",
    ):
        assert sent(IGNORE, name), name


@pytest.mark.parametrize("step", [step for stage in STAGES for step in stage.all("RUN")])
def test_every_step_is_shell(step: str) -> None:
    """Every RUN line is a program that a POSIX shell can read."""
    subprocess.run(["sh", "-n", "-c", step], check=True)


def test_stages_refer_to_each_other() -> None:
    """Every stage that is copied from, or built on, stands before; bases are pinned by their tags."""
    known: list[str] = []
    tag = re.search(r"^ARG PYTHON=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert tag is not None
    for stage in STAGES:
        base = stage.base.replace("${PYTHON}", tag.group(1))
        assert base in (*known, "scratch") or PINNED.fullmatch(base), base
        for argument in stage.all("COPY"):
            for name in re.findall(r"--from=(\S+)", argument):
                assert name in known
        known.append(stage.name)


def test_it_runs_as_nobody() -> None:
    """The image's user is a number that is not root's, and owns just the folders that are written to."""
    user = FINAL.one("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    made = next(step for step in FINAL.all("RUN") if "useradd" in step)
    assert f"chown {user} /data /models" in made
    assert json.loads(FINAL.one("VOLUME")) == ["/data", "/models"]
    assert FINAL.variables["CITEWELL_DATA_DIR"] == "/data"
    assert FINAL.variables["HF_HOME"] == "/models"


def test_the_variables_of_the_image_are_settings() -> None:
    """Whatever the image sets under the project's prefix is read by it."""
    assert unknown(set(FINAL.variables)) == set()


def test_labels() -> None:
    """The image says in the standard's words what it is."""
    (labels,) = FINAL.all("LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels


def test_what_the_image_runs() -> None:
    """The image's command is the service, open to other machines and never without keys."""
    assert command(FINAL.one("ENTRYPOINT")) == ["citewell"]
    assert command(FINAL.one("CMD")) == ["serve"]
    assert FINAL.variables["CITEWELL_HOST"] == "0.0.0.0"  # noqa: S104 - inside its container
    assert FINAL.one("STOPSIGNAL") == "SIGTERM"


def test_the_image_needs_a_key_and_stops_gracefully(cli: CommandLine) -> None:
    """U13: with the image's address the service refuses to start before there is a key; its check and its
    stop signal then work.
    """
    cli.environment.update(CITEWELL_HOST=FINAL.variables["CITEWELL_HOST"])
    cli.fails(2, "invalid_input", *command(FINAL.one("CMD")), "--port", "0")
    cli.ok("keys", "create", "me")
    process = cli.process(*command(FINAL.one("CMD")), "--port", "0")
    try:
        port = address_of(process).rpartition(":")[2]
        assert health(port) == 0
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode in (0, -15)
    assert health(port) != 0


def health(port: str) -> int:
    """The exit status of the image's own check."""
    _, *arguments = command(FINAL.one("HEALTHCHECK"))
    environment = {**os.environ, "CITEWELL_PORT": port}  # noqa: TID251 - a process needs its path
    done = subprocess.run([sys.executable, *arguments], env=environment, check=False, capture_output=True)
    return done.returncode


@pytest.mark.parametrize("name", OURS)
def test_composed_services(name: str) -> None:
    """Every variable is a setting, every command is a command, and nothing needs root or a writable root."""
    part = COMPOSE["services"][name]
    assert unknown(set(part["environment"])) == set()
    assert part["command"][0] in ENTRIES
    result = CommandLine(Path("unused")).run(*part["command"], "--help")
    assert result.exit_code == 0
    assert part["read_only"]
    assert part["cap_drop"] == ["ALL"]
    written = {entry.split(":")[0] for entry in part["tmpfs"]}
    written |= {entry.split(":")[1] for entry in part["volumes"]}
    assert written == {"/data", "/models", "/tmp"}  # noqa: S108 - of the container


def test_composed_settings_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that compose.yaml makes are read without complaint."""
    for name in OURS:
        for variable, value in COMPOSE["services"][name]["environment"].items():
            monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value))
        assert Settings().qdrant_url == "http://qdrant:6333"


def test_composed_parts_are_kept_alive_and_in_bounds() -> None:
    """Each part restarts, has a memory limit and is pinned or built; what others wait for has a health check."""
    for name, part in COMPOSE["services"].items():
        assert part["restart"] == "unless-stopped"
        assert "mem_limit" in part
        assert "build" in part or PINNED.fullmatch(part["image"]), name
        for needed, wish in part.get("depends_on", {}).items():
            assert wish == {"condition": "service_healthy"}
            assert "test" in COMPOSE["services"][needed]["healthcheck"]


def test_volumes_exist() -> None:
    """Every named volume that a part mounts is declared, and every declared one is mounted."""
    mounted = {
        entry.split(":")[0] for part in COMPOSE["services"].values() for entry in part.get("volumes", [])
    }
    assert mounted == set(COMPOSE["volumes"])


def test_passwords_are_never_written_down() -> None:
    """Without POSTGRES_PASSWORD nothing starts, and no file holds one."""
    for name in ("service", "worker"):
        assert COMPOSE["services"][name]["environment"]["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith(
        "${POSTGRES_PASSWORD:?"
    )


def test_qdrant_fits_its_client() -> None:
    """The server's version is at most one minor version from the client that is tested with."""
    client = re.search(r"^qdrant-client==1\.(\d+)\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    server = re.search(r":v1\.(\d+)\.", COMPOSE["services"]["qdrant"]["image"])
    assert client is not None
    assert server is not None
    assert abs(int(client.group(1)) - int(server.group(1))) <= 1


def test_stages_are_read() -> None:
    """The Dockerfile has the stages that these tests look at."""
    assert [stage.name for stage in STAGES] == ["build", "download", "model", ""]
    assert isinstance(FINAL, Stage)
