"""Fixtures of the command line tests."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from service.bootstrap import application
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from service.surfaces.cli.logs import CHATTY
from service.surfaces.shipped import load_shipped
from tests.cli.commands import CommandLine


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command sends log lines to standard error; the tests after it want them where they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line over an empty database."""
    return CommandLine(tmp_path / "data")


@pytest.fixture(scope="session")
def shipped_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the shipped corpora, loaded once."""
    folder = tmp_path_factory.mktemp("shipped")

    async def load() -> None:
        async with application(Settings(data_dir=folder)) as app:
            await load_shipped(app, DEFAULT_WORKSPACE)

    asyncio.run(load())
    return folder


@pytest.fixture
def shop(shipped_folder: Path) -> CommandLine:
    """The command line over the shipped corpora, for tests that only read."""
    return CommandLine(shipped_folder)
