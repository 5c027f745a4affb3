"""The error tree of this package. Every error has a stable code and one sentence for a person."""

from typing import ClassVar


class EmbeddingError(Exception):
    """Base of every error this package raises on purpose.

    `detail` is one sentence for a person; it never holds the text that was to be encoded.
    """

    code: ClassVar[str] = "embedding"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class InvalidEncoderSettings(EmbeddingError):
    """The settings contradict each other or the model; no retry can help."""

    code = "invalid_encoder_settings"


class ModelNotFound(EmbeddingError):
    """Nothing of that name: no such folder, alias, or repository on the hub."""

    code = "model_not_found"


class HubUnreachable(EmbeddingError):
    """The model is not on this machine and its hub cannot be asked, or may not be."""

    code = "hub_unreachable"


class UnsuitableModel(EmbeddingError):
    """The files are there and do not make a text encoder: damaged, foreign, or in need of their own code."""

    code = "unsuitable_model"


class BackendUnavailable(EmbeddingError):
    """The backend's package is not installed or cannot run this model."""

    code = "backend_unavailable"


class PrecisionRefused(EmbeddingError):
    """The self-check at load found vectors too far from the fp32 reference."""

    code = "precision_refused"

    def __init__(self, detail: str, *, cosine: float) -> None:
        super().__init__(detail)
        self.cosine = cosine


class InvalidText(EmbeddingError):
    """The text has nothing to encode, or holds a lone surrogate."""

    code = "invalid_text"


class EncodingFailed(EmbeddingError):
    """The model raised while encoding."""

    code = "encoding_failed"


class InvalidVectors(EncodingFailed):
    """The model returned vectors of a wrong shape, not finite, or of length zero."""

    code = "invalid_vectors"


class EncoderNotReady(EmbeddingError):
    """The encoder is absent, loading, failed or stuck; `EncoderService.state` says which."""

    code = "encoder_not_ready"


class EncoderClosed(EncoderNotReady):
    """The encoder service was closed before the text was encoded."""

    code = "encoder_closed"


class Overloaded(EmbeddingError):
    """The bounded queue is full; the text was not accepted."""

    code = "encoder_overloaded"


class EncodingTimedOut(EmbeddingError):
    """The vector did not come within the deadline; the worker may still be busy with it."""

    code = "encoding_timed_out"
