"""Which instruction goes in front of a text."""

import pytest

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
