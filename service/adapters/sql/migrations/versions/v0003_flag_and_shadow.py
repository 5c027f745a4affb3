"""The rollout flag with its changes, and what shadow mode saw.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "rollout_flag",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("workspace", name="pk_rollout_flag"),
    )
    op.create_table(
        "rollout_flag_changes",
        sa.Column("id", KEY, nullable=False),
        sa.Column("workspace", ID),
        sa.Column("at", UTC, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("before", sa.String()),
        sa.Column("after", sa.String()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("report_path", sa.Text()),
        sa.Column("report_verdict", sa.String()),
        sa.Column("report_dataset_hash", sa.String()),
        sa.Column("report_created_at", UTC),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rollout_flag_changes"),
    )
    op.create_table(
        "shadow_comparisons",
        sa.Column("id", KEY, nullable=False),
        sa.Column("workspace", ID, nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("query_hash", sa.String(64), nullable=False),
        sa.Column("lexical_ms", sa.Double(), nullable=False),
        sa.Column("hybrid_ms", sa.Double(), nullable=False),
        sa.Column("degraded", sa.String()),
        sa.Column("overlap", sa.Double()),
        sa.Column("moves", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_shadow_comparisons"),
    )


def downgrade() -> None:
    """Drop the tables: the flag falls back to the environment's value."""
    for table in ("shadow_comparisons", "rollout_flag_changes", "rollout_flag"):
        op.drop_table(table)
