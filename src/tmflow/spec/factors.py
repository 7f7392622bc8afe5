"""The factors of a trial, each declared once: type, range, default, meaning, and owner.

A declaration is a field of `Factors`. From it follow the spec and its identity, the schema of config.yaml, the options
of `tmflow train`, the contents of run files and the database, and the filters of the portal. The models or strategies
that own a factor list it too (`tmflow.spec.models`, `tmflow.spec.strategies`). See docs/add-a-factor.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from tmflow.spec.models import MODEL_FACTORS, MODELS, OWN_MODEL, models_with
from tmflow.spec.shapes import SHAPE
from tmflow.spec.strategies import Value

PIXELS = 784
MAX_STEP_US = 60_000_000  # a minute
OWN_DATA = "own"  # the data of the user: a file, which the hash of the run identifies, or that of `own_model`, unknown
SYNTHETIC = "synthetic"  # the dataset of models that need none: a function of the seed

Dataset = Literal["mnist", "digits", "own", "synthetic"]
Activation = Literal["sigmoid", "relu"]
Passes = Literal["forward", "both"]
Driver = Literal["session", "native", "cluster", "keras", "arrays"]
Mode = Literal["async", "sync", "model_parallel"]
Placement = Literal["round_robin", "size"]
Variables = Literal["ref", "resource"]
StepCall = Literal["run", "callable"]
Executor = Literal["tensorflow", "tf_pool", "std_pool", "tbb", "hpx", "hpx_dataflow"]
Transport = Literal["grpc", "df", "hpx"]
Pinning = Literal["none", "cores"]  # TensorFlow's own threads, which do the session driver's work, cannot be pinned
Reading = Literal["plain", "consistent"]
Optimiser = Literal["sgd", "momentum", "adagrad", "adam"]
Layout = Literal["separate", "joined"]
Measures = Literal["usual", "full"]
Provider = Literal["rtm", "power", "emulated"]
Spending = Literal["study_tsx", "study_power", "tuned"]
Subscription = Literal["variable", "slots", "ours"]
Design = Literal["wb_etl", "wb_ctl", "wt"]
Manager = Literal["suicide", "delay", "backoff", "aggressive", "timestamp"]
Instrumentation = Literal["all", "shared"]
Method = Literal["gl_wt", "ml_wt", "serialirr", "serialirr_onwrite", "serial", "htm"]
Tunables = Literal["default", "custom"]
Kernel = Literal["plain", "eigen", "fused", "skip_zero"]
AdaptiveConsistency = Literal["block", "tensor"]
Optimisation = Literal["O0", "O3"]


@dataclass(frozen=True)
class OfDriver:
    """The factor applies to one driver only, and is None for the others.

    If a spec of that driver does not give it, it has the default; with None, each spec of the driver has to give it.
    """

    driver: str
    default: Value | None


@dataclass(frozen=True)
class AddedLater:
    """The factor was added after the first runs, and always has a value.

    The value that all earlier trials had does not enter the hash of a spec, so old specs keep their identity.
    """

    before: Value


class Factors(BaseModel):
    """Every factor of a trial. A factor that does not apply is None."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)  # neither true nor "1" is accepted as 1

    model: str = Field(description="what is trained: an entry of tmflow.spec.models")
    dataset: Dataset
    driver: Driver = "session"
    strategy: str = Field(description="how concurrent updates are kept apart; see variants.json")
    variables: Annotated[Variables | None, OfDriver("session", "ref")] = Field(
        None, description="TensorFlow's kind of variable, ref (as the study) or resource"
    )
    threads: int = Field(ge=1, le=1024, description="workers: threads, or with driver cluster processes")
    batch: int = Field(ge=1, le=10_000, description="images per step of a worker")
    matrix: int = Field(PIXELS, ge=1, le=PIXELS, description="number of leading pixels of each image that are used")
    iterations: int = Field(ge=1, le=10_000_000, description="total number of steps, split evenly over the workers")
    learning_rate: float = Field(gt=0, le=1000, allow_inf_nan=False)
    dropout_keep: float | None = Field(None, gt=0, le=1, description="share of units that dropout keeps")
    hidden: int | None = Field(None, ge=1, le=10_000, description="units of the hidden layer")
    activation: Activation | None = Field(None, description="of the hidden layer")
    image_size: int | None = Field(
        None, ge=32, le=512, description="width and height of the synthetic images, in pixels"
    )
    passes: Passes | None = Field(
        None, description="forward only computes the output; both also computes the gradients and updates the weights"
    )
    nodes: int | None = Field(
        None, ge=10, le=100_000, multiple_of=10, description="small operations in the graph of a step"
    )
    features: int | None = Field(
        None, ge=8, le=10_000_000, description="features of the examples, each with a row of the weights"
    )
    nonzeros: int | None = Field(
        None, ge=1, le=1024, description="features that one example has, in a file of yours at most"
    )
    users: int | None = Field(None, ge=2, le=10_000_000, description="users of the synthetic ratings, a row for each")
    items: int | None = Field(None, ge=2, le=10_000_000, description="items of the synthetic ratings, a row for each")
    words: int | None = Field(
        None, ge=16, le=10_000_000, description="words of the synthetic text, each with a row as centre and as context"
    )
    negatives: int | None = Field(
        None, ge=1, le=64, description="words of an example that were drawn at random, not near its centre"
    )
    width: int | None = Field(
        None, ge=2, le=512, description="elements of a row; of sparse_logistic, the number of classes"
    )
    skew: float | None = Field(
        None,
        ge=0,
        le=1.5,
        allow_inf_nan=False,
        description="exponent of Zipf's law of how often features, users, items or words occur; 0 = all equally often",
    )
    shapes: str | None = Field(
        None,
        max_length=8000,
        pattern=f"^{SHAPE}(,{SHAPE})*$",
        description="of the variables of the user's model, in their order, as in 784x512,512",
    )
    architecture: Annotated[str | None, OfDriver("keras", None)] = Field(
        None, pattern="^[0-9a-f]{64}$", description="hash of the configuration of the user's model and optimizer"
    )
    steps_per_call: Annotated[int | None, OfDriver("keras", None)] = Field(
        None, ge=1, le=1_000_000, description="steps that a worker makes in one call of TensorFlow"
    )
    step_us: Annotated[float | None, OfDriver("arrays", None)] = Field(
        None, ge=0, le=MAX_STEP_US, description="microseconds that a worker computes between two updates"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="round r uses seed + r - 1 for weights, order and dropout")
    intra_op_threads: Annotated[int | None, OfDriver("session", 1)] = Field(
        None, ge=0, le=1024, description="TensorFlow's threads inside an op; 0 = its default"
    )
    inter_op_threads: Annotated[int | None, OfDriver("session", 0)] = Field(
        None, ge=0, le=1024, description="TensorFlow's threads across ops; 0 = its default"
    )
    step_call: Annotated[StepCall | None, OfDriver("session", "run")] = Field(
        None, description="session.run (as the study) or a prepared callable"
    )
    servers: Annotated[int | None, OfDriver("cluster", 1)] = Field(
        None, ge=1, le=64, description="parameter servers, processes that hold the variables"
    )
    mode: Annotated[Mode | None, OfDriver("cluster", "async")] = Field(
        None,
        description="async applies each gradient on its arrival, sync the mean of the workers' gradients; "
        "model_parallel splits the layers over the workers",
    )
    backup_workers: Annotated[int | None, OfDriver("cluster", 0)] = Field(
        None, ge=0, le=1023, description="workers for whose gradients a step of mode sync does not wait"
    )
    placement: Annotated[Placement | None, OfDriver("cluster", "round_robin")] = Field(
        None,
        description="variables go to the servers in turn, or (size) each to the one with the fewest bytes",
    )
    slowdown: Annotated[int | None, OfDriver("cluster", 1)] = Field(
        None, ge=1, le=100, description="how many times longer the last worker takes to compute a gradient"
    )
    pinning: Pinning = Field(
        "none", description="none leaves the choice of cores to the kernel; cores gives each worker one (native only)"
    )
    reading: Annotated[Reading, AddedLater("plain")] = Field(
        "plain", description="how a step reads a variable: plain from its memory, or consistently through the strategy"
    )
    layout: Annotated[Layout, AddedLater("separate")] = Field(
        "separate", description="separate variables, or all of a model joined in one that is read and updated as a unit"
    )
    measures: Annotated[Measures, AddedLater("usual")] = Field(
        "usual", description="full also counts lost updates and torn reads and times locks, which slows the trial down"
    )
    optimiser: Annotated[Optimiser, AddedLater("sgd")] = Field(
        "sgd",
        description="rule of the update: gradient descent, or with one or two further arrays for each variable "
        "(native, session)",
    )
    gradient_cost: Annotated[int, AddedLater(1)] = Field(
        1, ge=1, le=100, description="backward passes per step, of which the last one's gradient is applied (session)"
    )
    executor: Annotated[Executor, AddedLater("tensorflow")] = Field(
        "tensorflow",
        description="what runs TensorFlow's graph: its executor, or ours on its threads, a pool or oneTBB",
    )
    transport: Annotated[Transport, AddedLater("grpc")] = Field(
        "grpc", description="how the tasks of a cluster call each other: TensorFlow's gRPC, or ours over TCP or by HPX"
    )
    test_images: int = Field(10_000, ge=1, le=10_000, description="number of leading test images for the accuracy")
    curve_points: int = Field(0, ge=0, le=1000, description="untimed pauses in which the accuracy is measured")

    # Parameters of strategies: None where the strategy has no such parameter.
    provider: Provider | None = Field(None, description="hardware transactions of Intel or POWER, or emulated ones")
    profile: str | None = Field(None, pattern="^[a-z0-9-]+$", description="the emulated machine, of data/platforms")
    budget: int | None = Field(None, ge=0, le=1_000_000, description="attempts before the mutex is taken")
    spending: Spending | None = Field(None, description="retry policy: how much of the budget an abort costs")
    subscription: Subscription | None = Field(
        None,
        description="the elided mutexes: variable is TensorFlow's own, slots the variable's and those of its "
        "optimiser's slots, ours a std::mutex",
    )
    chunk: int | None = Field(
        None, ge=0, le=1_000_000_000, description="elements per critical section; 0 = whole variable"
    )
    tunables: Tunables | None = Field(None, description="the study's settings of glibc's lock elision")
    design: Design | None = Field(
        None, description="write-back or write-through software transactions, and when they lock"
    )
    manager: Manager | None = Field(
        None, description="contention manager: which of two conflicting software transactions yields"
    )
    instrumentation: Instrumentation | None = Field(None, description="which accesses go through the STM")
    method: Method | None = Field(None, description="the method of libitm")
    library: str | None = Field(None, min_length=1, description="path of a library to use instead of libitm")
    kernel: Kernel | None = Field(
        None,
        description="the loop of the update: a plain one, Eigen's, one fused with a dense layer's gradient, or one "
        "that writes only where the gradient is not zero",
    )
    optimisation: Optimisation | None = Field(None, description="how the loop of the update is compiled")
    block: int | None = Field(
        None, ge=0, le=1_000_000_000, description="elements per block; 0: as fits the size of the variable"
    )
    fits: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000,
        description="elements of a transaction at most, 0: as measured of the machine's transactions; a larger update "
        "takes locks",
    )
    promise: AdaptiveConsistency | None = Field(
        None, description="the consistency that `adaptive` keeps, whatever it chooses"
    )
    every: int | None = Field(
        None, ge=1, le=1_000_000, description="updates of a worker between two publications of its copy"
    )


