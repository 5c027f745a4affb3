"""Importing what encodes, before anybody waits: an import in the background holds up every other thread."""

import gc
from contextlib import suppress

from embeddings.encoder_settings import Backend
from embeddings.errors import BackendUnavailable


def preload(backend: Backend) -> None:
    """Import the libraries of a backend, here and now; takes about five seconds, and never raises for them.

    Their extension modules keep the interpreter's lock for up to a second at a time, so an event loop that is
    running meanwhile stands still. What they leave behind, hundreds of thousands of objects that stay for
    good, is then taken out of the garbage collector's sight: each full collection would go through them, and
    hold the lock for a third of a second.

    A library that cannot be imported is reported by the encoder that wants to load with it.
    """
    with suppress(ImportError, OSError, BackendUnavailable):
        from embeddings import model_loading  # noqa: F401, PLC0415 - this is what takes so long

        if backend is Backend.OPENVINO:
            from embeddings.openvino_backend import import_openvino  # noqa: PLC0415

            import_openvino()
    gc.collect()
    gc.freeze()
