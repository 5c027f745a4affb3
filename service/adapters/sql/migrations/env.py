"""Alembic's entry: migrations run on the connection that `upgrade` hands over."""

from alembic import context

from service.adapters.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
