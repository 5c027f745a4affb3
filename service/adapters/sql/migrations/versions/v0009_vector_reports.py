"""What processes tell each other of the vector index: the last comparison, and how the workers are.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "vector_comparisons",
        sa.Column("collection", ID, nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.Column("missing", KEY, nullable=False),
        sa.Column("orphan", KEY, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("collection", name="pk_vector_comparisons"),
    )
    op.create_table(
        "vector_workers",
        sa.Column("owner", ID, nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("duty", sa.String(), nullable=False),
        sa.Column("is_failing", sa.Boolean(), nullable=False),
        sa.Column("fault", sa.String()),
        sa.Column("failure", sa.Text()),
        sa.Column("failed_at", UTC),
        sa.Column("seen_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_vector_workers"),
    )


def downgrade() -> None:
    """Drop the tables: what they hold is told anew within minutes."""
    for table in ("vector_workers", "vector_comparisons"):
        op.drop_table(table)
