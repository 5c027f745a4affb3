"""The tables. Alembic's migrations build them; a test holds the two together."""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC in and out. SQLite keeps no zone, so the zone is taken off on the way in and put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive values; a zone that is guessed is a wrong citation."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive datetime")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Every value that comes out is aware UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# Ids sort by code point on both engines, as they do in Python.
Id = String().with_variant(String(collation="C"), "postgresql")
Key = BigInteger().with_variant(Integer(), "sqlite")

# One row. Every write locks it first: writers are serial, and number order is commit order.
counter = Table(
    "change_counter",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("seq", Key, nullable=False),
    Column("item_key", Key, nullable=False),
    Column("passage_key", Key, nullable=False),
    Column("database_id", String, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

change_log = Table(
    "change_log",
    metadata,
    Column("seq", Key, primary_key=True, autoincrement=False),
    Column("workspace", Id, nullable=False),
    Column("kind", String, nullable=False),
    Column("item_key", Key),
    Column("at", UtcDateTime, nullable=False),
    Column("number", Key, nullable=False, server_default="0"),  # counts the workspace's own changes from 1
    Column("nonce", Key, nullable=False, server_default="0"),  # one a commit, see history.py
    Index(None, "workspace", "seq"),
    Index(None, "workspace", "number"),
)

items = Table(
    "items",
    metadata,
    Column("item_key", Key, primary_key=True, autoincrement=False),
    Column("workspace", Id, nullable=False),
    Column("item_id", Id, nullable=False),
    Column("title", Text, nullable=False),
    Column("title_terms", Text, nullable=False),
    Column("content_type", String, nullable=False),
    Column("source_type", String, nullable=False),
    Column("source_url", Text),
    Column("source_filename", Text),
    Column("source_hash", String(64), nullable=False),
    Column("source_url_ok", Boolean),
    Column("resource_types", JSON(none_as_null=True)),
    Column("version", Text, nullable=False),
    Column("fetched_at", UtcDateTime, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("retired_at", UtcDateTime),
    Column("superseded_by", Id),
    UniqueConstraint("workspace", "item_id"),
    Index(
        "uq_items_live_source",
        "workspace",
        "source_hash",
        unique=True,
        sqlite_where=text("retired_at IS NULL AND superseded_by IS NULL"),
        postgresql_where=text("retired_at IS NULL AND superseded_by IS NULL"),
    ),
    Index(None, "workspace", "source_hash"),
    Index(None, "workspace", "superseded_by"),
)

passages = Table(
    "passages",
    metadata,
    Column("passage_key", Key, primary_key=True, autoincrement=False),
    Column("item_key", Key, ForeignKey("items.item_key"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("heading", Text),
    Column("text", Text, nullable=False),
    Column("scorable", Boolean, nullable=False),
    Column("heading_terms", Text, nullable=False),
    Column("body_terms", Text, nullable=False),
    Column("body_length", Integer, nullable=False),
    UniqueConstraint("item_key", "seq"),
)

systems = Table(
    "systems",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("system_id", Id, nullable=False),
    Column("name", Text, nullable=False),
    Column("operation_type", Text),
    Column("material", Text),
    Column("interior_exterior", Text),
    Column("use_cases", JSON, nullable=False),
    Column("retired_at", UtcDateTime),
    PrimaryKeyConstraint("workspace", "system_id"),
)

attributes = Table(
    "attributes",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("attribute_id", Id, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("workspace", "attribute_id"),
)

factors = Table(
    "factors",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("factor_id", Id, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("workspace", "factor_id"),
)

options = Table(
    "factor_options",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("option_id", Id, nullable=False),
    Column("factor_id", Id, nullable=False),
    Column("label", Text, nullable=False),
    Column("value", Text),
    Column("attribute_ids", JSON, nullable=False),
    PrimaryKeyConstraint("workspace", "option_id"),
)

facet_tags = Table(
    "facet_tags",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("tag_id", Id, nullable=False),
    Column("item_key", Key, ForeignKey("items.item_key"), nullable=False),
    Column("facet_type", String, nullable=False),
    Column("facet_id", Id, nullable=False),
    Column("status", String, nullable=False),
    PrimaryKeyConstraint("workspace", "tag_id"),
    UniqueConstraint("item_key", "facet_type", "facet_id"),
    Index(None, "workspace", "facet_type", "facet_id", "status"),
)

facet_tag_events = Table(
    "facet_tag_events",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("tag_id", Id, nullable=False),
    Column("step", Integer, nullable=False),
    Column("before", String),
    Column("after", String, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("workspace", "tag_id", "step"),
)

# What an ingest has read: a file's digest, and for a file of many captures how many lines are stored.
ingest_progress = Table(
    "ingest_progress",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("name_hash", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("done", Integer, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("item_id", Id),
    Column("at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("workspace", "name_hash"),
)

# The vector side. Everything here can be thrown away and rebuilt, but for what people decided (the flag).
embedding_cache = Table(
    "embedding_cache",
    metadata,
    Column("fingerprint", Id, nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("windows", Integer, nullable=False),
    Column("dtype", String(8), nullable=False),
    Column("vectors", LargeBinary, nullable=False),
    PrimaryKeyConstraint("fingerprint", "text_hash"),
)

vector_collections = Table(
    "vector_collections",
    metadata,
    Column("name", Id, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("role", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(
        "uq_vector_collections_active",
        "role",
        unique=True,
        sqlite_where=text("role = 'active'"),
        postgresql_where=text("role = 'active'"),
    ),
)

vector_progress = Table(
    "vector_progress",
    metadata,
    Column("collection", Id, primary_key=True),
    Column("incarnation", String, nullable=False),
    Column("seq", Key, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("nonce", Key, nullable=False, server_default="0"),  # of the log at `seq`
)

vector_parked = Table(
    "vector_parked",
    metadata,
    Column("collection", Id, nullable=False),
    Column("passage_key", Key, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("retry_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("collection", "passage_key"),
    Index(None, "collection", "retry_at"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Id, primary_key=True),
    Column("owner", String, nullable=False),
    Column("until", UtcDateTime, nullable=False),
    Column("process", String),
)

# What processes tell each other: the newest comparison of rows and points, and each worker's last word.
vector_comparisons = Table(
    "vector_comparisons",
    metadata,
    Column("collection", Id, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("missing", Key, nullable=False),
    Column("orphan", Key, nullable=False),
    Column("by", Text, nullable=False),
)

vector_workers = Table(
    "vector_workers",
    metadata,
    Column("owner", Id, primary_key=True),
    Column("place", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("duty", String, nullable=False),
    Column("is_failing", Boolean, nullable=False),
    Column("fault", String),
    Column("failure", Text),
    Column("failed_at", UtcDateTime),
    Column("seen_at", UtcDateTime, nullable=False),
)

# The rollout flag: what people set, and every change that they made. The default's workspace is empty.
rollout_flag = Table(
    "rollout_flag",
    metadata,
    Column("workspace", Id, primary_key=True),
    Column("state", String, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

rollout_flag_changes = Table(
    "rollout_flag_changes",
    metadata,
    Column("id", Key, primary_key=True),
    Column("workspace", Id),
    Column("at", UtcDateTime, nullable=False),
    Column("by", Text, nullable=False),
    Column("before", String),
    Column("after", String),
    Column("reason", Text, nullable=False),
    Column("report_path", Text),
    Column("report_verdict", String),
    Column("report_dataset_hash", String),
    Column("report_created_at", UtcDateTime),
    Column("forced", Boolean, nullable=False),
)

# What shadow mode saw. Bounded: later writes remove the oldest rows.
shadow_comparisons = Table(
    "shadow_comparisons",
    metadata,
    Column("id", Key, primary_key=True),
    Column("workspace", Id, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("subject", String, nullable=False),
    Column("query_hash", String(64), nullable=False),
    Column("lexical_ms", Double, nullable=False),
    Column("hybrid_ms", Double, nullable=False),
    Column("degraded", String),
    Column("overlap", Double),
    Column("moves", JSON, nullable=False),
    Index(None, "workspace", "id"),
)

# Who may ask. The secret itself is nowhere; a revoked key stays on record.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("name", Text, nullable=False),
    Column("secret_hash", String(64), nullable=False),
    Column("workspaces", JSON, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("rate", Double),
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
)
