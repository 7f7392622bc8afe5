"""The native libraries: where they are, and loading them."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tmflow.base.errors import BadInput, Unsupported
from tmflow.base.paths import results_dir

if TYPE_CHECKING:
    from tmflow.native import _core

CORE_MODULE = "tmflow.native._core"
OPS_LIBRARY = "libtmflow_ops.so"
LOOPBACK_LIBRARY = "libtmflow_loopback.so"
RUNTIME_LIBRARY = "libtmflow_runtime.so"
PRELOAD = "LD_PRELOAD"

# With `cache` alone, two threads that call at the same time would load the module twice, and nanobind warns of that.
_LOADING = threading.Lock()


def library_dir() -> Path:
    """The folder of the native libraries: $TMFLOW_NATIVE_DIR if it is set, else build/lib of the results folder."""
    override = os.environ.get("TMFLOW_NATIVE_DIR")
    return Path(override).expanduser().absolute() if override else results_dir() / "build" / "lib"


def core_file(folder: Path) -> Path | None:
    """The Python module for this interpreter that is built in `folder`, or None."""
    files = (folder / f"_core{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def core() -> _core.Core:
    """The Python module over the C++ core, without TensorFlow. Raises BadInput if it is not built or does not load."""
    file = core_file(library_dir())
    if file is None:
        raise _not_built()
    with _LOADING:
        return _load_core(file)


def ops() -> Any:
    """The module of the TensorFlow ops. Raises BadInput if they are not built, Unsupported without TensorFlow."""
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here, so its operations cannot run.")
    file = library_dir() / OPS_LIBRARY
    if not file.is_file():
        raise _not_built()
    return _load_ops(file)


def runtime() -> ctypes.CDLL:
    """The library of the executors and transports, registered with TensorFlow.

    Raises BadInput if it is not built or was built for another TensorFlow, Unsupported without TensorFlow.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here, so it has no executors and transports.")
    file = library_dir() / RUNTIME_LIBRARY
    if not file.is_file():
        raise _not_built()
    with _LOADING:
        return _load_runtime(file)


def loopback_only(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that listens on the loopback interface only. Raises BadInput if it is not built.

    TensorFlow's server listens on every interface, whatever its address says, and its gRPC has no authentication.
    """
    file = library_dir() / LOOPBACK_LIBRARY
    if not file.is_file():
        raise _not_built()
    others = [name for name in environment.get(PRELOAD, "").split(":") if name and name != str(file)]
    return {**environment, PRELOAD: ":".join([str(file), *others])}


def _not_built() -> BadInput:
    return BadInput(f"the native library is not built in {library_dir()}: run `make build`.")


@cache
def _load_core(file: Path) -> _core.Core:
    spec = importlib.util.spec_from_file_location(CORE_MODULE, file)
    assert spec is not None  # the suffix is that of an extension module
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise BadInput(f"the native library {file} does not load ({error}): run `make build`.") from error
    return cast("_core.Core", module)


@cache
def _load_ops(file: Path) -> Any:
    import tensorflow as tf

    try:
        return tf.load_op_library(str(file))
    except tf.errors.NotFoundError as error:
        raise BadInput(f"the native library {file} does not load ({error.message}): run `make build`.") from error


@cache
def _load_runtime(file: Path) -> ctypes.CDLL:
    import tensorflow as tf

    try:
        library = ctypes.CDLL(str(file))
        library.tmflow_runtime_tensorflow_version.restype = ctypes.c_char_p
        library.tmflow_runtime_schedulers.restype = ctypes.c_char_p
        library.tmflow_runtime_protocols.restype = ctypes.c_char_p
        library.tmflow_runtime_register.restype = ctypes.c_bool
        is_registered = library.tmflow_runtime_register(tf.__version__.encode())
    except (OSError, AttributeError) as error:
        raise BadInput(f"the native library {file} does not load ({error}): run `make build`.") from error
    if not is_registered:
        built_for = library.tmflow_runtime_tensorflow_version().decode()
        raise BadInput(
            f"the executors and transports were built for TensorFlow {built_for}, and this is TensorFlow "
            f"{tf.__version__}: run `make build`."
        )
    return library
