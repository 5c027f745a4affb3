"""The documentation names everything there is, and says of it what the code says."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from litestar.handlers import HTTPRouteHandler

import service
from service.core.access import KeyScope
from service.errors import CitewellError, InvalidInput
from service.search.degradation import Reason
from service.settings import Settings
from service.surfaces.http.access import EVERYWHERE, NEEDS
from service.surfaces.http.app import create_app
from service.surfaces.http.problems import problem_of

ROOT = Path(service.__file__).parents[1]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
CONTRACT = (ROOT / "docs" / "contract.md").read_text("utf-8")


def variables() -> dict[str, object]:
    """The environment variable of every setting, and its default."""
    return {
        str(field.validation_alias or f"CITEWELL_{name.upper()}"): field.default
        for name, field in Settings.model_fields.items()
    }


def documented_defaults() -> dict[str, str]:
    """What the operator's table says of each variable's default."""
    found: dict[str, str] = {}
    for names, said in re.findall(r"^\| (`C[A-Z_`, ]+`) \| ([^|]+) \|", OPERATIONS, re.MULTILINE):
        each = re.findall(r"`([A-Z_]+)`", names)
        values = said.split(", ") if len(each) > 1 else [said]
        assert len(values) == len(each), names
        found |= {name: value.replace("`", "").strip() for name, value in zip(each, values, strict=True)}
    return found


def is_said(default: object, said: str) -> bool:
    """Whether a table's words are this default; one that is worked out later is put into words."""
    if default in (None, "") or not isinstance(default, str | int | float | Path):
        return True
    if isinstance(default, bool):
        return said == str(default).lower()
    if isinstance(default, int | float):
        return float(said.replace(",", "")) == default
    return said == str(default)


@pytest.mark.parametrize("variable", variables())
def test_every_setting_is_documented(variable: str) -> None:
    """Each setting stands in the operator's table with the default that it has."""
    assert is_said(variables()[variable], documented_defaults()[variable])


def test_no_other_setting_is_documented() -> None:
    """The operator's table has no setting that there is not."""
    assert documented_defaults().keys() == variables().keys()


def errors() -> dict[str, set[type[CitewellError]]]:
    """The errors that the service's modules define, by their codes."""
    for module in pkgutil.walk_packages(service.__path__, "service."):
        if not re.search(r"\.(migrations|shipped)\b", module.name):
            importlib.import_module(module.name)
    found: dict[str, set[type[CitewellError]]] = {}
    waiting: list[type[CitewellError]] = [CitewellError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("service."):  # the harness documents its own
            found.setdefault(kind.code, set()).add(kind)
        waiting += kind.__subclasses__()
    return found


def documented_statuses() -> dict[str, str]:
    """The HTTP status that the contract's list gives each code."""
    return dict(re.findall(r"^\| `([a-z_]+)` \| (\d+|–) \|", CONTRACT, re.MULTILINE))


def test_every_error_code_is_documented() -> None:
    """U16: each stable code stands in the contract's list."""
    assert sorted(errors().keys() - documented_statuses().keys()) == []


def test_the_statuses_of_errors_are_as_documented() -> None:
    """U16: an error is answered with the status in the contract's list; without one it is never answered."""
    statuses = documented_statuses()
    for code, kinds in errors().items():
        for kind in kinds - {CitewellError}:
            answered = status_of(kind)
            assert statuses[code] == ("–" if answered == 500 else str(answered)), code


def status_of(kind: type[CitewellError]) -> int:
    """The HTTP status of an error, whatever its own constructor takes."""
    error = kind.__new__(kind)
    CitewellError.__init__(error, "for the test")
    if isinstance(error, InvalidInput):
        error.field = None
    return problem_of(error).status


def test_every_reason_of_the_vector_arm_is_documented() -> None:
    """C27: the closed list of reasons is the operator's list."""
    assert [reason for reason in Reason if f"`{reason.value}`" not in OPERATIONS] == []


def routes() -> dict[str, str]:
    """What each route of the API needs, in the contract's words."""
    found: dict[str, str] = {}
    for route in create_app(Settings()).routes:
        for handler in getattr(route, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler) and handler.resolve_include_in_schema():
                path = re.sub(r":str\}", "}", route.path)
                needed: KeyScope | None = handler.opt.get(NEEDS)
                scope = "–" if needed is None else needed.value
                everywhere = ", all workspaces" if EVERYWHERE in handler.opt else ""
                for method in handler.http_methods - {"OPTIONS", "HEAD"}:
                    found[f"{method} {path}"] = scope + everywhere
    return found


def test_every_route_is_documented_with_its_scope() -> None:
    """U17: the contract's list has every route of the API with the scope that it needs, and no other route."""
    said = re.findall(r"^\| `([A-Z]+ /[^`]*)` \| ([^|]+) \|", CONTRACT, re.MULTILINE)
    assert {call: needs.strip() for call, needs in said} == routes()
