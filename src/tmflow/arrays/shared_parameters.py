"""Parameters of a model that several threads update at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput
from tmflow.native import automatic, loader

if TYPE_CHECKING:
    from tmflow.native import _core
    from tmflow.spec.factors import Measures

Rows = tuple[Any, Any]
"""A gradient of some rows: their numbers [n], and the gradient of each [n, the shape of a row]."""

_ANY_WORKER = -1


class SharedParameters:
    """Arrays that threads update in place under a strategy, each array separately.

    Any threads may call `apply` and `read` at the same time; the interpreter lock is free meanwhile. An array may be
    read directly, too: `parameters[name]` is the memory, which changes while others update it.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        *,
        strategy: str = automatic.AUTO,
        consistency: automatic.Consistency | None = None,
        workers: int | None = None,
        measures: Measures = "usual",
        by_rows: Collection[str] = (),
    ) -> None:
        """Share writable, C-contiguous arrays of float32 or float64, or CPU tensors of PyTorch, by name.

        strategy: "auto" or a variant such as "striped:block=0". consistency: what concurrent updates must guarantee,
        one of none, element, block and tensor; with "auto" it selects the strategy, and is "block" if it is not given.
        workers: how many calls can run at once without waiting; twice the number of processors if it is not given.
        measures: "full" also counts lost updates and torn reads and times locks, which takes time, and memory for each
        of the `workers`. by_rows: with full measures the names of the arrays whose updates all change rows; those of
        the others change whole arrays.

        Raises BadInput for what is wrong, for arrays that share memory with each other or with those of other live
        SharedParameters, and Unsupported for a strategy that cannot run here.
        """
        if not arrays:
            raise BadInput("there are no arrays to share.")
        by_rows = {by_rows} if isinstance(by_rows, str) else set(by_rows)
        if missing := sorted(by_rows - set(arrays)):
            raise BadInput(f"by_rows has '{missing[0]}', but there is no such array; there are: {', '.join(arrays)}.")
        self._strategy, places = automatic.resolve(strategy, consistency), automatic.check_workers(workers)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._regions: dict[str, _core.Region] = {}
        for name, array in arrays.items():
            try:
                self._arrays[name] = _memory(name, array)
                region = loader.core().Region(self._arrays[name], places, measures, name in by_rows)
                self._regions[name] = region
                if measures == "full":  # an array may be too large for them
                    region.prepare(self._strategy.name, self._strategy.native_arguments)
            except (TypeError, ValueError) as error:
                self.close()
                raise BadInput(f"{name}: {error}.") from error

    def close(self) -> None:
        """Give the arrays back, so that others may share them. Call it while no thread uses this object."""
        self._arrays.clear()
        self._regions.clear()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The memory of an array."""
        return self._arrays[self._name(name)]

    def __iter__(self) -> Any:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def apply(self, gradients: Mapping[str, Any], learning_rate: float) -> None:
        """array -= learning_rate * gradient, for each array that is named.

        A gradient has the type and shape of its array, or is a pair (row numbers, rows), which changes these rows only;
        a row that is given twice gets the sum. Raises BadInput, before that array is changed, for a gradient that does
        not fit; arrays before it in the mapping are updated already.
        """
        strategy, parameters = self._strategy.name, self._strategy.native_arguments
        for name, gradient in gradients.items():
            region, dtype = self._regions[self._name(name)], self._arrays[name].dtype
            try:
                if isinstance(gradient, tuple):
                    rows, values = _row_numbers(gradient[0]), np.ascontiguousarray(_numpy(gradient[1]), dtype)
                    region.apply_rows(strategy, learning_rate, rows, values, _ANY_WORKER, parameters)
                else:
                    values = np.ascontiguousarray(_numpy(gradient), dtype)
                    region.apply(strategy, learning_rate, values, _ANY_WORKER, parameters)
            except (TypeError, ValueError) as error:
                raise BadInput(f"{name}: {error}.") from error

    def read(self, name: str) -> NDArray[Any]:
        """A copy of an array, through the strategy, with the consistency of its reads.

        Raises BadInput for an unknown name, and for a strategy without such reads.
        """
        into = np.empty_like(self._arrays[self._name(name)])
        try:
            self._regions[name].read(self._strategy.name, into, _ANY_WORKER, self._strategy.native_arguments)
        except ValueError as error:
            raise BadInput(f"{name}: {error}.") from error
        return into

    def copy(self, name: str, rows: Any = None) -> NDArray[Any]:
        """A copy of the memory of an array, or of some of its rows, without the strategy.

        While others update, the copy may be torn: it may contain an update in one part and lack it in another. Full
        measures count this for copies of whole arrays and, with `by_rows`, for copies of rows. Raises BadInput for an
        unknown name and for rows that the array does not have.
        """
        array, region = self._arrays[self._name(name)], self._regions[name]
        strategy, parameters = self._strategy.name, self._strategy.native_arguments
        try:
            if rows is None:
                into = np.empty_like(array)
                region.copy(strategy, into, _ANY_WORKER, parameters)
            else:
                numbers, places = _in_order(_row_numbers(rows))
                into = np.empty((len(numbers), *array.shape[1:]), array.dtype)
                region.copy_rows(strategy, numbers, into, _ANY_WORKER, parameters)
                into = into if places is None else into[places]
        except ValueError as error:
            raise BadInput(f"{name}: {error}.") from error
        return into

    def counters(self) -> dict[str, list[_core.CounterRow]]:
        """For each array, the updates and the outcomes of transactions, by places of concurrent calls.

        With full measures also the times of locks, else 0, and the reads and torn ones: None where they cannot be told
        apart, and with usual measures. The reads are `copy`, and `read` of arrays that are not `by_rows`. Call it while
        no thread updates.
        """
        return {name: region.counters() for name, region in self._regions.items()}

    def lost(self) -> dict[str, _core.LossRow | None]:
        """For each array, the updates of elements that were made, and how many of them were lost.

        None without full measures. Call it while no thread updates.
        """
        return {name: region.lost() for name, region in self._regions.items()}

    def _name(self, name: str) -> str:
        if name not in self._arrays:
            raise BadInput(f"there is no array '{name}'; there are: {', '.join(self._arrays)}.")
        return name


def _memory(name: str, array: Any) -> NDArray[Any]:
    """The memory of an array or tensor. Raises BadInput for anything whose memory cannot be shared."""
    memory = _numpy(array)
    if not isinstance(memory, np.ndarray):
        raise BadInput(f"{name} is a {type(array).__name__}, but should be a NumPy array or a CPU tensor of PyTorch.")
    return memory


def _row_numbers(rows: Any) -> NDArray[np.int64]:
    numbers = np.asarray(_numpy(rows))
    if numbers.size == 0:
        return np.empty(0, np.int64)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"the numbers of rows are {numbers.dtype.name}, but should be whole numbers")
    return np.ascontiguousarray(numbers, np.int64)


def _in_order(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
    """The rows in ascending order, each once, and the places where the given ones are; None if they are as given."""
    if (rows[1:] > rows[:-1]).all():
        return rows, None
    return np.unique(rows, return_inverse=True)


def _numpy(array: Any) -> Any:
    """A tensor of PyTorch as an array over its memory; anything else as it is."""
    return array.detach().numpy() if hasattr(array, "detach") else array
