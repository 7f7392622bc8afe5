"""The native libraries: where they are, and loading them; in an installed package their first use compiles them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tmflow.base.errors import BadInput, Unsupported
from tmflow.base.paths import is_installed_package, results_dir
from tmflow.native import first_use
from tmflow.native.build import LOOPBACK_LIBRARY, OPS_LIBRARY, RUNTIME_LIBRARY, core_file

if TYPE_CHECKING:
    from tmflow.native import _core

CORE_MODULE = "tmflow.native._core"
PRELOAD = "LD_PRELOAD"

# With `cache` alone, two threads that call at the same time would load the module twice, and nanobind warns of that.
_LOADING = threading.Lock()


def library_dir() -> Path:
    """The folder of the native libraries, which may not exist yet.

    $TMFLOW_NATIVE_DIR if it is set; of an installed package, a folder of the user's cache; else build/lib of the
    results folder.
    """
    override = os.environ.get("TMFLOW_NATIVE_DIR")
    if override:
        return Path(override).expanduser().absolute()
    return first_use.folder() if is_installed_package() else results_dir() / "build" / "lib"


def _built_dir() -> Path:
    """The folder of the native libraries, which an installed package compiles if it does not exist.

    Raises BadInput if that fails.
    """
    folder = library_dir()
    if _is_compiled_by_use():
        first_use.compile_once(folder)
    return folder


def _is_compiled_by_use() -> bool:
    return is_installed_package() and not os.environ.get("TMFLOW_NATIVE_DIR")


def core() -> _core.Core:
    """The Python module over the C++ core, without TensorFlow. Raises BadInput if it is not built or does not load."""
    folder = _built_dir()
    file = core_file(folder)
    if file is None:
        raise _not_built(folder)
    with _LOADING:
        return _load_core(file)


def ops() -> Any:
    """The module of the TensorFlow ops. Raises BadInput if they are not built, Unsupported without TensorFlow."""
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here, so its operations cannot run.")
    file = _built_dir() / OPS_LIBRARY
    if not file.is_file():
        raise _not_built(file)
    return _load_ops(file)


def runtime() -> ctypes.CDLL:
    """The library of the executors and transports, registered with TensorFlow.

    Raises BadInput if it is not built or was built for another TensorFlow, Unsupported without TensorFlow.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here, so it has no executors and transports.")
    file = library_dir() / RUNTIME_LIBRARY
    if not file.is_file():
        raise _not_built(file)
    with _LOADING:
        return _load_runtime(file)


def loopback_only(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that listens on the loopback interface only. Raises BadInput if it is not built.

    TensorFlow's server listens on every interface, whatever its address says, and its gRPC has no authentication.
    """
    file = library_dir() / LOOPBACK_LIBRARY
    if not file.is_file():
        raise _not_built(file)
    others = [name for name in environment.get(PRELOAD, "").split(":") if name and name != str(file)]
    return {**environment, PRELOAD: ":".join([str(file), *others])}


def _not_built(missing: Path) -> BadInput:
    """The error for a library, or the folder of all, that is missing."""
    if not is_installed_package():
        return BadInput(f"the native library is not built in {library_dir()}: run `make build`.")
    if missing.name in (RUNTIME_LIBRARY, LOOPBACK_LIBRARY):
        return BadInput(f"{missing.name} belongs to the study, which needs a checkout of tmflow and `make build`.")
    return BadInput(f"the native library is not in {library_dir()}: {_remedy()}.")


def _remedy() -> str:
    """What to do about a library that is missing or does not load."""
    if _is_compiled_by_use():
        return f"remove that folder ({library_dir()}), and the next use compiles it again"
    if is_installed_package():
        return "unset TMFLOW_NATIVE_DIR, and the next use compiles it"
    return "run `make build`"


@cache
def _load_core(file: Path) -> _core.Core:
    spec = importlib.util.spec_from_file_location(CORE_MODULE, file)
    assert spec is not None  # the suffix is that of an extension module
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise BadInput(f"the native library {file} does not load ({error}): {_remedy()}.") from error
    return cast("_core.Core", module)


@cache
def _load_ops(file: Path) -> Any:
    import tensorflow as tf

    try:
        return tf.load_op_library(str(file))
    except tf.errors.NotFoundError as error:
        raise BadInput(f"the native library {file} does not load ({error.message}): {_remedy()}.") from error


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
        raise BadInput(f"the native library {file} does not load ({error}): {_remedy()}.") from error
    if not is_registered:
        built_for = library.tmflow_runtime_tensorflow_version().decode()
        raise BadInput(
            f"the executors and transports were built for TensorFlow {built_for}, and this is TensorFlow "
            f"{tf.__version__}: run `make build`."
        )
    return library
