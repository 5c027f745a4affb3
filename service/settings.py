"""The only reader of the environment."""

from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.core.rollout import parse_flag
from service.errors import ConfigurationError, InvalidInput
from service.ports.flag import FlagHolder


class VectorMode(StrEnum):
    """What a process does with vectors."""

    OFF = "off"  # no model is loaded; the arm says no_model when the flag asks for it
    READ = "read"  # encodes queries and searches; another process follows the change log
    ON = "on"  # reads, and runs the worker that follows the change log


class Settings(BaseSettings):
    """Every setting, read from ``CITEWELL_…`` variables."""

    model_config = SettingsConfigDict(
        env_prefix="CITEWELL_", frozen=True, extra="ignore", populate_by_name=True
    )

    data_dir: Path = Field(
        default=Path("data"), description="Folder of the embedded database and of the indexes."
    )
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL; empty means SQLite in the data directory. postgresql:// for PostgreSQL.",
    )
    workspace: str = Field(
        default="default", min_length=1, max_length=200, description="Workspace of the command line."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on.")
    key_rate: float = Field(
        default=0.0,
        ge=0,
        le=1_000_000,
        description="Requests a second that an API key may make unless it has a rate of its own; 0: no limit.",
    )
    max_in_flight: int = Field(
        default=8, ge=1, le=10_000, description="Requests that are worked on at once; health is not counted."
    )
    max_waiting: int = Field(
        default=64, ge=0, le=100_000, description="Requests that wait for their turn; more are answered 503."
    )
    request_deadline: float = Field(
        default=10.0,
        gt=0,
        le=3_600,
        description="Seconds after which a request is answered 503; imports are excepted.",
    )
    drain_seconds: float = Field(
        default=10.0, ge=0, le=3_600, description="Seconds that open requests may go on after SIGTERM."
    )
    max_answer_bytes: int = Field(
        default=1_000_000,
        ge=10_000,
        description="Byte budget of a page of passages; a page that reaches it ends early and goes on by cursor.",
    )
    evaluation_dir: Path | None = Field(
        default=None,
        description="Folder of the evaluation report that the pages show; evaluation in DATA_DIR.",
    )
    log_queries: bool = Field(default=False, description="Whether log lines hold what callers ask.")
    otel_endpoint: str = Field(
        default="", description="OTLP/HTTP endpoint for traces; empty: none are made. Needs the extra otel."
    )
    max_body_bytes: int = Field(
        default=16_000_000, ge=1_000, description="Largest request body, imports excepted."
    )
    max_line_bytes: int = Field(default=16_000_000, ge=1_000, description="Longest line of an import.")
    max_file_bytes: int = Field(
        default=200_000_000, ge=1_000, description="Largest document file; files of captures are streamed."
    )
    index_patience: float = Field(
        default=2.0,
        gt=0,
        description="Seconds a read waits for the lexical index before it reads rows instead.",
    )
    scan_bound: int = Field(
        default=5_000,
        ge=0,
        description="Passages up to which rows are read while the lexical index is being repaired.",
    )
    index_grace: float = Field(
        default=5.0,
        ge=0,
        description="Seconds a stale passage stays in the index for readers of older snapshots.",
    )
    open_workspaces: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="Workspaces whose lexical index is open at once; the one used least lately is closed.",
    )
    index_checkpoint_every: float = Field(
        default=30.0, gt=0, description="Seconds between two checkpoints of the index."
    )
    vectors: VectorMode = Field(
        default=VectorMode.OFF, description="off, read (queries only) or on (queries and the worker)."
    )
    embedding_model: str = Field(
        default="BAAI/bge-base-en-v1.5",
        description="Name or folder of a sentence-transformers model; minilm is the small one from PyPI.",
    )
    embedding_next_model: str = Field(
        default="",
        description="Model to change to: its collection is built while the first serves, then searched.",
    )
    embedding_revision: str = Field(default="", description="Revision of a model from a hub.")
    embedding_hub: bool = Field(default=True, description="Whether a model that is not here may be fetched.")
    embedding_backend: str = Field(
        default="torch", pattern="^(torch|openvino)$", description="torch or openvino."
    )
    embedding_precision: str = Field(
        default="fp32",
        pattern="^(fp32|bf16|int8)$",
        description="fp32, bf16 or int8 (openvino, self-checked).",
    )
    embedding_threads: int = Field(default=1, ge=1, le=64, description="Threads of one encoder call.")
    embedding_cached_queries: int = Field(default=4_096, ge=0, description="Query vectors kept in memory.")
    embedding_cache_dtype: str = Field(
        default="float32", pattern="^(float32|float16)$", description="How passage vectors are cached in SQL."
    )
    vector_budget: float = Field(
        default=0.25,
        gt=0,
        le=60,
        description="Seconds from a request's arrival after which vectors are left out.",
    )
    fusion_method: str = Field(
        default="coverage-rrf",
        pattern="^(rrf|coverage-rrf|convex)$",
        description="How rankings are fused: rrf, coverage-rrf or convex.",
    )
    fusion_k: int = Field(default=5, ge=1, le=10_000, description="k of reciprocal rank fusion.")
    fusion_lexical_weight: float = Field(default=2.0, ge=0, description="Weight of the lexical rank.")
    fusion_vector_weight: float = Field(default=1.0, ge=0, description="Weight of the vector rank.")
    fusion_coverage_power: float = Field(
        default=1.5, ge=0, le=10, description="Bends the share of the query that the lexical arm found."
    )
    qdrant_url: str = Field(
        default="", description="Qdrant server; empty means Qdrant Edge in the data directory."
    )
    qdrant_api_key: SecretStr = Field(default=SecretStr(""), description="API key of the Qdrant server.")
    qdrant_grpc: bool = Field(default=False, description="Whether to speak gRPC to the Qdrant server.")
    qdrant_grpc_port: int = Field(default=6334, ge=1, le=65_535, description="Its port for gRPC.")
    qdrant_ca_file: Path | None = Field(
        default=None, description="PEM file of the authority that signed the Qdrant server's certificate."
    )
    qdrant_timeout: int = Field(
        default=120,
        ge=1,
        le=3_600,
        description="Most seconds of one call to the Qdrant server; most calls have far less.",
    )
    qdrant_prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$|^$",
        max_length=100,
        description="What this database's collections on a server begin with; empty: its id is in it.",
    )
    qdrant_shards: int = Field(default=1, ge=1, description="Shards of a new collection on a server.")
    qdrant_replicas: int = Field(default=1, ge=1, description="Replicas of a new collection on a server.")
    qdrant_hnsw_m: int = Field(
        default=16, ge=2, le=512, description="Links of a point in the graph of a new collection on a server."
    )
    qdrant_hnsw_ef_construct: int = Field(
        default=100, ge=4, le=10_000, description="Neighbours weighed when such a graph is built."
    )
    qdrant_hnsw_ef: int = Field(
        default=128, ge=1, le=10_000, description="Neighbours weighed when such a graph is searched."
    )
    qdrant_quantization: bool = Field(
        default=True,
        description="Whether a new collection on a server has int8 copies in memory; hits are rescored.",
    )
    qdrant_oversampling: float = Field(
        default=2.0, ge=1, le=100, description="So many times the hits are found by int8 and rescored."
    )
    qdrant_on_disk: bool = Field(
        default=True,
        description="Whether a new collection on a server has full vectors and payloads on disk.",
    )
    hybrid_retrieval: str = Field(
        default="off",
        validation_alias="CORPUS_HYBRID_RETRIEVAL",
        description="off, shadow, a percentage or on: the flag's value where its holder has none.",
    )
    flag_provider: FlagHolder = Field(
        default=FlagHolder.STORE, description="Who holds the rollout flag: store, env, file or flagd."
    )
    flag_file: Path | None = Field(
        default=None, description="JSON file that holds the flag when CITEWELL_FLAG_PROVIDER is file."
    )
    shadow_keep: int = Field(
        default=10_000, ge=0, description="Comparisons of shadow mode that are kept, for at most 30 days."
    )
    log_level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Least severe log line."
    )

    @property
    def resolved_database_url(self) -> str:
        """The database URL, or SQLite's in the data directory."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'citewell.db'}"

    @field_validator("qdrant_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        """Raises ValueError for what no client could open."""
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0):
            raise ValueError("such an address is http://HOST:PORT or https://HOST:PORT")
        return url

    @field_validator("hybrid_retrieval")
    @classmethod
    def _is_a_flag(cls, text: str) -> str:
        """Raises ValueError for what would silently be off."""
        try:
            parse_flag(text)
        except InvalidInput as error:
            raise ValueError(str(error)) from error
        return text


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigurationError naming the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = "; ".join(_told(problem["loc"], problem["msg"]) for problem in error.errors())
        raise ConfigurationError(wrong) from error


def _told(place: tuple[int | str, ...], message: str) -> str:
    name = "_".join(str(part) for part in place).upper()
    variable = name if name.startswith("CORPUS_") else f"CITEWELL_{name}"
    return f"{variable}: {message.removeprefix('Value error, ')}"
