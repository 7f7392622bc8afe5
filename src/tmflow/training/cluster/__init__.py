"""The cluster driver: parameter servers and workers, processes of TensorFlow's distributed runtime."""
