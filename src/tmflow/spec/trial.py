"""The specification of a trial: one typed field per factor, and the hash that is its identity."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.errors import unknown
from tmflow.spec.strategies import PARAMETERS, Value, owners
from tmflow.training.models import MODEL_FACTORS, MODELS, models_with

__all__ = ["canonical_json", "sha256_of"]  # they were here first

PIXELS = 784

Dataset = Literal["mnist", "digits"]
Activation = Literal["sigmoid", "relu"]
Driver = Literal["session", "native"]
Variables = Literal["ref", "resource"]
StepCall = Literal["run", "callable"]
Pinning = Literal["none", "cores"]  # TensorFlow's own threads, which do the session driver's work, cannot be pinned
Reading = Literal["plain", "consistent"]
Layout = Literal["separate", "joined"]
Measures = Literal["usual", "full"]
Provider = Literal["rtm", "power", "emulated"]
Spending = Literal["study_tsx", "study_power", "tuned"]
Subscription = Literal["variable", "ours"]
Design = Literal["wb_etl", "wb_ctl", "wt"]
Manager = Literal["suicide", "delay", "backoff", "aggressive", "timestamp"]
Instrumentation = Literal["all", "shared"]
Method = Literal["gl_wt", "ml_wt", "serialirr", "serialirr_onwrite", "serial", "htm"]
Tunables = Literal["default", "custom"]
Kernel = Literal["plain", "eigen", "fused"]
Promised = Literal["block", "tensor"]
Optimisation = Literal["O0", "O3"]
Evidence = Literal["measured", "emulated", "simulated", "published"]
TimeDomain = Literal["wall", "simulated", "reported"]
Status = Literal["ok", "failed", "timeout", "invalid", "unsupported"]


# Factors of the session driver, and their values where none is given; None for every other driver.
OF_THE_SESSION: dict[str, Value] = {
    "variables": "ref",
    "intra_op_threads": 1,
    "inter_op_threads": 0,
    "step_call": "run",
}

# Factors that came later and always have a value: with this one they do not enter the hash.
AS_BEFORE: dict[str, Value] = {"reading": "plain", "layout": "separate", "measures": "usual"}

# Factors that mean something under some values of another factor alone, and are None under the others.
BELONGS: dict[str, tuple[str, list[str]]] = {
    **{factor: ("model", models_with(factor)) for factor in MODEL_FACTORS},
    **dict.fromkeys(OF_THE_SESSION, ("driver", ["session"])),
}


class TrialSpec(BaseModel):
    """Every factor of a trial. Two trials with the same spec differ only in round, seed offset and luck.

    A factor that does not apply is None and does not enter the hash, nor does one of `AS_BEFORE` with its value there:
    so a later version can add a factor without giving every old spec a new identity.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)  # true is no 1, "1" is no 1

    model: str = Field(description="what is trained: a file of tmflow.training.models")
    dataset: Dataset
    driver: Driver = "session"
    strategy: str = Field(description="how concurrent updates are kept apart; see variants.json")
    variables: Variables | None = Field(
        None, description="session only: TensorFlow's kind of variable, ref (as the study) or resource"
    )
    threads: int = Field(ge=1, le=1024, description="worker threads")
    batch: int = Field(ge=1, le=10_000, description="images per step of a worker")
    matrix: int = Field(PIXELS, ge=1, le=PIXELS, description="pixels of each image that are used, from the first")
    iterations: int = Field(ge=1, le=10_000_000, description="steps in all, split evenly over the workers")
    learning_rate: float = Field(gt=0, le=1000, allow_inf_nan=False)
    dropout_keep: float | None = Field(None, gt=0, le=1, description="share of units that dropout keeps")
    hidden: int | None = Field(None, ge=1, le=10_000, description="units of the hidden layer")
    activation: Activation | None = Field(None, description="of the hidden layer")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="round r uses seed + r - 1 for weights, order and dropout")
    intra_op_threads: int | None = Field(
        None, ge=0, le=1024, description="session only: TensorFlow's threads inside an op; 0 = its default"
    )
    inter_op_threads: int | None = Field(
        None, ge=0, le=1024, description="session only: TensorFlow's threads across ops; 0 = its default"
    )
    step_call: StepCall | None = Field(
        None, description="session only: session.run (as the study) or a prepared callable"
    )
    pinning: Pinning = Field(
        "none", description="which core a worker runs on: none leaves it to the kernel; cores, one each, is native only"
    )
    reading: Reading = Field(
        "plain", description="how a step reads a variable: its memory as it is, or by way of the strategy"
    )
    layout: Layout = Field(
        "separate", description="each variable by itself, or all of a model joined in one, read and updated together"
    )
    measures: Measures = Field(
        "usual", description="full: also lost updates, torn reads and lock times, which takes time itself"
    )
    test_images: int = Field(10_000, ge=1, le=10_000, description="test images, from the first, for the accuracy")
    curve_points: int = Field(0, ge=0, le=1000, description="pauses, off the clock, to measure the accuracy on the way")

    # Parameters of strategies: None where the strategy has no such parameter.
    provider: Provider | None = Field(
        None, description="whose hardware transactions: Intel's, POWER's, or emulated ones"
    )
    profile: str | None = Field(
        None, pattern="^[a-z0-9-]+$", description="the machine of data/platforms that is emulated"
    )
    budget: int | None = Field(None, ge=0, le=1_000_000, description="attempts before the mutex is taken")
    spending: Spending | None = Field(None, description="what an abort takes from the budget")
    subscription: Subscription | None = Field(None, description="the mutex that is elided: the variable's own, or ours")
    chunk: int | None = Field(None, ge=0, le=1_000_000_000, description="elements per transaction; 0 = whole variable")
    tunables: Tunables | None = Field(None, description="the study's settings of glibc's lock elision")
    design: Design | None = Field(None, description="how software transactions write: back or through, and lock when")
    manager: Manager | None = Field(None, description="who yields when two software transactions conflict")
    instrumentation: Instrumentation | None = Field(None, description="which accesses go through the STM")
    method: Method | None = Field(None, description="the method of libitm")
    library: str | None = Field(None, min_length=1, description="a library in place of libitm, by its path")
    kernel: Kernel | None = Field(
        None, description="the loop of the update: a plain one, Eigen's, or one fused with a dense layer's gradient"
    )
    optimisation: Optimisation | None = Field(None, description="how the loop of the update is compiled")
    block: int | None = Field(None, ge=1, le=1_000_000_000, description="elements per block")
    promise: Promised | None = Field(None, description="what `adaptive` keeps to, whatever it chooses")

    @model_validator(mode="before")
    @classmethod
    def _session_has_its_factors(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("driver", "session") != "session":
            return given
        return {**given, **{name: value for name, value in OF_THE_SESSION.items() if given.get(name) is None}}

    @field_validator("model")
    @classmethod
    def _model_is_known(cls, value: str) -> str:
        if value not in MODELS:
            raise ValueError(str(unknown("model", value, MODELS)).removesuffix("."))
        return value

    @model_validator(mode="after")
    def _factors_fit_together(self) -> Self:
        if self.iterations < self.threads:
            raise ValueError(
                f"iterations {self.iterations} is fewer than threads {self.threads}: "
                "every worker needs at least one step"
            )
        if self.curve_points > self.iterations:
            raise ValueError(f"curve_points {self.curve_points} is more than iterations {self.iterations}")
        for name, (of, its_owners) in BELONGS.items():
            value, holder = getattr(self, name), getattr(self, of)
            if value is not None and holder not in its_owners:
                raise ValueError(f"{name} {value} belongs to {of} {', '.join(its_owners)}, not to {holder}")
            if value is None and holder in its_owners:
                raise ValueError(f"{name} is not given, and {of} {holder} needs it")
        if self.driver == "native" and MODELS[self.model].scores is None:
            native = ", ".join(name for name, model in MODELS.items() if model.scores is not None)
            raise ValueError(f"driver native does not train {self.model}; it trains {native}")
        if self.driver == "session" and self.pinning != "none":
            raise ValueError(
                f"pinning {self.pinning} belongs to driver native; driver session allows none: TensorFlow's own "
                "threads, which do its work, cannot be pinned"
            )
        if MODELS[self.model].all_pixels and self.matrix != PIXELS:
            raise ValueError(f"matrix {self.matrix} does not fit {self.model}: it needs all {PIXELS} pixels")
        if (self.provider == "emulated") != (self.profile is not None):
            raise ValueError("profile belongs to provider emulated, and provider emulated needs one")
        for name in PARAMETERS:
            if getattr(self, name) is not None and self.strategy not in owners(name):
                raise ValueError(f"{name} belongs to {', '.join(owners(name))}, not to {self.strategy}")
        return self

    def factors(self) -> dict[str, Any]:
        """The factors that apply, in field order: JSON types only."""
        return self.model_dump(mode="json", exclude_none=True)

    def parameters(self) -> dict[str, Value]:
        """The strategy's parameters that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None and name in PARAMETERS}

    @property
    def evidence(self) -> Evidence:
        """What a run of it is evidence of: hardware that is emulated is not measured."""
        return "emulated" if self.provider == "emulated" else "measured"

    @property
    def sha256(self) -> str:
        """The identity of the spec: hex SHA-256 of its canonical JSON."""
        return sha256_of(self.identity())

    def identity(self) -> dict[str, Any]:
        """The factors that make it another spec: without those that are as they were before they were factors."""
        return {name: value for name, value in self.factors().items() if AS_BEFORE.get(name) != value}
