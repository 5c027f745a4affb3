"""The first schema.

Revision ID: 0001
Revises:
"""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table and the one counter row."""
    op.create_table(
        "attributes",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("attribute_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "attribute_id", name=op.f("pk_attributes")),
    )
    op.create_table(
        "change_counter",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("seq", KEY, nullable=False),
        sa.Column("item_key", KEY, nullable=False),
        sa.Column("passage_key", KEY, nullable=False),
        sa.Column("database_id", sa.String(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_change_counter_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_counter")),
    )
    op.create_table(
        "change_log",
        sa.Column("seq", KEY, autoincrement=False, nullable=False),
        sa.Column("workspace", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("item_key", KEY, nullable=True),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_change_log")),
    )
    op.create_index(op.f("ix_change_log_workspace_seq"), "change_log", ["workspace", "seq"], unique=False)
    op.create_table(
        "facet_tag_events",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("tag_id", ID, nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("before", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("workspace", "tag_id", "step", name=op.f("pk_facet_tag_events")),
    )
    op.create_table(
        "factor_options",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("option_id", ID, nullable=False),
        sa.Column("factor_id", ID, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("attribute_ids", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "option_id", name=op.f("pk_factor_options")),
    )
    op.create_table(
        "factors",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("factor_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "factor_id", name=op.f("pk_factors")),
    )
    op.create_table(
        "ingest_progress",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("name_hash", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.Column("item_id", ID, nullable=True),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("workspace", "name_hash", name=op.f("pk_ingest_progress")),
    )
    op.create_table(
        "items",
        sa.Column("item_key", KEY, autoincrement=False, nullable=False),
        sa.Column("workspace", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("title_terms", sa.Text(), nullable=False),
        sa.Column("content_type", sa.String(), nullable=False),
        sa.Column("source_type", sa.String(), nullable=False),
        sa.Column("source_url", sa.Text(), nullable=True),
        sa.Column("source_filename", sa.Text(), nullable=True),
        sa.Column("source_hash", sa.String(length=64), nullable=False),
        sa.Column("source_url_ok", sa.Boolean(), nullable=True),
        sa.Column("resource_types", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("fetched_at", UTC, nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("retired_at", UTC, nullable=True),
        sa.Column("superseded_by", ID, nullable=True),
        sa.PrimaryKeyConstraint("item_key", name=op.f("pk_items")),
        sa.UniqueConstraint("workspace", "item_id", name=op.f("uq_items_workspace_item_id")),
    )
    op.create_index(
        op.f("ix_items_workspace_source_hash"), "items", ["workspace", "source_hash"], unique=False
    )
    op.create_index(
        op.f("ix_items_workspace_superseded_by"), "items", ["workspace", "superseded_by"], unique=False
    )
    op.create_index(
        "uq_items_live_source",
        "items",
        ["workspace", "source_hash"],
        unique=True,
        sqlite_where=sa.text("retired_at IS NULL AND superseded_by IS NULL"),
        postgresql_where=sa.text("retired_at IS NULL AND superseded_by IS NULL"),
    )
    op.create_table(
        "systems",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("system_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("operation_type", sa.Text(), nullable=True),
        sa.Column("material", sa.Text(), nullable=True),
        sa.Column("interior_exterior", sa.Text(), nullable=True),
        sa.Column("use_cases", sa.JSON(), nullable=False),
        sa.Column("retired_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("workspace", "system_id", name=op.f("pk_systems")),
    )
    op.create_table(
        "facet_tags",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("tag_id", ID, nullable=False),
        sa.Column("item_key", KEY, nullable=False),
        sa.Column("facet_type", sa.String(), nullable=False),
        sa.Column("facet_id", ID, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["item_key"], ["items.item_key"], name=op.f("fk_facet_tags_item_key")),
        sa.PrimaryKeyConstraint("workspace", "tag_id", name=op.f("pk_facet_tags")),
        sa.UniqueConstraint(
            "item_key", "facet_type", "facet_id", name=op.f("uq_facet_tags_item_key_facet_type_facet_id")
        ),
    )
    op.create_index(
        op.f("ix_facet_tags_workspace_facet_type_facet_id_status"),
        "facet_tags",
        ["workspace", "facet_type", "facet_id", "status"],
        unique=False,
    )
    op.create_table(
        "passages",
        sa.Column("passage_key", KEY, autoincrement=False, nullable=False),
        sa.Column("item_key", KEY, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("heading", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("scorable", sa.Boolean(), nullable=False),
        sa.Column("heading_terms", sa.Text(), nullable=False),
        sa.Column("body_terms", sa.Text(), nullable=False),
        sa.Column("body_length", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["item_key"], ["items.item_key"], name=op.f("fk_passages_item_key")),
        sa.PrimaryKeyConstraint("passage_key", name=op.f("pk_passages")),
        sa.UniqueConstraint("item_key", "seq", name=op.f("uq_passages_item_key_seq")),
    )
    counter = sa.table(
        "change_counter",
        *(sa.column(name) for name in ("id", "seq", "item_key", "passage_key", "database_id")),
    )
    op.bulk_insert(
        counter, [{"id": 1, "seq": 0, "item_key": 0, "passage_key": 0, "database_id": uuid.uuid4().hex}]
    )


def downgrade() -> None:
    """Drop every table; this removes all data."""
    op.drop_table("passages")
    op.drop_table("facet_tags")
    op.drop_table("systems")
    op.drop_table("items")
    op.drop_table("ingest_progress")
    op.drop_table("factors")
    op.drop_table("factor_options")
    op.drop_table("facet_tag_events")
    op.drop_table("change_log")
    op.drop_table("change_counter")
    op.drop_table("attributes")
