"""The database of runs: models, migrations, engine, ingest, queries, search and checks."""
