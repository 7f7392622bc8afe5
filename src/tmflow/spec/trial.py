"""The specification of a trial: a value for every factor, and the hash that is its identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput, unknown
from tmflow.base.text import several
from tmflow.spec.factors import DRIVER_FACTORS, OWN_DATA, OWN_THREADS, OWNERS, PIXELS, SYNTHETIC, VALUES_BEFORE, Factors
from tmflow.spec.models import MODELS, OWN_MODEL, models_of, trained_models
from tmflow.spec.process_env import process_environment
from tmflow.spec.shapes import parse_shapes
from tmflow.spec.strategies import (
    FITTING_BLOCKS,
    KEEPING_ELSEWHERE,
    PARAMETERS,
    WITHOUT_OPTIMISER_STATE,
    Value,
    owners,
    says_whole_update,
)

Evidence = Literal["measured", "emulated", "simulated", "published"]
TimeDomain = Literal["wall", "simulated", "reported"]
Status = Literal["ok", "failed", "timeout", "invalid", "unsupported"]


MOST_ELEMENTS = 1_000_000_000  # of a variable


class TrialSpec(Factors):
    """Every factor of a trial. Two trials with the same spec differ only in round, seed offset and chance.

    The hash excludes factors that do not apply, and factors that were added later and have the value that all earlier
    trials had. So a later version can add a factor without giving every old spec a new identity.
    """

    @model_validator(mode="before")
    @classmethod
    def _driver_has_its_factors(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        factors = DRIVER_FACTORS.get(str(given.get("driver", "session")), {})
        return {**given, **{name: value for name, value in factors.items() if given.get(name) is None}}

    @field_validator("model")
    @classmethod
    def _model_is_known(cls, value: str) -> str:
        if value not in MODELS:
            raise ValueError(str(unknown("model", value, trained_models())).removesuffix("."))
        return value

    @model_validator(mode="after")
    def _cluster_fits_together(self) -> Self:
        if self.driver != "cluster" or self.model not in models_of(self.driver):
            return self
        assert self.backup_workers is not None, "a spec of this driver has it"
        assert self.servers is not None, "a spec of this driver has it"
        variables = 1 if self.layout == "joined" else 2 * MODELS[self.model].layers
        if self.servers > variables:
            raise ValueError(
                f"servers {self.servers} is more than the {several(variables, 'variable')} of {self.model}: each "
                "variable is on one server"
            )
        if self.backup_workers and self.mode != "sync":
            raise ValueError(f"backup_workers {self.backup_workers} belongs to mode sync; mode {self.mode} allows 0")
        if self.backup_workers >= self.threads:
            raise ValueError(
                f"backup_workers {self.backup_workers} leaves no worker to wait for: of {self.threads} workers at most "
                f"{self.threads - 1} can be backups"
            )
        if self.mode == "sync" and self.iterations % self.threads:
            raise ValueError(
                f"iterations {self.iterations} cannot be split over {self.threads} workers: in mode sync each worker "
                "takes part in every step, so iterations must be a multiple of threads"
            )
        if self.mode == "sync" and self.kernel == "fused":
            raise ValueError(
                "kernel fused belongs to modes async and model_parallel: the mean of several gradients has no factors"
            )
        if self.strategy in KEEPING_ELSEWHERE:
            raise ValueError(
                f"strategy {self.strategy} belongs to drivers session and native: workers read a server's memory, "
                "and it keeps the variables elsewhere"
            )
        if self.provider == "emulated":
            raise ValueError("provider emulated belongs to drivers session and native: a server runs no emulator")
        return self

    @model_validator(mode="after")
    def _layers_can_be_split(self) -> Self:
        if self.mode != "model_parallel":
            return self
        layers = MODELS[self.model].layers
        if layers == 1:
            raise ValueError(f"mode model_parallel splits layers over workers, and {self.model} has only one")
        if not 2 <= self.threads <= layers:
            raise ValueError(
                f"threads {self.threads} does not fit mode model_parallel: it splits the {layers} layers of "
                f"{self.model} over 2 to {layers} workers"
            )
        if self.slowdown != 1:
            raise ValueError(
                f"slowdown {self.slowdown} belongs to modes async and sync: in mode model_parallel worker 0 takes all "
                "steps"
            )
        return self

    @model_validator(mode="after")
    def _executor_has_a_graph_and_threads(self) -> Self:
        if self.driver == "native" and self.executor != "tensorflow":
            raise ValueError(
                f"executor {self.executor} belongs to drivers session and cluster; driver native allows tensorflow: it "
                "runs no graph"
            )
        if self.driver == "cluster" and self.transport == "grpc" and self.executor != "tensorflow":
            raise ValueError(
                f"executor {self.executor} does not go with transport grpc, which allows tensorflow: TensorFlow's own "
                "servers cannot choose their executor; transports df and hpx can"
            )
        if self.executor in OWN_THREADS and self.inter_op_threads not in (None, 0):
            raise ValueError(
                f"inter_op_threads {self.inter_op_threads} belongs to executors tensorflow and tf_pool; "
                f"{self.executor} allows 0: it has a thread for each processor"
            )
        return self

    @model_validator(mode="after")
    def _transport_has_a_cluster(self) -> Self:
        if self.driver != "cluster" and self.transport != "grpc":
            raise ValueError(
                f"transport {self.transport} belongs to driver cluster; driver {self.driver} allows grpc: it has one "
                "process"
            )
        return self

    @model_validator(mode="after")
    def _images_fit_the_model(self) -> Self:
        model = MODELS[self.model]
        takes = ["mnist", "digits"]
        if model.synthetic:
            takes = [SYNTHETIC, *([OWN_DATA] if model.own_data else [])]
        elif self.model == OWN_MODEL:
            takes = [OWN_DATA]
        if self.dataset not in takes:
            allowed = " and ".join(takes)
            raise ValueError(f"dataset {self.dataset} does not fit {self.model}, which allows {allowed}")
        if model.synthetic and self.matrix != PIXELS:
            raise ValueError(f"matrix {self.matrix} belongs to MNIST and digits; {self.model} allows {PIXELS}")
        smallest = model.smallest_image
        if self.image_size is not None and smallest is not None and self.image_size < smallest:
            raise ValueError(
                f"image_size {self.image_size} does not fit {self.model}: it needs {smallest} to 512 pixels"
            )
        return self

    @model_validator(mode="after")
    def _own_model_is_only_timed(self) -> Self:
        if self.shapes is None or self.model != OWN_MODEL:
            return self
        try:
            parse_shapes(self.shapes)
        except BadInput as error:
            raise ValueError(str(error).removesuffix(".")) from error
        for name, only in (("matrix", PIXELS), ("curve_points", 0)):
            if (value := getattr(self, name)) != only:
                raise ValueError(f"{name} {value} does not fit {self.model}, which allows {only}: it is only timed")
        return self

    @model_validator(mode="after")
    def _own_data_has_its_own_frequencies(self) -> Self:
        if self.dataset == OWN_DATA and self.skew is not None:
            raise ValueError(f"skew {self.skew} belongs to dataset synthetic: a file has its own frequencies")
        return self

    @model_validator(mode="after")
    def _blocks_have_a_length(self) -> Self:
        if self.block == 0 and self.strategy not in FITTING_BLOCKS:
            raise ValueError(
                f"block 0 (as fits the variable) belongs to {', '.join(FITTING_BLOCKS)}, not to {self.strategy}"
            )
        return self

    @model_validator(mode="after")
    def _rows_fit_together(self) -> Self:
        drawn = self.dataset != OWN_DATA  # without repetition, which takes long if an example has most features
        if drawn and self.features and self.nonzeros and 8 * self.nonzeros > self.features:
            raise ValueError(
                f"nonzeros {self.nonzeros} does not fit features {self.features}: an example has at most an eighth of "
                "them"
            )
        if self.words and self.negatives and 8 * (1 + self.negatives) > self.words:
            raise ValueError(
                f"negatives {self.negatives} does not fit words {self.words}: with its context word an example has at "
                "most an eighth of them"
            )
        rows = {name: number for name in ("features", "users", "items", "words") if (number := getattr(self, name))}
        elements = sum(rows.values()) * (2 if self.words else 1) * (self.width or 0)
        if elements > MOST_ELEMENTS:
            given = ", ".join(f"{name} {number}" for name, number in rows.items())
            raise ValueError(
                f"{given} with width {self.width} make {elements:,} weights; allowed are {MOST_ELEMENTS:,}"
            )
        return self

    @model_validator(mode="after")
    def _optimiser_keeps_its_arrays(self) -> Self:
        if self.optimiser == "sgd":
            if self.subscription == "slots":
                raise ValueError(
                    "subscription slots does not go with optimiser sgd, which has no slots: momentum, adagrad and "
                    "adam have some"
                )
            return self
        if self.driver == "cluster":
            raise ValueError(
                f"optimiser {self.optimiser} belongs to drivers native and session; driver cluster allows sgd: its "
                "updates have no further arrays"
            )
        if self.passes == "forward":
            raise ValueError(f"optimiser {self.optimiser} does not go with passes forward, which makes no update")
        if self.strategy in WITHOUT_OPTIMISER_STATE:
            raise ValueError(
                f"optimiser {self.optimiser} does not go with strategy {self.strategy}, which allows sgd: it protects "
                "only the variable, not the arrays that the optimiser keeps beside it"
            )
        if self.kernel not in (None, "plain"):
            raise ValueError(
                f"kernel {self.kernel} belongs to optimiser sgd; optimiser {self.optimiser} allows plain: it has a "
                "loop of its own"
            )
        if self.optimiser == "adam" and MODELS[self.model].by_rows:
            raise ValueError(
                f"optimiser adam does not fit {self.model}, which updates rows: TensorFlow's Adam also decays the "
                "arrays of all other rows"
            )
        return self

    @model_validator(mode="after")
    def _slow_gradient_has_a_backward_pass(self) -> Self:
        if self.gradient_cost != 1 and (self.passes == "forward" or self.nodes is not None):
            step = "passes forward" if self.passes else self.model
            raise ValueError(
                f"gradient_cost {self.gradient_cost} does not fit {step}, which allows 1: it has no backward pass"
            )
        return self

    @model_validator(mode="after")
    def _factors_fit_together(self) -> Self:
        if self.iterations < self.threads:
            raise ValueError(
                f"iterations {self.iterations} is fewer than threads {self.threads}: "
                "every worker needs at least one step"
            )
        if self.curve_points > self.iterations:
            raise ValueError(f"curve_points {self.curve_points} is more than iterations {self.iterations}")
        for name, (of, owning) in OWNERS.items():
            value, holder = getattr(self, name), getattr(self, of)
            if value is not None and holder not in owning:
                raise ValueError(f"{name} {value} belongs to {of} {', '.join(owning)}, not to {holder}")
            if value is None and holder in owning and not (name == "skew" and self.dataset == OWN_DATA):
                raise ValueError(f"{name} is not given, and {of} {holder} needs it")
        if self.model not in models_of(self.driver):
            raise ValueError(
                f"driver {self.driver} does not train {self.model}; it trains {', '.join(models_of(self.driver))}"
            )
        if self.driver != "native" and self.pinning != "none":
            raise ValueError(
                f"pinning {self.pinning} belongs to driver native; driver {self.driver} allows none: TensorFlow's own "
                "threads, which do its work, cannot be pinned"
            )
        if self.driver != "session" and self.gradient_cost != 1:
            raise ValueError(
                f"gradient_cost {self.gradient_cost} belongs to driver session; driver {self.driver} allows 1: it "
                "stands in for a slow TensorFlow, which only the session driver measures"
            )
        if MODELS[self.model].all_pixels and self.matrix != PIXELS:
            raise ValueError(f"matrix {self.matrix} does not fit {self.model}: it needs all {PIXELS} pixels")
        if (self.provider == "emulated") != (self.profile is not None):
            raise ValueError("profile belongs to provider emulated, and provider emulated needs one")
        for name in PARAMETERS:
            if getattr(self, name) is not None and self.strategy not in owners(name):
                raise ValueError(f"{name} belongs to {', '.join(owners(name))}, not to {self.strategy}")
        return self

    @model_validator(mode="after")
    def _whole_update_is_no_chunk(self) -> Self:
        if says_whole_update(self.strategy, self.chunk):
            raise ValueError(
                f"chunk 0 does not fit {self.strategy}: leave chunk out, then its critical section is the whole update"
            )
        return self

    def factors(self) -> dict[str, Any]:
        """The factors that apply, in field order: JSON types only."""
        return self.model_dump(mode="json", exclude_none=True)

    def parameters(self) -> dict[str, Value]:
        """The strategy's parameters that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None and name in PARAMETERS}

    def process_env(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment variables of a process that can run the strategy; see `process_environment`."""
        return process_environment(self.strategy, self.parameters(), base)

    @property
    def evidence(self) -> Evidence:
        """The evidence of its runs: runs on emulated hardware are not measurements of hardware."""
        return "emulated" if self.provider == "emulated" else "measured"

    @property
    def sha256(self) -> str:
        """The identity of the spec: hex SHA-256 of its canonical JSON."""
        return sha256_of(self.identity())

    def identity(self) -> dict[str, Any]:
        """The factors that identify the spec: those that apply, except later ones with the value of earlier trials."""
        return {name: value for name, value in self.factors().items() if VALUES_BEFORE.get(name) != value}
