"""The function of a user's file that builds a model and its data."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tmflow.base.errors import BadInput, unknown


class UserModel(NamedTuple):
    """A compiled Keras model, its data, and what its accuracy is measured on, if it is given."""

    model: Any
    dataset: Any
    validation: Any = None


def build(target: str) -> UserModel:
    """Call a function of a file, named as in "training.py:build", which returns (model, dataset[, validation]).

    Raises BadInput if there is no such file or function, if either raises (its trace is printed before), and if the
    function returns anything else.
    """
    path, _, name = target.rpartition(":")
    if not path or not name.isidentifier():
        raise BadInput(f"'{target}' names no function; write a file and a function, such as training.py:build.")
    function = _function(Path(path), name)
    built = _run(function, f"{name} of {path}")
    if not isinstance(built, tuple) or len(built) not in (2, 3):
        raise BadInput(
            f"{name} of {path} returned {_kind(built)}, but should return (model, dataset) or (model, dataset, "
            "validation)."
        )
    return UserModel(*built)


def _function(path: Path, name: str) -> Callable[[], Any]:
    if not path.is_file():
        raise BadInput(f"{path} is no file.")
    spec = importlib.util.spec_from_file_location(f"advised_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} is no Python file: its name should end with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # so that it imports its neighbours, as when it is run
    sys.modules[spec.name] = module  # for dataclasses and pickle
    loader = spec.loader
    _run(lambda: loader.exec_module(module), str(path))
    functions = {key: value for key, value in vars(module).items() if callable(value) and not key.startswith("_")}
    if name not in functions:
        raise unknown(f"function of {path},", name, functions)
    function: Callable[[], Any] = functions[name]
    return function


def _run(function: Callable[[], Any], what: str) -> Any:
    try:
        return function()
    except Exception as error:
        traceback.print_exc()
        raise BadInput(f"{what} raised {type(error).__name__}; its trace is above.") from error


def _kind(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a value of type {type(value).__name__}"
