"""One trial: models, batches, the session driver and the native driver."""
