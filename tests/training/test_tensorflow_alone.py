"""The import of TensorFlow for a round omits unneeded modules, which can still be imported later."""

from __future__ import annotations

import subprocess
import sys

from tmflow.training.tensorflow_module import NOT_NEEDED

VARIANT = """
import sys
from tests.training.conftest import make_spec, strategy_of
from tmflow.training.session import Variant
spec = make_spec(strategy="tf_lock")
Variant(spec, strategy_of(spec), 1, 1).close()
"""
OTHERS = "[name for name in ('keras', 'h5py', 'sklearn', 'pandas') if name in sys.modules]"


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_variant_imports_tensorflow_without_what_it_does_not_need() -> None:
    assert printed(f"{VARIANT}print({OTHERS})") == "[]"


def test_what_was_left_out_is_there_afterwards() -> None:
    assert printed(f"{VARIANT}import h5py, tensorflow as tf; print(tf.keras.layers.Dense(4).units)") == "4"


def test_what_was_imported_before_stays() -> None:
    assert printed(f"import h5py{VARIANT}print(sys.modules['h5py'] is h5py)") == "True"


def test_reading_a_dataset_needs_none_of_it() -> None:
    """A thread may do that while TensorFlow is imported."""
    program = "import sys; from tmflow import datasets; [datasets.load(name) for name in ('digits', 'mnist')]"
    assert printed(f"{program}; print([name for name in {NOT_NEEDED} if name in sys.modules])") == "[]"
