"""The native side: the strategies in C++, as a Python module and as TensorFlow ops, and the registry of them all."""
