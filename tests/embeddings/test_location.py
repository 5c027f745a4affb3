"""Where a model comes from, and how fast it is refused when it cannot come."""

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embeddings.encoder_settings import EncoderSettings, HubAccess
from embeddings.errors import HubUnreachable, ModelNotFound, UnsuitableModel
from embeddings.loader import load_encoder
from embeddings.location import locate
from embeddings.shipped import SHIPPED_MODELS, shipped_folder
from tests.embeddings.hub_server import COMMIT, Hub, serve_hub

NAME = "someone/tiny-bert"


@pytest.fixture
def hub(tiny_folder: Path) -> Iterator[Hub]:
    """A hub that has the tiny model."""
    with serve_hub(NAME, tiny_folder) as running:
        yield running


@pytest.fixture
def settings(hub: Hub, tmp_path: Path) -> EncoderSettings:
    """The tiny model by its hub name, with an empty cache."""
    return EncoderSettings(model=NAME, hub_url=hub.url, hub_cache=tmp_path / "cache", hub_timeout_s=2.0)


def closed_port_url() -> str:
    """An address of this machine where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_hub_name_is_fetched_once_and_then_needs_no_hub(hub: Hub, settings: EncoderSettings) -> None:
    """C24: a hub name loads; the second time it comes from the cache without a single request."""
    first = load_encoder(settings)
    assert first.fingerprint.name == NAME
    assert first.fingerprint.commit == COMMIT
    assert any(path.endswith("model.safetensors") for path in hub.requests)
    assert not any(path.endswith("README.md") for path in hub.requests)
    hub.requests.clear()
    again = load_encoder(settings)
    assert hub.requests == []
    assert again.fingerprint == first.fingerprint


def test_a_hub_model_and_its_folder_are_the_same_revision(
    settings: EncoderSettings, tiny_folder: Path
) -> None:
    """C24: the revision is the content's: a fetched model and the folder it was made from agree."""
    fetched = load_encoder(settings).fingerprint
    assert fetched.revision == load_encoder(EncoderSettings(model=str(tiny_folder))).fingerprint.revision


def test_a_broken_off_download_is_not_taken_for_a_model(hub: Hub, settings: EncoderSettings) -> None:
    """C27: a download that breaks off is an error, and the next try completes it."""
    pooling = f"/{NAME}/resolve/{COMMIT}/1_Pooling/config.json"
    hub.broken.add(pooling)
    with pytest.raises(HubUnreachable):
        locate(settings)
    with pytest.raises(HubUnreachable):
        locate(EncoderSettings(model=NAME, hub=HubAccess.NEVER, hub_cache=settings.hub_cache))
    hub.broken.clear()
    assert load_encoder(settings).fingerprint.pooling == "mean"


def test_an_unreachable_hub_fails_fast(tmp_path: Path) -> None:
    """C27: a name that is not cached and a hub that refuses connections fail at once, with a clear error."""
    started = time.monotonic()
    with pytest.raises(HubUnreachable, match="not on this machine"):
        locate(EncoderSettings(model=NAME, hub_url=closed_port_url(), hub_cache=tmp_path))
    assert time.monotonic() - started < 5


def test_a_silent_hub_fails_within_its_timeout(tmp_path: Path) -> None:
    """C27: a hub that accepts the connection and never answers is given up after the timeout."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(HubUnreachable):
            locate(EncoderSettings(model=NAME, hub_url=url, hub_cache=tmp_path, hub_timeout_s=0.3))
        assert time.monotonic() - started < 3


def test_a_hub_that_is_switched_off_is_not_asked(hub: Hub, tmp_path: Path) -> None:
    """C27: without leave to fetch, a name that is not cached fails without a request."""
    with pytest.raises(HubUnreachable, match="switched off"):
        locate(EncoderSettings(model=NAME, hub=HubAccess.NEVER, hub_url=hub.url, hub_cache=tmp_path))
    assert hub.requests == []


def test_an_unknown_name_is_told_apart_from_an_unreachable_hub(hub: Hub, tmp_path: Path) -> None:
    """C27: the hub's "no such model" is an error of its own."""
    with pytest.raises(ModelNotFound):
        locate(EncoderSettings(model="someone/else", hub_url=hub.url, hub_cache=tmp_path))


def test_a_repository_that_is_no_model_is_refused_before_its_weights_come(
    hub: Hub, settings: EncoderSettings
) -> None:
    """A repository without `modules.json` is refused, and none of its files is fetched."""
    del hub.files["modules.json"]
    with pytest.raises(UnsuitableModel):
        locate(settings)
    assert not any("/resolve/" in path for path in hub.requests)


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./nowhere", "a/b/c", "what is this?", "C:\\models\\x"])
def test_what_is_neither_folder_nor_name_is_refused_at_once(name: str) -> None:
    """C27: a missing folder is an error at once and never a question to a hub."""
    with pytest.raises(ModelNotFound):
        locate(EncoderSettings(model=name, hub_url=closed_port_url()))


def test_a_folder_is_named_by_its_last_part(tiny_folder: Path, tmp_path: Path) -> None:
    """C24: moving a model's folder to another place or machine does not change its fingerprint."""
    moved = tmp_path / "elsewhere" / tiny_folder.name
    shutil.copytree(tiny_folder, moved)
    here, there = (
        load_encoder(EncoderSettings(model=str(path))).fingerprint for path in (tiny_folder, moved)
    )
    assert here.name == tiny_folder.name
    assert here == there


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\x08\0\0\0\0\0\0\0{broken}"),
        ("model.safetensors", b""),
        ("config.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("modules.json", b"[]"),
        ("modules.json", b'[{"idx": 0, "name": "0", "path": "", "type": "their_code.Module"}]'),
    ],
)
def test_damaged_models_are_refused(tiny_folder: Path, tmp_path: Path, file: str, content: bytes) -> None:
    """C27: a truncated, malformed or code-bearing model folder is one error of ours, not a crash."""
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_folder, folder)
    (folder / file).write_bytes(content)
    with pytest.raises(UnsuitableModel):
        load_encoder(EncoderSettings(model=str(folder)))


def test_a_folder_without_modules_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    """A bare transformer folder is refused: its pooling would be a guess."""
    folder = tmp_path / "bare"
    shutil.copytree(tiny_folder, folder)
    (folder / "modules.json").unlink()
    with pytest.raises(UnsuitableModel, match=r"modules\.json"):
        load_encoder(EncoderSettings(model=str(folder)))


def test_shipped_aliases() -> None:
    """The alias minilm is the installed package's folder; an unknown alias says which there are."""
    assert (shipped_folder("minilm") / "modules.json").is_file()
    assert set(SHIPPED_MODELS) == {"minilm"}
    with pytest.raises(ModelNotFound, match="minilm"):
        shipped_folder("nothing")


@pytest.mark.model
def test_the_shipped_model_loads() -> None:
    """C24: another model is one setting: minilm has 384 dimensions, mean pooling and a limit of 256 tokens."""
    fingerprint = load_encoder(EncoderSettings(model="minilm", hub=HubAccess.NEVER)).fingerprint
    assert (fingerprint.name, fingerprint.dimension, fingerprint.pooling) == ("minilm", 384, "mean")
    assert fingerprint.token_limit == 256
