"""Why the vector arm has no answer."""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why the vector arm did not run: a closed list."""

    OFF = "off"
    SHADOW = "shadow"
    NOT_IN_ROLLOUT = "not_in_rollout"
    NO_MODEL = "no_model"
    MODEL_LOADING = "model_loading"
    ENCODE_TIMEOUT = "encode_timeout"
    ENCODE_ERROR = "encode_error"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_TIMEOUT = "store_timeout"
    STORE_ERROR = "store_error"
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"
    NO_VECTORS = "no_vectors"
    FORCED_OFF = "forced_off"

    @property
    def is_timeout(self) -> bool:
        """Whether it cost its caller all the time there was."""
        return self in (Reason.STORE_TIMEOUT, Reason.ENCODE_TIMEOUT)


STORE_REASONS: Final = (
    Reason.STORE_UNAVAILABLE,
    Reason.STORE_TIMEOUT,
    Reason.STORE_ERROR,
    Reason.FINGERPRINT_MISMATCH,
    Reason.NO_VECTORS,
)  # that a search can have


class ArmDegraded(Exception):
    """The arm has no answer, for a reason of the closed list."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
