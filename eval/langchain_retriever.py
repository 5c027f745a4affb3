"""citewell as a LangChain retriever: passages come over HTTP, with all that is needed to cite them."""

from typing import Final

import httpx
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from service.model import DEFAULT_LIMIT, MAX_LIMIT

_CONTENT: Final = "text"


class RetrievalRefused(RuntimeError):
    """The service answered with a problem; the message is its code and its detail."""


class CitewellRetriever(BaseRetriever):
    """Asks a running service. A document's content is the passage, its metadata the rest of the result.

    `k` is the number of passages, in the constructor or a call. Without `client` each call opens a connection
    of its own, so a retriever can be pickled, shared and used from any thread.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    base_url: str = "http://127.0.0.1:8000"
    k: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    content_type: str | None = None
    timeout: float = Field(default=10.0, gt=0)  # seconds
    client: httpx.Client | None = Field(default=None, exclude=True)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        """Raises RetrievalRefused, httpx.TransportError when nobody answers."""
        body: dict[str, str | int] = {"query": query, "limit": self.k if k is None else k, "view": "brief"}
        if self.content_type is not None:
            body["content_type"] = self.content_type
        if self.client is not None:
            return _documents(self.client.post("/v1/retrieve", json=body))
        with httpx.Client(base_url=self.base_url, timeout=self.timeout) as client:
            return _documents(client.post("/v1/retrieve", json=body))


def _documents(response: httpx.Response) -> list[Document]:
    answer = (
        response.json() if response.headers.get("content-type", "").partition(";")[0].endswith("json") else {}
    )
    if response.is_error:
        code, detail = answer.get("code", response.status_code), answer.get("detail", response.reason_phrase)
        raise RetrievalRefused(f"{code}: {detail}")
    return [
        Document(
            id=result["passage_id"],
            page_content=result[_CONTENT],
            metadata={name: value for name, value in result.items() if name != _CONTENT},
        )
        for result in answer["results"]
    ]
