"""The documentation names everything there is."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import service
from service.errors import CitewellError
from service.search.degradation import Reason
from service.settings import Settings

ROOT = Path(service.__file__).parents[1]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
CONTRACT = (ROOT / "docs" / "contract.md").read_text("utf-8")


def variables() -> list[str]:
    """The environment variable of every setting."""
    return [
        str(field.validation_alias or f"CITEWELL_{name.upper()}")
        for name, field in Settings.model_fields.items()
    ]


@pytest.mark.parametrize("variable", variables())
def test_every_setting_is_documented(variable: str) -> None:
    """Each setting stands in the operator's table."""
    assert f"`{variable}`" in OPERATIONS


def codes() -> list[str]:
    """The code of every error that the service's modules define."""
    for module in pkgutil.walk_packages(service.__path__, "service."):
        if not re.search(r"\.(migrations|shipped)\b", module.name):
            importlib.import_module(module.name)
    found, waiting = set(), [CitewellError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("service."):  # the harness documents its own
            found.add(kind.code)
        waiting += kind.__subclasses__()
    return sorted(found)


def test_every_error_code_is_documented() -> None:
    """Each stable code stands in the contract's list."""
    assert [code for code in codes() if f"`{code}`" not in CONTRACT] == []


def test_every_reason_of_the_vector_arm_is_documented() -> None:
    """C27: the closed list of reasons is the operator's list."""
    assert [reason for reason in Reason if f"`{reason.value}`" not in OPERATIONS] == []
