"""API keys.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("workspaces", sa.JSON(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("rate", sa.Double()),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("last_used_at", UTC),
        sa.Column("revoked_at", UTC),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )


def downgrade() -> None:
    """Drop the table: no key counts any more, and the service lets itself be reached by this machine only."""
    op.drop_table("api_keys")
