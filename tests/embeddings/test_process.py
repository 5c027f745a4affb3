"""What only a process of its own can show: imports, exits, warnings and the network."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter with warnings as errors; at most two minutes."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}  # noqa: TID251 - a child's environment, not a setting
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**inherited, "PYTHONPATH": ROOT, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def counting_hub() -> Iterator[tuple[str, list[str]]]:
    """An address that counts connections and answers none."""
    seen: list[str] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.1)
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, address = listener.accept()
                except TimeoutError:
                    continue
                seen.append(str(address))
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
        stop.set()
        thread.join()


def test_after_preloading_no_model_library_is_left_to_import() -> None:
    """U20: what holds up an event loop is imported before it runs, and kept out of full collections."""
    done = run(
        "import gc, sys\n"
        "from embeddings.encoder_settings import Backend\n"
        "from embeddings.preload import preload\n"
        "assert 'torch' not in sys.modules and not gc.get_freeze_count()\n"
        "preload(Backend.TORCH)\n"
        "before = set(sys.modules)\n"
        "import embeddings.model_loading\n"
        "print({'torch', 'sentence_transformers'} <= before, set(sys.modules) == before)\n"
        "print(gc.get_freeze_count() > 100_000)\n"
    )
    assert done.stdout.split() == ["True", "True", "True"], done.stderr


def test_a_library_that_is_not_there_does_not_end_the_start() -> None:
    """C27: without its libraries a service starts and answers lexically; the encoder says what it lacks."""
    done = run(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from embeddings.encoder_settings import Backend\n"
        "from embeddings.preload import preload\n"
        "preload(Backend.TORCH)\n"
        "print('started')\n"
    )
    assert done.stdout.split() == ["started"], done.stderr


@pytest.mark.parametrize(("vectors", "imports"), [("off", False), ("read", True), ("on", True)])
def test_only_a_process_with_vectors_preloads(vectors: str, imports: bool) -> None:  # noqa: FBT001
    """A lexical-only process imports nothing of the vector arm before it listens, nor numpy."""
    done = run(
        "import sys\n"
        "from service.settings import Settings\n"
        "from service.surfaces.cli.serving import preload_vectors\n"
        f"preload_vectors(Settings(vectors={vectors!r}))\n"
        "print(sorted({'torch', 'numpy', 'embeddings'} & set(sys.modules)))\n"
    )
    assert done.stdout.strip() == str(["embeddings", "numpy", "torch"] if imports else []), done.stderr


def test_importing_the_service_does_not_import_torch() -> None:
    """A process that only wires the encoder up pays no model library's import."""
    done = run(
        "import sys, embeddings.encoder_service, embeddings.loader\n"
        "loaded = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'openvino'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_local_folder_loads_without_any_hub_call(
    tiny_folder: Path, counting_hub: tuple[str, list[str]]
) -> None:
    """C27: a local folder loads and encodes without one connection, quietly and without a warning."""
    url, seen = counting_hub
    done = run(
        "from embeddings.loader import load_encoder\n"
        "from embeddings.encoder_settings import EncoderSettings\n"
        f"encoder = load_encoder(EncoderSettings(model={str(tiny_folder)!r}))\n"
        "print(encoder.encode_queries(['a']).shape)",
        HF_ENDPOINT=url,
    )
    assert done.stdout.strip() == "(1, 32)", done.stderr
    assert done.stderr == ""
    assert seen == []


def test_offline_mode_is_honoured(counting_hub: tuple[str, list[str]], tmp_path: Path) -> None:
    """C27: with HF_HUB_OFFLINE a name that is not cached fails at once and asks nobody."""
    url, seen = counting_hub
    done = run(
        "from embeddings.encoder_settings import EncoderSettings\n"
        "from embeddings.location import locate\n"
        "from embeddings.errors import HubUnreachable\n"
        "try:\n    locate(EncoderSettings())\n"
        "except HubUnreachable as error:\n    print(error.code)",
        HF_ENDPOINT=url,
        HF_HUB_OFFLINE="1",
        HF_HOME=str(tmp_path),
    )
    assert done.stdout.strip() == "hub_unreachable", done.stderr
    assert seen == []


def test_openvino_posts_no_usage_reports(tiny_folder: Path, tmp_path: Path) -> None:
    """The openvino backend runs without its telemetry package being loaded, and leaves no trace at home."""
    pytest.importorskip("openvino")
    done = run(
        "import sys\n"
        "from embeddings.loader import load_encoder\n"
        "from embeddings.encoder_settings import Backend, EncoderSettings\n"
        f"load_encoder(EncoderSettings(model={str(tiny_folder)!r}, backend=Backend.OPENVINO))\n"
        "print([name for name in sys.modules if name.startswith('openvino_telemetry')])",
        HOME=str(tmp_path),
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert not (tmp_path / "intel").exists()


@pytest.mark.parametrize("moment", ["loading", "ready", "encoding"])
def test_a_process_ends_cleanly_at_any_moment(tiny_folder: Path, moment: str) -> None:
    """C27: a process that ends while the model loads, waits or encodes ends promptly and with code 0."""
    waits = {
        "loading": "",
        "ready": "await service.wait_ready(60)",
        "encoding": "await service.wait_ready(60)",
    }
    work = "asyncio.ensure_future(service.encode_passages(['word ' * 20000]))" if moment == "encoding" else ""
    done = run(
        "import asyncio\n"
        "from embeddings.encoder_service import EncoderService\n"
        "from embeddings.encoder_settings import EncoderSettings, ServiceLimits\n"
        "async def main():\n"
        f"    service = EncoderService.of(EncoderSettings(model={str(tiny_folder)!r}),"
        " ServiceLimits(close_within_s=0.2))\n"
        "    service.start()\n"
        "    await asyncio.sleep(0.3)\n"
        f"    {waits[moment]}\n"
        f"    {work}\n"
        "    await asyncio.sleep(0.05)\n"
        "    await service.close()\n"
        "asyncio.run(main())\n"
        "print('ended')"
    )
    assert done.stdout.strip() == "ended", done.stderr
    assert done.returncode == 0, done.stderr
