"""Which instruction goes in front of a text."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from embeddings.encoder import encode_passages
from embeddings.encoder_settings import EncoderSettings
from embeddings.errors import InvalidEncoderSettings
from embeddings.loader import load_encoder
from embeddings.prompts import Prompts, choose_prompts, known_prompts

BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("BAAI/bge-base-en-v1.5", BGE, ""),
        ("/models/bge-small-en-v1.5/", BGE, ""),
        ("C:\\models\\bge-large-en", BGE, ""),
        ("BAAI_bge-base-en", BGE, ""),
        ("BAAI/bge-m3", "", ""),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("minilm", "", ""),
        ("sentence-transformers/all-mpnet-base-v2", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
    ],
)
def test_known_models_get_their_prompts(name: str, query: str, passage: str) -> None:
    """C24: a known model's instruction is found by hub name, folder or alias, and bge's is for queries only."""
    assert known_prompts(name) == Prompts(query, passage)


def test_an_instruct_model_is_told_its_task() -> None:
    """The instruct line of e5 wants a task on the query, and nothing on the passage."""
    prompts = known_prompts("intfloat/multilingual-e5-large-instruct")
    assert prompts is not None
    assert prompts.query.startswith("Instruct: ")
    assert prompts.passage == ""


def test_an_unknown_model_gets_none() -> None:
    """Unknown models are not guessed at."""
    assert known_prompts("someone/my-own-model") is None
    assert choose_prompts(("someone/my-own-model", ""), {}, None, None) == Prompts()


def test_settings_beat_the_model_and_the_model_beats_the_registry() -> None:
    """Order of precedence: settings, the model's own files, the registry; an empty setting switches off."""
    own = {"query": "own: ", "document": ""}
    assert choose_prompts(("bge-base-en",), {"query": "", "document": ""}, None, None).query == BGE
    assert choose_prompts(("bge-base-en",), own, None, None) == Prompts("own: ", "")
    assert choose_prompts(("bge-base-en",), own, "mine: ", "its: ") == Prompts("mine: ", "its: ")
    assert choose_prompts(("bge-base-en",), {}, "", None) == Prompts("", "")
    assert choose_prompts(("x",), {"corpus": "doc: "}, None, None) == Prompts("", "doc: ")


def test_the_instruction_is_put_on_the_query_side_only(tiny_folder: Path, tmp_path: Path) -> None:
    """C24: a bge model reads its instruction before a query, and a passage as it is."""
    folder = tmp_path / "bge-base-en-v1.5"
    shutil.copytree(tiny_folder, folder)
    instructed = load_encoder(EncoderSettings(model=str(folder)))
    plain = load_encoder(EncoderSettings(model=str(folder), query_prompt=""))
    assert instructed.fingerprint.query_prompt == BGE
    assert instructed.fingerprint.passage_prompt == ""
    np.testing.assert_array_equal(
        instructed.encode_queries(["roller"]), plain.encode_queries([BGE + "roller"])
    )
    np.testing.assert_array_equal(
        encode_passages(instructed, ["roller"])[0], encode_passages(plain, ["roller"])[0]
    )
    assert not np.allclose(instructed.encode_queries(["roller"]), plain.encode_queries(["roller"]), atol=1e-3)


def test_a_prompt_that_leaves_no_room_is_refused(tiny_folder: Path) -> None:
    """A passage prompt as long as the token limit is an error at load, not a text cut to nothing."""
    with pytest.raises(InvalidEncoderSettings):
        load_encoder(EncoderSettings(model=str(tiny_folder), passage_prompt="roller panel " * 40))
