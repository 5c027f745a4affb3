"""The way from settings to a ready encoder."""

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings


def load_encoder(settings: EncoderSettings) -> Encoder:
    """Find, load and check a model; takes seconds, so call it off the event loop.

    Raises:
        ModelNotFound, HubUnreachable, UnsuitableModel, BackendUnavailable, PrecisionRefused,
        InvalidEncoderSettings: see `embeddings.errors`.
    """
    # Importing torch takes seconds, and a process that never encodes should not pay them.
    from embeddings.model_loading import open_encoder  # noqa: PLC0415

    return open_encoder(settings)
