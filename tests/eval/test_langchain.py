"""The LangChain adapter, by that ecosystem's own suite, against a running service."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar.testing import TestClient

pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

from langchain_tests.integration_tests import RetrieversIntegrationTests

from eval.langchain_retriever import CitewellRetriever, RetrievalRefused
from service.settings import Settings
from service.surfaces.http.app import create_app

pytestmark = pytest.mark.anyio


class TestCitewellRetriever(RetrieversIntegrationTests):
    """The published suite for retrievers."""

    @pytest.fixture(autouse=True)
    def served(self, tmp_path: Path) -> Iterator[None]:
        """A service with five passages that a query finds."""
        with TestClient(create_app(Settings(data_dir=tmp_path))) as client:
            for number in range(5):
                response = client.post(
                    "/v1/items",
                    json={
                        "title": f"Sill {number}",
                        "content_type": "tech-doc",
                        "source_type": "upload",
                        "source_filename": f"sill-{number}.md",
                        "version": "1",
                        "passages": [{"heading": "Height", "text": f"The sill number {number} is flush."}],
                    },
                )
                assert response.status_code in (200, 201)
            self.client = client
            yield

    @property
    def retriever_constructor(self) -> type[CitewellRetriever]:
        """The retriever under test."""
        return CitewellRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        """It asks the service of this test."""
        return {"client": self.client}

    @property
    def retriever_query_example(self) -> str:
        """A query that finds five passages."""
        return "a flush sill"

    def test_passages_can_be_cited(self) -> None:
        """C10: a document carries the passage's id, heading, score and provenance."""
        (document,) = CitewellRetriever(client=self.client, k=1).invoke("a flush sill")
        assert document.page_content.startswith("The sill number")
        assert document.id == document.metadata["passage_id"]
        assert document.metadata["provenance"]["version"] == "1"
        assert document.metadata["heading"] == "Height"

    def test_a_refusal_has_its_code(self) -> None:
        """A request that the service refuses is an error with the service's own code."""
        with pytest.raises(RetrievalRefused, match="unknown_content_type"):
            CitewellRetriever(client=self.client, content_type="novel").invoke("sill")
