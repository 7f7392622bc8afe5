"""Asynchronous training of one Keras model by several threads."""
