"""Fixtures of the packaging tests: the wheel of the checkout, built once, and the command line."""

import importlib.util
from pathlib import Path

import pytest

from tests.cli.commands import CommandLine
from tests.cli.conftest import logs_as_before  # noqa: F401 - commands run here too
from tests.packaging.wheels import ROOT, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; skips, saying so, where the build backend is not installed."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line over an empty database."""
    return CommandLine(tmp_path / "data")
