"""The embeddings package behind the service's own port. Implements Encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from embeddings.encoder_service import EncoderService
from embeddings.encoder_state import Phase
from embeddings.errors import EmbeddingError, InvalidText, Overloaded
from service.model import Workspace
from service.ports.embedding import EncoderBusy, EncoderFailed, EncoderState, TextRefused

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

_STATES = {
    Phase.ABSENT: EncoderState.ABSENT,
    Phase.LOADING: EncoderState.LOADING,
    Phase.READY: EncoderState.READY,
    Phase.STUCK: EncoderState.READY,  # a call finds out by its own deadline, and the worker may recover
    Phase.FAILED: EncoderState.FAILED,
    Phase.CLOSED: EncoderState.ABSENT,
}


class ServiceEncoder:
    """Translates states and errors; encodes nothing itself."""

    def __init__(self, service: EncoderService) -> None:
        self._service = service

    @property
    def state(self) -> EncoderState:
        """Loading happens in the background; nothing waits for it."""
        return _STATES[self._service.state.phase]

    @property
    def failure(self) -> str | None:
        """Why the model could not be loaded, or why it is stuck."""
        return self._service.state.reason

    @property
    def fingerprint(self) -> str:
        """The id of everything that changes a vector. Raises EncoderFailed before the model was loaded."""
        if self._service.fingerprint is None:
            raise EncoderFailed("the model is not loaded")
        return self._service.fingerprint.id

    @property
    def dimension(self) -> int:
        """Components of a vector. Raises EncoderFailed before the model was loaded."""
        if self._service.fingerprint is None:
            raise EncoderFailed("the model is not loaded")
        return self._service.fingerprint.dimension

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """A (dimension,) float32 unit vector, remembered for this workspace only.

        Raises TextRefused, EncoderBusy, EncoderFailed.
        """
        try:
            return await self._service.encode_query(text, partition=workspace)
        except EmbeddingError as error:
            raise _as_ours(error) from error

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """Per text its windows, (windows, dimension) float32 unit rows; refused where one of the texts is.

        Raises TextRefused, EncoderBusy, EncoderFailed.
        """
        try:
            return await self._service.encode_passages(texts)
        except EmbeddingError as error:
            raise _as_ours(error) from error


def _as_ours(error: EmbeddingError) -> EncoderFailed:
    """The same in the port's words. Whose fault it is matters: an ill encoder is closed to everybody."""
    if isinstance(error, InvalidText):
        return TextRefused(error.detail)
    return EncoderBusy(error.detail) if isinstance(error, Overloaded) else EncoderFailed(error.detail)
