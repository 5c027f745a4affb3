"""Backends and precisions prove themselves against fp32 on torch."""

from pathlib import Path

import numpy as np
import pytest

from embeddings.encoder import Encoder, encode_passages
from embeddings.encoder_settings import Backend, EncoderSettings, Precision
from embeddings.errors import BackendUnavailable, PrecisionRefused
from embeddings.loader import load_encoder
from embeddings.self_check import PROBES, least_cosine, require_agreement
from embeddings.vectors import Vectors
from tests.embeddings.tiny_model import save_transformer


def cosine(left: Encoder, right: Encoder) -> float:
    """The worst cosine over the probes."""
    return least_cosine(_passages(left), _passages(right))


def _passages(encoder: Encoder) -> Vectors:
    return np.vstack(encode_passages(encoder, PROBES))


@pytest.mark.parametrize("precision", list(Precision))
def test_the_threshold_is_inclusive_and_nan_fails(precision: Precision) -> None:
    """The least cosine passes, anything below and NaN do not."""
    require_agreement(precision, 1.0)
    for low in (0.5, float("nan")):
        with pytest.raises(PrecisionRefused):
            require_agreement(precision, low)
    require_agreement(Precision.INT8, 0.98)
    with pytest.raises(PrecisionRefused):
        require_agreement(Precision.INT8, 0.9799)


def test_bf16_is_close_and_another_fingerprint(tiny_folder: Path, tiny: Encoder) -> None:
    """bf16 agrees with fp32 to 0.998 and is not mistaken for it."""
    half = load_encoder(EncoderSettings(model=str(tiny_folder), window_overlap=8, precision=Precision.BF16))
    assert cosine(tiny, half) > 0.998
    assert half.fingerprint.id != tiny.fingerprint.id


def test_openvino_fp32_makes_the_same_vectors(tiny_folder: Path, tiny: Encoder) -> None:
    """OpenVINO in fp32 gives torch's vectors, and therefore torch's fingerprint."""
    pytest.importorskip("openvino")
    settings = EncoderSettings(model=str(tiny_folder), window_overlap=8, backend=Backend.OPENVINO)
    compiled = load_encoder(settings)
    assert cosine(tiny, compiled) > 0.99999
    assert compiled.fingerprint.id == tiny.fingerprint.id


def test_int8_is_another_fingerprint(tiny_folder: Path, tiny: Encoder) -> None:
    """int8 runs when asked for by name, stays above a cosine of 0.98, and is not mistaken for fp32."""
    pytest.importorskip("openvino")
    small = load_encoder(
        EncoderSettings(
            model=str(tiny_folder), window_overlap=8, backend=Backend.OPENVINO, precision=Precision.INT8
        )
    )
    assert cosine(tiny, small) >= 0.98
    assert small.fingerprint.precision == "int8"


def test_int8_is_refused_where_it_loses_too_much(tmp_path: Path) -> None:
    """A model that 8 bits cannot hold is refused at load with the measured cosine, never served."""
    pytest.importorskip("openvino")
    folder = str(save_transformer(tmp_path, outlier=60.0))
    assert load_encoder(EncoderSettings(model=folder)).fingerprint.precision == "fp32"
    with pytest.raises(PrecisionRefused) as refused:
        load_encoder(EncoderSettings(model=folder, backend=Backend.OPENVINO, precision=Precision.INT8))
    assert refused.value.cosine < 0.98


def test_a_model_without_a_transformer_is_not_for_openvino(static_folder: Path) -> None:
    """The backend says so when a model is not of its kind."""
    pytest.importorskip("openvino")
    with pytest.raises(BackendUnavailable):
        load_encoder(EncoderSettings(model=str(static_folder), backend=Backend.OPENVINO))


def test_vectors_are_unit_where_the_model_does_not_normalise(tmp_path: Path) -> None:
    """C24: a model without a normalising module gives unit vectors all the same."""
    folder = str(save_transformer(tmp_path, normalise=False))
    rows = load_encoder(EncoderSettings(model=folder)).encode_queries(["roller", "sill"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


@pytest.mark.model
@pytest.mark.parametrize("precision", list(Precision))
def test_a_real_model_agrees_on_openvino(precision: Precision, minilm: Encoder) -> None:
    """all-MiniLM-L6-v2 passes the self-check in every precision OpenVINO has."""
    pytest.importorskip("openvino")
    fast = load_encoder(EncoderSettings(model="minilm", backend=Backend.OPENVINO, precision=precision))
    assert cosine(minilm, fast) >= 0.98
