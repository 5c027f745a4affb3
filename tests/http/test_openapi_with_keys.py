"""The OpenAPI document kept to by a service with keys, whoever asks and whatever is sent."""

import asyncio
import re

import pytest
import schemathesis
from litestar import Litestar
from litestar.routes import HTTPRoute
from schemathesis import BaseSchema, GenerationMode

from service.bootstrap import keyring
from service.core.access import EVERY_WORKSPACE, KeyScope
from service.ingest.keys import KeyOrder
from service.settings import Settings
from service.surfaces.http.access import EVERYWHERE, NEEDS
from service.surfaces.http.app import create_app
from tests.http.test_openapi import OPERATIONS, UNBREAKABLE, send_generated

READER, EVERYTHING, STRANGER, SINGLE = "a reader", "all scopes", "nobody", "one workspace, all scopes"
EXAMPLES = 8


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Where the application and its keys are."""
    return Settings(data_dir=tmp_path_factory.mktemp("locked"))


@pytest.fixture(scope="module")
def served(locked: Settings) -> Litestar:
    """An application in whose database keys are made; the generator runs it in this process."""
    return create_app(locked)


@pytest.fixture(scope="module")
def callers(locked: Settings) -> dict[str, dict[str, str]]:
    """The headers of each kind of caller."""

    async def made() -> dict[str, dict[str, str]]:
        orders = {
            READER: KeyOrder(READER, frozenset({"default"}), frozenset({KeyScope.READ})),
            SINGLE: KeyOrder(SINGLE, frozenset({"default"}), frozenset(KeyScope)),
            EVERYTHING: KeyOrder(EVERYTHING, frozenset({EVERY_WORKSPACE}), frozenset(KeyScope)),
        }
        async with keyring(locked) as control:
            keys = {name: (await control.create(order)).text for name, order in orders.items()}
        return {STRANGER: {}} | {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}

    return asyncio.run(made())


@pytest.fixture(scope="module")
def api(served: Litestar, callers: dict[str, dict[str, str]]) -> BaseSchema:
    """The document as the generator reads it; the keys are there before anything is asked."""
    assert callers
    return schemathesis.openapi.from_asgi("/schema", served)


def refusal(served: Litestar, operation: tuple[str, str], caller: str) -> int | None:
    """The status with which the route's own declaration refuses such a caller, whatever is sent."""
    method, path = operation
    route = next(one for one in served.routes if re.sub(r":\w+", "", one.path) == path)
    assert isinstance(route, HTTPRoute)
    handler = next(one for one in route.route_handlers if method in one.http_methods)
    needed = handler.opt[NEEDS]
    if needed is None:
        return None
    if caller == STRANGER:
        return 401
    if caller == READER and needed is not KeyScope.READ:
        return 403
    return 403 if handler.opt.get(EVERYWHERE) and caller != EVERYTHING else None


@pytest.mark.parametrize("caller", [STRANGER, READER, SINGLE, EVERYTHING])
@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS))
def test_whoever_asks(
    api: BaseSchema,
    served: Litestar,
    callers: dict[str, dict[str, str]],
    method: str,
    path: str,
    caller: str,
) -> None:
    """U16: with keys too every answer is documented and none a 5xx; a key that does not reach gets 401 or 403."""
    refused = refusal(served, (method, path), caller)
    modes = [GenerationMode.POSITIVE]
    if (method, path) not in UNBREAKABLE and refused is None:
        modes.append(GenerationMode.NEGATIVE)
    for mode in modes:
        statuses = send_generated(api, (method, path), mode, callers[caller], EXAMPLES)
        assert statuses
        if refused is None:
            assert 401 not in statuses  # a workspace or a drill that the key does not reach may be 403
            assert caller != EVERYTHING or 403 not in statuses
        else:
            assert statuses == {refused}
