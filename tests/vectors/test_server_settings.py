"""The settings of a Qdrant server, as they reach it over the wire."""

import asyncio
import shutil
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import Deployment, Transport
from service.errors import ConfigurationError
from service.ports.vectors import VectorStoreError, VectorStoreUnavailable
from service.settings import Settings, read_settings
from service.vector_parts import collection_settings, open_index, server_settings
from tests.vectors.parts import COLLECTION, DIMENSION, nearest, soon, unit_rows
from tests.vectors.recording_server import Json, RecordingServer, certificate

pytestmark = pytest.mark.anyio

HERE = Deployment("0123456789abcdef0123456789abcdef")
ELSEWHERE = {
    "CITEWELL_QDRANT_PREFIX": "shop.",
    "CITEWELL_QDRANT_SHARDS": "3",
    "CITEWELL_QDRANT_REPLICAS": "2",
    "CITEWELL_QDRANT_HNSW_M": "24",
    "CITEWELL_QDRANT_HNSW_EF_CONSTRUCT": "200",
    "CITEWELL_QDRANT_HNSW_EF": "64",
    "CITEWELL_QDRANT_QUANTIZATION": "false",
    "CITEWELL_QDRANT_OVERSAMPLING": "3.5",
    "CITEWELL_QDRANT_ON_DISK": "false",
}


async def told(settings: Settings) -> tuple[dict[str, Json], Json]:
    """The collections that a server is told to make under these settings, and how it is told to search."""
    async with RecordingServer() as server:
        settings = settings.model_copy(update={"qdrant_url": server.url})
        index = open_index(settings, HERE)
        await index.ensure(COLLECTION, DIMENSION, soon())
        await index.search(COLLECTION, nearest(unit_rows(1)[0], 5), soon())
        await index.close()
        return server.made, server.searches[0]


async def test_the_defaults_of_a_new_collection() -> None:
    """C25: by default vectors and payloads are on disk, int8 copies in memory, graphs a workspace."""
    made, search = await told(Settings())
    (name,) = made
    assert name == f"citewell-0123456789ab-{COLLECTION}"
    asked = made[name]
    assert asked["vectors"] == {"size": DIMENSION, "distance": "Cosine", "on_disk": True}
    assert asked["hnsw_config"] == {"m": 0, "payload_m": 16, "ef_construct": 100}
    assert asked["quantization_config"] == {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}
    assert (asked["shard_number"], asked["replication_factor"]) == (1, 1)
    assert (asked["write_consistency_factor"], asked["on_disk_payload"]) == (1, True)
    assert asked["metadata"]["owner"] == HERE.database  # type: ignore[index]
    assert search["params"] == {"hnsw_ef": 128, "quantization": {"rescore": True, "oversampling": 2.0}}


async def test_every_parameter_has_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """C25: each parameter of a collection and of its search is what its variable says."""
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    made, search = await told(read_settings())
    (name,) = made
    assert name == f"shop.{COLLECTION}"
    asked = made[name]
    assert asked["vectors"] == {"size": DIMENSION, "distance": "Cosine", "on_disk": False}
    assert asked["hnsw_config"] == {"m": 0, "payload_m": 24, "ef_construct": 200}
    assert asked.get("quantization_config") is None
    assert (asked["shard_number"], asked["replication_factor"]) == (3, 2)
    assert (asked["write_consistency_factor"], asked["on_disk_payload"]) == (2, False)
    assert search["params"] == {"hnsw_ef": 64, "quantization": {"rescore": True, "oversampling": 3.5}}


def test_the_connection_has_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """C27: transport, port, timeout and authority come from variables, and reach the client."""
    for name, value in {
        "URL": "https://qdrant.example",
        "GRPC": "true",
        "GRPC_PORT": "7001",
        "TIMEOUT": "7",
        "CA_FILE": str(tmp_path / "ca.pem"),
    }.items():
        monkeypatch.setenv(f"CITEWELL_QDRANT_{name}", value)
    found = server_settings(read_settings())
    assert (found.url, found.transport, found.grpc_port) == ("https://qdrant.example", Transport.GRPC, 7001)
    assert (found.longest_call_seconds, found.authority) == (7, tmp_path / "ca.pem")


@pytest.mark.parametrize("prefix", ["a/b", "", "-a", "x" * 101, "ü"])
def test_a_prefix_is_a_name(prefix: str) -> None:
    """C12: a prefix that no collection can begin with is refused; none means that of the database."""
    if not prefix:
        assert collection_settings(Settings(), HERE).prefix == HERE.prefix
        return
    with pytest.raises(ValidationError):
        Settings(qdrant_prefix=prefix)


async def test_a_private_authority_is_believed_and_no_other(tmp_path: Path) -> None:
    """C27: with CITEWELL_QDRANT_CA_FILE a certificate that it signed is good; without it none is."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    signed = certificate(tmp_path)
    async with RecordingServer(signed.context()) as server:
        settings = Settings(qdrant_url=server.url, qdrant_ca_file=signed.file)
        index = open_index(settings, HERE)
        await index.ensure(COLLECTION, DIMENSION, soon())
        await index.close()
        trusting_nobody = ServerVectorIndex(
            connect(server_settings(settings.model_copy(update={"qdrant_ca_file": None}))),
            collection_settings(settings, HERE),
        )
        with pytest.raises(VectorStoreError) as refused:
            await trusting_nobody.ensure(COLLECTION, DIMENSION, soon())
        await trusting_nobody.close()
    assert isinstance(refused.value, VectorStoreUnavailable)


async def test_the_authority_counts_over_grpc_too(tmp_path: Path) -> None:
    """C27: over gRPC a certificate of the private authority is good, and without it none is."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    signed = certificate(tmp_path)
    # grpc keeps to the first event loop of a process, so it has a process of its own here
    script = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.vectors.grpc_tls", str(signed.file), str(signed.key)),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await script.communicate()
    assert said.decode().split() == ["CollectionMissing", "VectorStoreUnavailable"]


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_an_unreadable_authority_is_a_wrong_setting(content: str | None, tmp_path: Path) -> None:
    """C27: a file without certificates, or none at all, is refused by the name of its variable."""
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match="CITEWELL_QDRANT_CA_FILE"):
        open_index(Settings(qdrant_url="https://qdrant.example", qdrant_ca_file=file), HERE)


def test_a_server_is_opened_for_a_database() -> None:
    """C12: without knowing whose collections they are no server is opened at all."""
    with pytest.raises(ConfigurationError):
        open_index(Settings(qdrant_url="http://127.0.0.1:1"))
