"""What an encoder is made of and what its service may hold. Values only; nothing here reads the environment."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from embeddings.errors import InvalidEncoderSettings

DEFAULT_MODEL = "BAAI/bge-base-en-v1.5"


class Backend(StrEnum):
    """What multiplies the matrices. Both answer alike; OpenVINO answers a query in half the time."""

    TORCH = "torch"
    OPENVINO = "openvino"


class Precision(StrEnum):
    """How weights and activations are kept. Only fp32 vectors are the model's own."""

    FP32 = "fp32"
    BF16 = "bf16"
    INT8 = "int8"


class HubAccess(StrEnum):
    """Whether a model that is not on this machine may be fetched."""

    ALLOWED = "allowed"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Which model, and how it runs.

    `model` is an alias of `embeddings.shipped`, a sentence-transformers folder, or a hub name. `revision`
    is a hub branch, tag or commit. A prompt of None leaves it to the model or to `embeddings.prompts`; an
    empty one switches it off. `token_limit` caps the model's own limit, special tokens included: attention
    costs the square of it, and a query may have to wait for one such window. `window_overlap` is in tokens.
    """

    model: str = DEFAULT_MODEL
    revision: str | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None
    token_limit: int = 512
    window_overlap: int = 32
    device: str = "cpu"
    backend: Backend = Backend.TORCH
    precision: Precision = Precision.FP32
    threads: int = 1
    hub: HubAccess = HubAccess.ALLOWED
    hub_url: str | None = None
    hub_timeout_s: float = 5.0
    hub_cache: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work on any machine.

        Raises:
            InvalidEncoderSettings: a number out of range, or a precision the backend does not have.
        """
        if not self.model.strip():
            raise InvalidEncoderSettings("the embedding model has no name")
        if self.token_limit < 8 or self.window_overlap < 0 or self.window_overlap * 2 > self.token_limit:
            raise InvalidEncoderSettings(
                "windows need a limit of 8 tokens and an overlap of at most half of it"
            )
        if self.threads < 1 or self.hub_timeout_s <= 0:
            raise InvalidEncoderSettings("threads and hub timeout must be positive")
        if self.precision is Precision.INT8 and self.backend is not Backend.OPENVINO:
            raise InvalidEncoderSettings("int8 needs the openvino backend")
        if self.backend is Backend.OPENVINO and self.device != "cpu":
            raise InvalidEncoderSettings("the openvino backend runs on the cpu")


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of an `EncoderService`; times in seconds.

    A passage batch holds up to `passage_tokens` padded tokens, or one longer window: it is what a query
    may have to wait for. After `stuck_after_s` in one batch the worker counts as stuck; after
    `replace_after_s` it is abandoned and a new one loads the model again.
    """

    query_batch: int = 16
    waiting_queries: int = 256
    passage_tokens: int = 512
    waiting_passages: int = 2048
    cached_queries: int = 4096
    query_deadline_s: float = 10.0
    stuck_after_s: float = 30.0
    replace_after_s: float = 120.0
    retry_first_s: float = 5.0
    retry_longest_s: float = 300.0
    close_within_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse bounds that would accept nothing.

        Raises:
            InvalidEncoderSettings: a bound below one, or a negative time.
        """
        counts = (self.query_batch, self.waiting_queries, self.passage_tokens, self.waiting_passages)
        if min(counts) < 1 or self.cached_queries < 0:
            raise InvalidEncoderSettings("encoder bounds must be at least one")
        times = (self.query_deadline_s, self.stuck_after_s, self.replace_after_s, self.retry_first_s)
        if min(times) <= 0 or self.retry_longest_s < self.retry_first_s or self.close_within_s < 0:
            raise InvalidEncoderSettings("encoder times must be positive")
