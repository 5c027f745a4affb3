"""Each change's number in its own workspace: what a cursor may tell of the corpus without telling of others.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column and number what is there."""
    op.add_column("change_log", sa.Column("number", KEY, nullable=False, server_default="0"))
    op.execute(
        "UPDATE change_log SET number = numbered.number FROM (SELECT seq, row_number() OVER "
        "(PARTITION BY workspace ORDER BY seq) AS number FROM change_log) AS numbered "
        "WHERE numbered.seq = change_log.seq"
    )
    op.create_index("ix_change_log_workspace_number", "change_log", ["workspace", "number"])


def downgrade() -> None:
    """Drop the column."""
    op.drop_index("ix_change_log_workspace_number", "change_log")
    op.drop_column("change_log", "number")
