"""Fixtures of the tests of load: they run commands too."""

from tests.cli.conftest import logs_as_before

__all__ = ["logs_as_before"]
