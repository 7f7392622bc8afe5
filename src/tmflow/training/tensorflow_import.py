"""Import of TensorFlow without optional modules: mainly Keras, which imports scikit-learn and pandas.

They take two fifths of the CPU time of the import, and each round is a process that imports TensorFlow.
"""

from __future__ import annotations

import sys

# TensorFlow works without these modules. `tf.keras` imports Keras on its first use.
NOT_NEEDED = ("keras", "h5py")


def import_tensorflow() -> None:
    """Import TensorFlow unless it is already imported; the optional modules can still be imported afterwards.

    Only `import tensorflow.keras` does not work, because TensorFlow prepares it during its import: use `tf.keras` or
    `keras`.
    """
    if "tensorflow" in sys.modules:
        return
    absent = [name for name in NOT_NEEDED if name not in sys.modules]
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]  # for None in it
    modules.update(dict.fromkeys(absent))  # Python cannot import a module that is None here
    try:
        import tensorflow  # noqa: F401  # imported for its side effect
    finally:
        for name in absent:
            del sys.modules[name]
