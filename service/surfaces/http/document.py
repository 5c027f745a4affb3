"""The OpenAPI document: the paths as the framework routes them, the shapes as msgspec reads and writes them."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, cast

import msgspec
from litestar import Request, Router
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from service.surfaces import envelope, wire
from service.surfaces.http import answers, bodies, health, importing, problems

SCHEMA_PATH: Final = "/schema"
_SERVED: Final = (SCHEMA_PATH, f"{SCHEMA_PATH}/openapi.json")
_SHAPES: Final = (
    *(answers.EvidenceOut, answers.HandOffOut, answers.ItemAnswer, answers.ChainOut, answers.LifecycleOut),
    *(answers.TagStateOut, answers.TagsOut, envelope.RetrievalOut),
    *(bodies.RetrieveIn, bodies.SelectionIn, bodies.SupersedeIn, bodies.TagIn, bodies.DecisionIn),
    *(bodies.NoFields, health.LiveOut, health.ReadyOut, health.NotReadyOut),
    *(importing.StoredLine, importing.RefusedLine, problems.Problem),
    *(wire.CaptureIn, wire.CaptureOut, wire.VocabularyIn, wire.TagOut),
)
_REFERENCE: Final = "#/components/schemas/{name}"

Json = dict[str, object]


class DocumentPlugin(JsonRenderPlugin):
    """Serves the document as JSON, and nothing that would need a network to be looked at."""

    def render(self, request: Request[None, None, State], openapi_schema: Json) -> bytes:
        """The document's bytes."""
        return msgspec.json.encode(amended(openapi_schema))


def amended(document: Json) -> Json:
    """The framework's document with msgspec's own schemas, and with bodies that may be absent said to be so."""
    _, schemas = msgspec.json.schema_components(_SHAPES, ref_template=_REFERENCE)
    components = cast("Json", document["components"])
    paths = cast("dict[str, Json]", document["paths"])
    return {
        **document,
        "components": {**components, "schemas": {**cast("Json", components["schemas"]), **schemas}},
        "paths": {
            path: {method: _with_body(cast("Json", operation)) for method, operation in item.items()}
            for path, item in paths.items()
        },
    }


def _with_body(operation: Json) -> Json:
    """The operation with `required` told by whether its body may be null."""
    body = cast("Json | None", operation.get("requestBody"))
    if body is None:
        return operation
    content = cast("Mapping[str, Mapping[str, Mapping[str, object]]]", body["content"])
    may_be_absent = any("oneOf" in media["schema"] for media in content.values())
    return {**operation, "requestBody": {**body, "required": bool(body["required"]) and not may_be_absent}}


async def only_the_document(request: Request[None, None, State]) -> None:
    """Raises NotFoundException for what the framework would answer with a page of its own."""
    if request.scope["path"] not in _SERVED:
        raise NotFoundException


def openapi_config() -> OpenAPIConfig:
    """OpenAPI 3.1 at SCHEMA_PATH."""
    return OpenAPIConfig(
        title="citewell",
        version=version("citewell"),
        description="Passages that can be cited, and never a stale one.",
        use_handler_docstrings=True,
        render_plugins=[DocumentPlugin()],
        openapi_router=Router(
            SCHEMA_PATH, route_handlers=[], include_in_schema=False, before_request=only_the_document
        ),
    )
