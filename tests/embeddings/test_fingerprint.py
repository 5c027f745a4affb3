"""What makes two vectors comparable."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from embeddings.encoder_settings import EncoderSettings, Precision
from embeddings.fingerprint import Fingerprint
from embeddings.loader import load_encoder
from embeddings.model_files import content_digest, shaping_files
from tests.embeddings.hash_encoder import hash_fingerprint

BASE = hash_fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, name="other"),
        replace(BASE, revision="sha256:1"),
        replace(BASE, dimension=7),
        replace(BASE, pooling="cls"),
        replace(BASE, normalisation="none"),
        replace(BASE, query_prompt=""),
        replace(BASE, passage_prompt="passage: "),
        replace(BASE, token_limit=7),
        replace(BASE, token_limit=None),
        replace(BASE, window_overlap=7),
        replace(BASE, precision="bf16"),
        replace(BASE, scheme=BASE.scheme + 1),
    ],
)
def test_every_field_changes_the_id(other: Fingerprint) -> None:
    """C24: name, revision, dimension, pooling, prompts, token limit and all else change the fingerprint."""
    assert other.id != BASE.id


def test_no_field_is_left_out_of_the_test_above() -> None:
    """A field added later has to be thought about here: eleven identify, one only informs."""
    assert len(fields(Fingerprint)) == 11 + 1


def test_the_commit_is_told_and_does_not_count() -> None:
    """The hub commit is readable, and the content digest is what identifies the files."""
    moved = replace(BASE, commit="a" * 40)
    assert moved.id == BASE.id
    assert moved.fields()["commit"] == "a" * 40
    assert moved.fields()["id"] == BASE.id


def test_the_id_is_the_same_in_every_process() -> None:
    """C24: the id does not depend on process or hash seed."""
    code = "from tests.embeddings.hash_encoder import hash_fingerprint as f; print(f().id)"
    root = str(Path(__file__).parents[2])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == hash_fingerprint().id


def test_names_become_safe_slugs() -> None:
    """Any model name gives an id of letters, digits and hyphens, short enough for a collection's name."""
    for name in ("BAAI/bge-base-en-v1.5", "模型", "x" * 200, "a b_c.d"):
        made = replace(hash_fingerprint(), name=name).id
        assert len(made) < 70
        assert made.isascii()
        assert made.replace("-", "").isalnum()
    assert replace(hash_fingerprint(), name="BAAI/bge-base-en-v1.5").id.startswith("bge-base-en-v1-5-64-")


def test_only_shaping_files_count() -> None:
    """Weights, configuration and tokenizer files count; exports, notes and shadowed pickles do not."""
    names = [
        "modules.json",
        "1_Pooling/config.json",
        "model.safetensors",
        "pytorch_model.bin",
        "2_Dense/pytorch_model.bin",
        "vocab.txt",
        "README.md",
        ".cache/x.json",
        "onnx/model.json",
        "sentencepiece.bpe.model",
    ]
    assert shaping_files(names) == [
        "1_Pooling/config.json",
        "2_Dense/pytorch_model.bin",
        "model.safetensors",
        "modules.json",
        "sentencepiece.bpe.model",
        "vocab.txt",
    ]


def test_the_digest_follows_content_not_place(tmp_path: Path) -> None:
    """Equal files in another folder have the same digest; a changed byte or a changed name another."""
    for folder in ("a", "b", "c", "d"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
        (tmp_path / folder / "model.safetensors").write_bytes(b"12")
    (tmp_path / "b" / "README.md").write_text("notes")
    (tmp_path / "c" / "model.safetensors").write_bytes(b"13")
    (tmp_path / "d" / "config.json").rename(tmp_path / "d" / "config2.json")
    digests = [content_digest(tmp_path / folder) for folder in "abcd"]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_settings_that_change_vectors_change_the_fingerprint(tiny_folder: Path) -> None:
    """C24: prompts, token limit, overlap and precision each make another fingerprint; threads do not."""
    base = EncoderSettings(model=str(tiny_folder), window_overlap=8)
    ids = {
        load_encoder(settings).fingerprint.id
        for settings in (
            base,
            replace(base, query_prompt="q: "),
            replace(base, passage_prompt="p: "),
            replace(base, token_limit=24),
            replace(base, window_overlap=4),
            replace(base, precision=Precision.BF16),
        )
    }
    assert len(ids) == 6
    assert load_encoder(replace(base, threads=2)).fingerprint.id in ids
