"""Small real models, built once, and the shipped one."""

from pathlib import Path

import pytest

from embeddings.encoder import Encoder
from embeddings.encoder_settings import Backend, EncoderSettings
from embeddings.loader import load_encoder
from tests.embeddings.hash_encoder import HashEncoder
from tests.embeddings.tiny_model import save_static, save_transformer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers folder with a transformer of two layers."""
    return save_transformer(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers folder without a transformer."""
    return save_static(tmp_path_factory.mktemp("static"))


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Encoder:
    """The tiny transformer, loaded."""
    return load_encoder(EncoderSettings(model=str(tiny_folder), window_overlap=8))


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    """all-MiniLM-L6-v2, loaded."""
    return load_encoder(EncoderSettings(model="minilm"))


@pytest.fixture(
    scope="session",
    params=[
        "hash",
        "tiny",
        "prompted",
        "static",
        "openvino",
        pytest.param("minilm", marks=pytest.mark.model),
    ],
)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Every kind of encoder, for the contract suite."""
    if request.param == "hash":
        return HashEncoder()
    if request.param in ("tiny", "minilm"):
        loaded: Encoder = request.getfixturevalue(request.param)
        return loaded
    if request.param == "static":
        return load_encoder(EncoderSettings(model=str(request.getfixturevalue("static_folder"))))
    folder = str(request.getfixturevalue("tiny_folder"))
    if request.param == "openvino":
        pytest.importorskip("openvino")
        return load_encoder(EncoderSettings(model=folder, backend=Backend.OPENVINO))
    return load_encoder(EncoderSettings(model=folder, query_prompt="query: ", passage_prompt="passage: "))
