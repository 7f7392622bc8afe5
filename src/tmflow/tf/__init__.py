"""The strategies over single variables of TensorFlow, for training loops of one's own."""

from tmflow.tf.guard import Guard, guard

__all__ = ["Guard", "guard"]
