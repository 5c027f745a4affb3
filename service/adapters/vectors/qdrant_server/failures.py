"""What goes wrong between the client and the server, as the port's errors."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc  # type: ignore[import-untyped]  # ships no type information
import httpx
from pydantic import ValidationError
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from service.adapters.vectors.deadlines import until
from service.ports.vectors import (
    CollectionMissing,
    DimensionMismatch,
    MalformedAnswer,
    VectorStorageFull,
    VectorStoreError,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)

_MISSING = "no such vector collection"
_DOWN = "the vector store does not answer"
_LATE = "the vector store did not answer before the deadline"
_UNREADABLE = "the vector store's answer cannot be read"
_BUSY_STATUS = {429, 502, 503}
_LATE_STATUS = {408, 504}
_FULL_STATUS = 507
_BUSY_CODES = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}


class CollectionExists(VectorStoreError):
    """Somebody else made it meanwhile."""


@asynccontextmanager
async def answered(deadline: float) -> AsyncIterator[None]:
    """Cancel the calls inside at the deadline, and translate what they raise.

    Raises:
        VectorStoreError: and nothing else of the client's.
    """
    try:
        async with until(deadline):
            yield
    except UnexpectedResponse as error:
        raise _of_status(error.status_code, str(error)) from error
    except ResponseHandlingException as error:
        raise _of_source(error.source) from error
    except (ApiException, QdrantException) as error:
        raise VectorStoreUnavailable("the vector store turns requests away") from error
    except grpc.aio.AioRpcError as error:
        raise _of_code(error.code(), error.details() or "") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedAnswer(_UNREADABLE) from error
    except ValueError as error:  # how the client's in-memory mode says everything
        raise _of_words(str(error)) from error
    except AssertionError as error:  # the client asserts that an answer has a result
        raise MalformedAnswer(_UNREADABLE) from error


def _of_status(status: int | None, said: str) -> VectorStoreError:
    if status in _BUSY_STATUS:
        return VectorStoreUnavailable(_DOWN)
    if status in _LATE_STATUS:
        return VectorStoreTimeout(_LATE)
    if status == _FULL_STATUS:
        return VectorStorageFull("the vector store has no room on its disk")
    if status == 404:
        return CollectionMissing(_MISSING)
    return _of_words(said)


def _of_code(code: grpc.StatusCode, said: str) -> VectorStoreError:
    if code in _BUSY_CODES:
        return VectorStoreUnavailable(_DOWN)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return VectorStoreTimeout(_LATE)
    if code is grpc.StatusCode.NOT_FOUND:
        return CollectionMissing(_MISSING)
    return _of_words(said)


def _of_source(source: Exception) -> VectorStoreError:
    if isinstance(source, httpx.TimeoutException):
        return VectorStoreTimeout(_LATE)
    if isinstance(source, httpx.TransportError):
        return VectorStoreUnavailable(_DOWN)
    if isinstance(source, ValidationError):
        return MalformedAnswer(_UNREADABLE)
    return VectorStoreError("the vector store could not be asked")


def _of_words(said: str) -> VectorStoreError:
    lower = said.lower()
    if "no space left" in lower or "disk is full" in lower:
        return VectorStorageFull("the vector store has no room on its disk")
    if "dimension" in lower:
        return DimensionMismatch("the vector is not of the collection's dimension")
    if "already exists" in lower:
        return CollectionExists("the collection exists already")
    if "not found" in lower or "doesn't exist" in lower:
        return CollectionMissing(_MISSING)
    return VectorStoreError("the vector store refused the request")
