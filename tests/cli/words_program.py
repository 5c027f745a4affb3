"""A script: the `citewell` command in which hashed words take every model's place; all else is real."""

import sys

import pytest

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings
from service.surfaces.cli import main
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint


def load_words(settings: EncoderSettings) -> Encoder:
    """Words whose vectors are those of the model's name: another name is another model."""
    return HashEncoder(fingerprint=hash_fingerprint(settings.model))


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("embeddings.encoder_service.load_encoder", load_words)
        main(sys.argv[1:], prog_name="citewell")
