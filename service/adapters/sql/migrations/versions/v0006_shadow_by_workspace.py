"""Each workspace's comparisons in order: what is kept of shadow mode is bounded workspace by workspace.

Revision ID: 0006
Revises: 0005
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_shadow_comparisons_workspace_id", "shadow_comparisons", ["workspace", "id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_shadow_comparisons_workspace_id", "shadow_comparisons")
