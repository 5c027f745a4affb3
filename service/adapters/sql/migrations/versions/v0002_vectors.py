"""The SQL side of the vector arm: embedding cache, collections, progress, parked passages, leases.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "embedding_cache",
        sa.Column("fingerprint", ID, nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.String(8), nullable=False),
        sa.Column("vectors", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "text_hash", name="pk_embedding_cache"),
    )
    op.create_table(
        "vector_collections",
        sa.Column("name", ID, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_vector_collections"),
    )
    op.create_index(
        "uq_vector_collections_active",
        "vector_collections",
        ["role"],
        unique=True,
        sqlite_where=sa.text("role = 'active'"),
        postgresql_where=sa.text("role = 'active'"),
    )
    op.create_table(
        "vector_progress",
        sa.Column("collection", ID, nullable=False),
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("seq", KEY, nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("collection", name="pk_vector_progress"),
    )
    op.create_table(
        "vector_parked",
        sa.Column("collection", ID, nullable=False),
        sa.Column("passage_key", KEY, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("collection", "passage_key", name="pk_vector_parked"),
    )
    op.create_table(
        "leases",
        sa.Column("name", ID, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("until", UTC, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def downgrade() -> None:
    """Drop the tables; vectors are derived and can be built again."""
    for table in ("leases", "vector_parked", "vector_progress", "vector_collections", "embedding_cache"):
        op.drop_table(table)
