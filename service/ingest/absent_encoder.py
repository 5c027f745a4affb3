"""The encoder of a process that was told to have none. Implements Encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.model import Workspace
from service.ports.embedding import EncoderFailed, EncoderState

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

_REASON = "vectors are switched off in this process (CITEWELL_VECTORS=off)"


class AbsentEncoder:
    """Never ready; says so."""

    state = EncoderState.ABSENT
    failure: str | None = _REASON

    @property
    def fingerprint(self) -> str:
        """Raises EncoderFailed."""
        raise EncoderFailed(_REASON)

    @property
    def dimension(self) -> int:
        """Raises EncoderFailed."""
        raise EncoderFailed(_REASON)

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """Raises EncoderFailed."""
        raise EncoderFailed(_REASON)

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """Raises EncoderFailed."""
        raise EncoderFailed(_REASON)
