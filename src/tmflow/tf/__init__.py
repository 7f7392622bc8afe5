"""The strategies over single variables of TensorFlow, for training loops of one's own."""

from tmflow.base.extras import requires_extra

with requires_extra("tmflow.tf"):
    from tmflow.tf.guard import Guard, guard

__all__ = ["Guard", "guard"]
