"""Alembic's entry point: runs migrations on the connection and in the transaction of `schema.upgrade`."""

from alembic import context

from tmflow.store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite alters a table by rebuilding it
    transactional_ddl=True,  # Alembic assumes otherwise for SQLite, whose driver used to commit before DDL
)
with context.begin_transaction():
    context.run_migrations()
