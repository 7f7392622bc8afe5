"""Training: the models, the order of the data, and the drivers that call the update from many workers."""
