"""The specification of a trial: a value for every factor, and the hash that is its identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import unknown
from tmflow.spec.factors import OWNERS, PIXELS, SESSION_FACTORS, VALUES_BEFORE, Factors
from tmflow.spec.models import MODELS, models_of
from tmflow.spec.process_env import process_environment
from tmflow.spec.strategies import PARAMETERS, Value, owners

Evidence = Literal["measured", "emulated", "simulated", "published"]
TimeDomain = Literal["wall", "simulated", "reported"]
Status = Literal["ok", "failed", "timeout", "invalid", "unsupported"]


class TrialSpec(Factors):
    """Every factor of a trial. Two trials with the same spec differ only in round, seed offset and chance.

    The hash excludes factors that do not apply, and factors that were added later and have the value that all earlier
    trials had. So a later version can add a factor without giving every old spec a new identity.
    """

    @model_validator(mode="before")
    @classmethod
    def _session_has_its_factors(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("driver", "session") != "session":
            return given
        return {**given, **{name: value for name, value in SESSION_FACTORS.items() if given.get(name) is None}}

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
        for name, (of, owning) in OWNERS.items():
            value, holder = getattr(self, name), getattr(self, of)
            if value is not None and holder not in owning:
                raise ValueError(f"{name} {value} belongs to {of} {', '.join(owning)}, not to {holder}")
            if value is None and holder in owning:
                raise ValueError(f"{name} is not given, and {of} {holder} needs it")
        if self.model not in models_of(self.driver):
            raise ValueError(
                f"driver {self.driver} does not train {self.model}; it trains {', '.join(models_of(self.driver))}"
            )
        if self.driver == "session" and self.pinning != "none":
            raise ValueError(
                f"pinning {self.pinning} belongs to driver native; driver session allows none: TensorFlow's own "
                "threads, which do its work, cannot be pinned"
            )
        if self.driver == "native" and self.gradient_cost != 1:
            raise ValueError(
                f"gradient_cost {self.gradient_cost} belongs to driver session; driver native allows 1: it stands in "
                "for a slow TensorFlow, which the native driver does not use"
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