Declaration = TypeVar("Declaration", OfDriver, AddedLater)


def _declared(kind: type[Declaration]) -> Iterator[tuple[str, Declaration]]:
    for name, field in Factors.model_fields.items():
        for metadata in field.metadata:
            if isinstance(metadata, kind):
                yield name, metadata


# The factors of each driver that are not every driver's, and their default values.
DRIVER_FACTORS: dict[str, dict[str, Value | None]] = {
    driver: {name: declared.default for name, declared in _declared(OfDriver) if declared.driver == driver}
    for driver in get_args(Driver)
}

# The drivers of the user's own models: an optimizer of Keras, and updates of arrays. Only `tmflow advise` measures
# with them, so no other command and no config.yaml may ask for them or for their factors.
ADVISED_DRIVERS = ("keras", "arrays")
TRAINING_DRIVERS = tuple(driver for driver in get_args(Driver) if driver not in ADVISED_DRIVERS)
ADVISED_FACTORS = (*MODELS[OWN_MODEL].factors, *(name for of in ADVISED_DRIVERS for name in DRIVER_FACTORS[of]))

# Factors that were added later, and the value that all earlier trials had.
VALUES_BEFORE: dict[str, Value] = {name: declared.before for name, declared in _declared(AddedLater)}

# Executors whose threads are not TensorFlow's.
OWN_THREADS = ("std_pool", "tbb")

# Factors that apply only under some values of another factor, and are None under all others.
OWNERS: dict[str, tuple[str, list[str]]] = {
    **{factor: ("model", models_with(factor)) for factor in MODEL_FACTORS},
    **{factor: ("driver", [declared.driver]) for factor, declared in _declared(OfDriver)},
}
