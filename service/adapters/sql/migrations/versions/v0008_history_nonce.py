"""A random number a commit: a history that went another way after a restore is told from the one that was lost.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
RANDOM = {
    "sqlite": "abs(random() % 9007199254740991)",
    "postgresql": "CAST(random() * 9007199254740991 AS bigint)",
}


def upgrade() -> None:
    """Add the columns. What is there gets numbers of its own, so that no two copies of it are taken for one."""
    op.add_column("change_log", sa.Column("nonce", KEY, nullable=False, server_default="0"))
    op.add_column("vector_progress", sa.Column("nonce", KEY, nullable=False, server_default="0"))
    op.execute(f"UPDATE change_log SET nonce = {RANDOM[op.get_bind().dialect.name]}")  # noqa: S608 - two constants
    op.execute(
        "UPDATE vector_progress SET nonce = coalesce((SELECT change_log.nonce FROM change_log "
        "WHERE change_log.seq <= vector_progress.seq ORDER BY change_log.seq DESC LIMIT 1), 0)"
    )


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("vector_progress", "nonce")
    op.drop_column("change_log", "nonce")
