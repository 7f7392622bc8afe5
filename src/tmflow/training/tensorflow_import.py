"""TensorFlow without what it imports for others alone: Keras above all, with scikit-learn and pandas behind it.

That is two fifths of the processor time of importing it, and each round is a process that imports it.
"""

from __future__ import annotations

import sys

# TensorFlow goes without each of them where it is not installed. `tf.keras` imports Keras when it is first used.
NOT_NEEDED = ("keras", "h5py")


def import_tensorflow() -> None:
    """Import TensorFlow, unless somebody has; what is not needed can be imported afterwards, as ever.

    But for `import tensorflow.keras`, which TensorFlow prepares while it is imported: say `tf.keras` or `keras`.
    """
    if "tensorflow" in sys.modules:
        return
    absent = [name for name in NOT_NEEDED if name not in sys.modules]
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]  # for None in it
    modules.update(dict.fromkeys(absent))  # Python takes a module that is None for one that cannot be imported
    try:
        import tensorflow  # noqa: F401  # to have it imported is all
    finally:
        for name in absent:
            del sys.modules[name]
