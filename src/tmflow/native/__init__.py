"""The compiled core from Python: its build, its loading, the registry of strategies and the TensorFlow ops."""
