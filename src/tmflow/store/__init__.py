"""The database of runs: models, migrations, the one writer (`ingest`) and the questions asked of it (`queries`)."""
