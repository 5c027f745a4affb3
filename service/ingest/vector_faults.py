"""Which part of the vector side a failure is of."""

from service.errors import Unavailable
from service.ports.embedding import EncoderFailed
from service.ports.vector_reports import VectorFault
from service.ports.vectors import StoreReason, VectorStorageFull, VectorStoreError

_OF_THE_STORE = {
    StoreReason.UNAVAILABLE: VectorFault.STORE_UNAVAILABLE,
    StoreReason.TIMEOUT: VectorFault.STORE_TIMEOUT,
    StoreReason.ERROR: VectorFault.STORE_ERROR,
    StoreReason.FINGERPRINT_MISMATCH: VectorFault.FINGERPRINT_MISMATCH,
}


def fault_of(error: Exception) -> VectorFault:
    """The part that failed; whatever no part raises on purpose is a defect."""
    if isinstance(error, EncoderFailed):
        return VectorFault.ENCODER
    if isinstance(error, VectorStorageFull):
        return VectorFault.STORE_FULL
    if isinstance(error, VectorStoreError):
        return _OF_THE_STORE[error.reason]
    return VectorFault.DATABASE if isinstance(error, Unavailable) else VectorFault.DEFECT
