"""The schema's history, run by Alembic. A revision that has been released is never edited."""
