"""The OpenAPI document: valid, complete, and kept to by the service whatever is sent."""

from collections.abc import Mapping

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from litestar import Litestar
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import BaseSchema, GenerationMode
from schemathesis.checks import load_all_checks, positive_data_acceptance

from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.http.calls import Json, part, read
from tests.http.conftest import SteadyClient

load_all_checks()


@schemathesis.serializer("application/x-ndjson")
def lines_as_they_are(_: schemathesis.SerializationContext, value: object) -> bytes:
    """A generated text: lines that cannot be stored."""
    return str(value).encode("utf-8", errors="surrogatepass")


OPERATIONS = {
    ("POST", "/v1/retrieve"),
    ("GET", "/v1/systems/{system_id}/passages"),
    ("POST", "/v1/selection/passages"),
    ("POST", "/v1/selection/evidence"),
    ("POST", "/v1/selection/hand-off"),
    ("POST", "/v1/items"),
    ("POST", "/v1/items/import"),
    ("GET", "/v1/items/{item_id}"),
    ("GET", "/v1/items/{item_id}/supersession"),
    ("POST", "/v1/items/{item_id}/retire"),
    ("POST", "/v1/items/{item_id}/supersede"),
    ("PUT", "/v1/vocabulary"),
    ("GET", "/v1/vocabulary"),
    ("POST", "/v1/facet-tags"),
    ("POST", "/v1/facet-tags/{tag_id}/accept"),
    ("POST", "/v1/facet-tags/{tag_id}/reject"),
    ("GET", "/v1/facet-tags"),
    ("GET", "/v1/flag/shadow-report"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
}
# Any path segment is an id, and any text may be an import: there is nothing that they could not be given.
UNBREAKABLE = {
    ("GET", "/v1/items/{item_id}"),
    ("GET", "/v1/items/{item_id}/supersession"),
    ("POST", "/v1/items/import"),
    ("GET", "/v1/vocabulary"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
}


@pytest.fixture(scope="module")
def document(steady: SteadyClient) -> Json:
    """The document as it is served."""
    return read(steady.get("/schema"))


def test_the_document_is_valid(steady: SteadyClient, document: Json) -> None:
    """U16: the document is OpenAPI 3.1, served under two names and under no other."""
    assert str(document["openapi"]).startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()
    assert read(steady.get("/schema/openapi.json")) == document
    assert steady.get("/schema").headers["content-type"] == "application/vnd.oai.openapi+json"


def test_the_document_is_complete(document: Json) -> None:
    """U16: every route is documented, each with its problems as problem details."""
    operations = {
        (method.upper(), path): part(document, "paths", path, method)
        for path in part(document, "paths")
        for method in part(document, "paths", path)
    }
    assert operations.keys() == OPERATIONS
    for operation in operations.values():
        answers = part(operation, "responses")
        assert {"400", "500", "503"} <= answers.keys()
        for status in answers:
            if status >= "400":
                assert part(answers, status, "content").keys() == {"application/problem+json"}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)


def test_unknown_fields_are_documented_as_refused(document: Json) -> None:
    """U16: what the service refuses, the document refuses."""
    schemas = part(document, "components", "schemas")
    for name in (
        "RetrieveIn",
        "SelectionIn",
        "CaptureIn",
        "PassageIn",
        "VocabularyIn",
        "TagIn",
        "SupersedeIn",
    ):
        assert part(schemas, name)["additionalProperties"] is False
    limit = part(schemas, "RetrieveIn", "properties", "limit")
    assert limit == {"type": "integer", "minimum": 1, "maximum": 200, "default": 8}


def test_bodies_that_may_be_absent(document: Json) -> None:
    """U16: the document says which bodies a caller may leave out."""
    for path, required in (
        ("/v1/items/{item_id}/retire", False),
        ("/v1/facet-tags/{tag_id}/accept", False),
        ("/v1/items/{item_id}/supersede", True),
        ("/v1/retrieve", True),
    ):
        assert part(document, "paths", path, "post", "requestBody")["required"] is required


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Litestar:
    """An application for the generator; it runs it in this process."""
    return create_app(Settings(data_dir=tmp_path_factory.mktemp("generated")))


@pytest.fixture(scope="module")
def api(served: Litestar) -> BaseSchema:
    """The document as the generator reads it."""
    return schemathesis.openapi.from_asgi("/schema", served)


@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS))
def test_whatever_fits_the_document(api: BaseSchema, method: str, path: str) -> None:
    """C21: whatever fits the document gets an answer that fits it too, and never a 5xx."""
    send_generated(api, (method, path), GenerationMode.POSITIVE)


@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS - UNBREAKABLE))
def test_whatever_breaks_the_document(api: BaseSchema, method: str, path: str) -> None:
    """C21: whatever breaks the document is refused with a documented 4xx, never accepted and never a 5xx."""
    send_generated(api, (method, path), GenerationMode.NEGATIVE)


def send_generated(
    api: BaseSchema,
    operation: tuple[str, str],
    mode: GenerationMode,
    headers: Mapping[str, str] | None = None,
    examples: int = 25,
) -> set[int]:
    """Send some requests to an operation and check their answers against the document; their statuses."""
    method, path = operation
    statuses = set()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(api[path][method].as_strategy(generation_mode=mode))
    def sent(case: schemathesis.Case) -> None:  # type: ignore[type-arg] # generic in types it does not export
        # What a schema cannot say (a cursor is one that was issued, an id is not taken) may be refused.
        answer = case.call_and_validate(
            headers=None if headers is None else dict(headers), excluded_checks=[positive_data_acceptance]
        )
        statuses.add(answer.status_code)

    sent()
    return statuses
