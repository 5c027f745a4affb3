"""When a parked passage is tried again, and which process holds a lease.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

UTC = sa.DateTime(timezone=True)
AT_ONCE = sa.text("'1970-01-01 00:00:00'")  # what is parked already is tried again soon


def upgrade() -> None:
    """Add the columns."""
    op.add_column("vector_parked", sa.Column("retry_at", UTC, nullable=False, server_default=AT_ONCE))
    op.create_index("ix_vector_parked_collection_retry_at", "vector_parked", ["collection", "retry_at"])
    op.add_column("leases", sa.Column("process", sa.String(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("leases", "process")
    op.drop_index("ix_vector_parked_collection_retry_at", "vector_parked")
    op.drop_column("vector_parked", "retry_at")
