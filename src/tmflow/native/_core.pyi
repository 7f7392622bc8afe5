"""The Python module of native_ops/src/python."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, overload

import numpy as np
from numpy.typing import NDArray

class ParameterRow(TypedDict):
    name: str
    fallback: str
    allowed: str
    summary: str

class StrategyRow(TypedDict):
    name: str
    summary: str
    update_consistency: str
    read_consistency: str
    snapshot_consistency: str
    keeps_elsewhere: bool
    runnable: bool
    why_not: str | None
    parameters: list[ParameterRow]

class OptimiserRow(TypedDict):
    name: str
    slots: int
    initial: float
    hyperparameters: dict[str, float]

class CounterRow(TypedDict):
    worker: int
    updates: int
    attempts: int | None
    commits: int
    fallbacks: int
    aborts: dict[int, int]
    waited_ns: int
    held_ns: int
    reads: int | None
    torn: int | None

class AuditRow(TypedDict):
    strategy: str
    dtype: str
    threads: int
    updates: int
    elements: int
    expected: int
    lost: int
    doubled: int
    corrupt_elements: int
    counted: int
    lost_fraction: float
    seconds: float

class MeasuredRow(TypedDict):
    updates: int
    seconds: float
    expected: int
    lost: int
    doubled: int
    corrupt_elements: int
    commits: int
    fallbacks: int
    aborts: dict[int, int]
    attempts_known: bool

class ReadRow(TypedDict):
    reads: int
    updates: int
    seconds: float
    checked: int
    torn: int

class CopiedRow(TypedDict):
    updates: int
    seconds: float

class TmProbeRow(TypedDict):
    reported: bool
    tried: int
    committed: int
    statuses: dict[str, int]

class BuildRow(TypedDict):
    compiler: str
    cflags: str

class LossRow(TypedDict):
    expected: int
    lost: int

class Region:
    def __init__(
        self, array: NDArray[Any], workers: int = 1, measures: str = "usual", by_rows: bool = False
    ) -> None: ...
    def prepare(self, strategy: str, parameters: Sequence[str] = ()) -> None: ...
    def apply(
        self, strategy: str, alpha: float, delta: NDArray[Any], worker: int = 0, parameters: Sequence[str] = ()
    ) -> None: ...
    def apply_dense(
        self,
        strategy: str,
        alpha: float,
        input: NDArray[Any],
        output_gradient: NDArray[Any],
        worker: int = 0,
        parameters: Sequence[str] = (),
    ) -> None: ...
    def apply_rows(
        self,
        strategy: str,
        alpha: float,
        rows: NDArray[np.int64],
        values: NDArray[Any],
        worker: int = 0,
        parameters: Sequence[str] = (),
    ) -> None: ...
    def read(self, strategy: str, into: NDArray[Any], worker: int = 0, parameters: Sequence[str] = ()) -> None: ...
    def copy(self, strategy: str, into: NDArray[Any], worker: int = 0, parameters: Sequence[str] = ()) -> None: ...
    def copy_rows(
        self,
        strategy: str,
        rows: NDArray[np.int64],
        into: NDArray[Any],
        worker: int = 0,
        parameters: Sequence[str] = (),
    ) -> None: ...
    def settle(self) -> None: ...
    def restart(self) -> None: ...
    def counters(self) -> list[CounterRow]: ...
    def lost(self) -> LossRow | None: ...

class NativeCounterRow(CounterRow):
    variable: str
    retries: dict[int, int]
    failed_publications: dict[int, int]
    taken_blocks: dict[int, int]

class LostRow(TypedDict):
    variable: str
    elements: int | None
    expected: int
    inconsistent: int | None
    lost: int

class StalenessRow(TypedDict):
    worker: int
    staleness: int
    steps: int

class TrainingSet:
    @overload
    def __init__(self, images: NDArray[np.float32], labels: NDArray[np.float32]) -> None: ...
    @overload
    def __init__(
        self,
        features: NDArray[np.int32],
        labels: NDArray[np.float32],
        number: int,
        values: NDArray[np.float32] | None = None,
    ) -> None: ...

class NativeTrial:
    def __init__(
        self,
        model: str,
        matrix: int,
        hidden: int | None,
        activation: str | None,
        strategy: str,
        parameters: Sequence[str],
        workers: int,
        layout: str = "separate",
        reading: str = "plain",
        pinning: str = "none",
        measures: str = "usual",
        numbers: Mapping[str, int] = ...,
        optimiser: str = "sgd",
    ) -> None: ...
    def set_variables(self, values: Sequence[NDArray[np.float32]]) -> None: ...
    def run(
        self,
        data: TrainingSet,
        starts: NDArray[np.int64],
        batch: int,
        learning_rate: float,
        losses: NDArray[np.float64] | None = None,
    ) -> float: ...
    def variables(self) -> list[NDArray[np.float32]]: ...
    def counters(self) -> list[NativeCounterRow]: ...
    def lost(self) -> list[LostRow]: ...
    def staleness(self) -> list[StalenessRow]: ...

class Core(Protocol):
    """The module itself, as `loader.core` returns it."""

    Region: type[Region]
    TrainingSet: type[TrainingSet]
    NativeTrial: type[NativeTrial]

    def strategies(self) -> list[StrategyRow]: ...
    def optimisers(self) -> list[OptimiserRow]: ...
    def check_slots(self, optimiser: str, strategy: str, parameters: Sequence[str] = ()) -> None: ...
    def check_parameters(self, strategy: str, parameters: Sequence[str]) -> None: ...
    def why_not(self, strategy: str, parameters: Sequence[str] = ()) -> str | None: ...
    def tm_library(self) -> str | None: ...
    def audit(
        self,
        strategy: str,
        threads: int,
        updates: int,
        elements: int,
        dtype: str = "float64",
        parameters: Sequence[str] = (),
    ) -> AuditRow: ...
    def measure(
        self,
        name: str,
        threads: int,
        updates: int,
        elements: int,
        parameters: Sequence[str] = (),
        fresh_gradient: bool = False,
    ) -> MeasuredRow: ...
    def measure_reads(
        self,
        name: str,
        readers: int,
        writers: int,
        reads: int,
        elements: int,
        parameters: Sequence[str] = (),
        consistent: bool = True,
    ) -> ReadRow: ...
    def measure_copies(self, threads: int, copies: int, elements: int) -> CopiedRow: ...
    def probe(self, seconds: float, emulate: str | None, version: str) -> str: ...
    def tm_probe(self, tries: int = 100) -> TmProbeRow: ...
    def build_info(self) -> BuildRow: ...
