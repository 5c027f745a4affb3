"""Settings that cannot work are refused where they are made."""

from collections.abc import Callable

import pytest

from embeddings.encoder_settings import Backend, EncoderSettings, Precision, ServiceLimits
from embeddings.errors import InvalidEncoderSettings


def test_the_default_is_bge_base() -> None:
    """C24: the default model is BAAI/bge-base-en-v1.5, in full precision."""
    settings = EncoderSettings()
    assert settings.model == "BAAI/bge-base-en-v1.5"
    assert settings.precision is Precision.FP32


@pytest.mark.parametrize(
    "make",
    [
        lambda: EncoderSettings(model="  "),
        lambda: EncoderSettings(token_limit=4),
        lambda: EncoderSettings(token_limit=64, window_overlap=40),
        lambda: EncoderSettings(threads=0),
        lambda: EncoderSettings(hub_timeout_s=0),
        lambda: EncoderSettings(precision=Precision.INT8),
        lambda: EncoderSettings(backend=Backend.OPENVINO, device="cuda"),
        lambda: ServiceLimits(query_batch=0),
        lambda: ServiceLimits(cached_queries=-1),
        lambda: ServiceLimits(retry_first_s=10, retry_longest_s=5),
        lambda: ServiceLimits(stuck_after_s=0),
    ],
)
def test_contradictions_are_refused(make: Callable[[], object]) -> None:
    """Each contradiction is an error of ours, at once."""
    with pytest.raises(InvalidEncoderSettings):
        make()
