"""The OpenAPI document: the paths as the framework routes them, the shapes as msgspec reads and writes them."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final, cast

import msgspec
from litestar import Request, Router
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.handlers.http_handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import Method

from service.surfaces import envelope, flag_readings, readings, wire
from service.surfaces.http import answers, bodies, health, importing, problems
from service.surfaces.http.access import SCHEMA_PATH
from service.surfaces.http.requests import refuse_unknown_query

_SERVED: Final = (SCHEMA_PATH, f"{SCHEMA_PATH}/openapi.json")
_SHAPES: Final = (
    *(answers.EvidenceOut, answers.HandOffOut, answers.LifecycleOut, answers.TagStateOut),
    *(envelope.RetrievalOut, readings.ItemReading, readings.ChainReading, readings.TagsReading),
    *(bodies.RetrieveIn, bodies.SelectionIn, bodies.SupersedeIn, bodies.TagIn, bodies.DecisionIn),
    *(bodies.NoFields, health.LiveOut, health.ReadyOut, health.NotReadyOut),
    *(importing.StoredLine, importing.RefusedLine, problems.Problem),
    *(wire.CaptureIn, wire.CaptureOut, wire.VocabularyIn, wire.TagOut, flag_readings.ShadowReportOut),
)
_REFERENCE: Final = "#/components/schemas/{name}"

Json = dict[str, object]
_NULL: Final[Json] = {"type": "null"}


class DocumentPlugin(JsonRenderPlugin):
    """Serves the document as JSON, and nothing that would need a network to be looked at."""

    _rendered: bytes | None = None

    def render(self, request: Request[None, None, State], openapi_schema: Json) -> bytes:
        """The document's bytes; they are the same for the life of the process."""
        if self._rendered is None:
            self._rendered = msgspec.json.encode(amended(openapi_schema))
        return self._rendered


def amended(document: Json) -> Json:
    """The framework's document with msgspec's own schemas, and with what may be absent said to be so."""
    _, schemas = msgspec.json.schema_components(_SHAPES, schema_hook=_any_json, ref_template=_REFERENCE)
    components = cast("Json", document["components"])
    paths = cast("dict[str, Json]", document["paths"])
    return {
        **document,
        "components": {**components, "schemas": {**cast("Json", components["schemas"]), **schemas}},
        "paths": {
            path: {method: _amended_operation(cast("Json", operation)) for method, operation in item.items()}
            for path, item in paths.items()
        },
    }


def _any_json(_: type) -> Json:
    """The schema of `object`, the one type that msgspec does not know: a value of any kind."""
    return {"description": "any JSON value"}


def _amended_operation(operation: Json) -> Json:
    """A body that may be null may be absent; a query parameter that may be absent cannot be null."""
    amended_parts: Json = {}
    if "requestBody" in operation:
        body = cast("Json", operation["requestBody"])
        content = cast("Mapping[str, Mapping[str, Mapping[str, object]]]", body["content"])
        may_be_absent = any("oneOf" in media["schema"] for media in content.values())
        amended_parts["requestBody"] = {**body, "required": bool(body["required"]) and not may_be_absent}
    if "parameters" in operation:
        parameters = cast("Sequence[Json]", operation["parameters"])
        amended_parts["parameters"] = [
            {**parameter, "schema": _without_null(cast("Json", parameter["schema"]))}
            for parameter in parameters
        ]
    return {**operation, **amended_parts}


def _without_null(schema: Json) -> Json:
    choices = [choice for choice in cast("Sequence[Json]", schema.get("oneOf", ())) if choice != _NULL]
    if len(choices) != 1:
        return schema
    return {**choices[0], **{name: value for name, value in schema.items() if name != "oneOf"}}


def _operation_id(handler: HTTPRouteHandler, _: Method, __: object) -> str:
    return handler.handler_name


async def only_the_document(request: Request[None, None, State]) -> None:
    """Raises NotFoundException for what the framework would answer with a page of its own."""
    if request.scope["path"] not in _SERVED:
        raise NotFoundException
    await refuse_unknown_query(request)


def openapi_config() -> OpenAPIConfig:
    """OpenAPI 3.1 at SCHEMA_PATH."""
    return OpenAPIConfig(
        title="citewell",
        version=version("citewell"),
        description="Passages that can be cited, and never a stale one.",
        use_handler_docstrings=True,
        components=Components(
            security_schemes={
                "key": SecurityScheme(
                    type="http",
                    scheme="bearer",
                    description="An API key (citewell keys create). Needed once one was made; "
                    "X-Citewell-Workspace chooses among a key's workspaces.",
                )
            }
        ),
        security=[{"key": []}, {}],
        operation_id_creator=_operation_id,
        render_plugins=[DocumentPlugin()],
        openapi_router=Router(
            SCHEMA_PATH, route_handlers=[], include_in_schema=False, before_request=only_the_document
        ),
    )
