"""The import of TensorFlow: only the modules that training needs, and without notices that say nothing to its user."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# TensorFlow works without these modules. Keras, which imports scikit-learn and pandas, takes two fifths of the CPU time
# of the import, and each round is a process that imports TensorFlow. `tf.keras` imports Keras on its first use.
NOT_NEEDED = ("keras", "h5py")

# TensorFlow 2.21 prints these at each import on processors with AVX-512, whatever TF_CPP_MIN_LOG_LEVEL says.
NOTICES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|I0000 .* oneDNN custom operations are on\. "
)
STANDARD_ERROR = 2


def import_tensorflow() -> None:
    """Import TensorFlow without the modules that it does not need; they can still be imported afterwards.

    Only `import tensorflow.keras` does not work, because TensorFlow prepares it during its import: use `tf.keras` or
    `keras`.
    """
    if "tensorflow" in sys.modules:
        return
    absent = [name for name in NOT_NEEDED if name not in sys.modules]
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]  # for None in it
    modules.update(dict.fromkeys(absent))  # Python cannot import a module that is None here
    try:
        with _without_notices():
            import tensorflow  # noqa: F401  # imported for its side effect
    finally:
        for name in absent:
            del sys.modules[name]


@contextmanager
def _without_notices() -> Iterator[None]:
    """Print what a block writes to standard error when the block ends, without `NOTICES`.

    TensorFlow's C++ code writes them to the file descriptor, which `sys.stderr` does not see.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as written:
        before = os.dup(STANDARD_ERROR)
        os.dup2(written.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, STANDARD_ERROR)
            os.close(before)
            written.seek(0)
            rest = b"".join(line for line in written if not NOTICES.match(line))
            while rest:
                rest = rest[os.write(STANDARD_ERROR, rest) :]
