"""The benchmark of updates: what an update costs under each variant, measured in turns so that they compare."""
