"""The only reader of the environment."""

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.errors import ConfigurationError


class Settings(BaseSettings):
    """Every setting, read from ``CITEWELL_…`` variables."""

    model_config = SettingsConfigDict(env_prefix="CITEWELL_", frozen=True, extra="ignore")

    data_dir: Path = Field(default=Path("data"), description="Folder of the embedded database and of the indexes.")
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL; empty means SQLite in the data directory. postgresql:// for PostgreSQL.",
    )
    workspace: str = Field(
        default="default", min_length=1, max_length=200, description="Workspace of the command line."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on.")
    max_body_bytes: int = Field(default=16_000_000, ge=1_000, description="Largest request body, imports excepted.")
    max_line_bytes: int = Field(default=16_000_000, ge=1_000, description="Longest line of an import.")
    max_file_bytes: int = Field(
        default=200_000_000, ge=1_000, description="Largest document file; files of captures are streamed."
    )
    index_patience: float = Field(
        default=2.0, gt=0, description="Seconds a read waits for the lexical index before it reads rows instead."
    )
    scan_bound: int = Field(
        default=5_000,
        ge=0,
        description="Passages up to which rows are read while the lexical index is being repaired.",
    )
    index_grace: float = Field(
        default=5.0, ge=0, description="Seconds a stale passage stays in the index for readers of older snapshots."
    )
    index_checkpoint_every: float = Field(
        default=30.0, gt=0, description="Seconds between two checkpoints of the index."
    )
    log_level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Least severe log line."
    )

    @property
    def resolved_database_url(self) -> str:
        """The database URL, or SQLite's in the data directory."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'citewell.db'}"


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigurationError naming the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = "; ".join(
            f"CITEWELL_{'_'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ConfigurationError(wrong) from error
