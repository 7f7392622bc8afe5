"""data/claims.yaml: a closed schema of claims, each a conjunction of checks on runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tmflow.base.documents import document, kept, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root
from tmflow.claims.checks import Check, Closed, Factors
from tmflow.native import registry
from tmflow.spec.trial import Evidence, TrialSpec

Hardware = Literal["rtm", "power", "any"]


class Claim(Closed):
    """A finding, and the checks that must all hold for it to be true."""

    source: str = Field(min_length=3, description="where it was published")
    statement: str = Field(min_length=10, description="in our own words")
    hardware: Hardware = Field(description="whose transactions a machine must have to decide it")
    studied_to: int = Field(ge=1, le=1024, description="the most workers that its source measured")
    evidence: list[Evidence] = Field(min_length=1, description="kinds of evidence that may decide it")
    checks: list[Check] = Field(min_length=1)
    explanation: str | None = Field(None, min_length=10, description="why it comes out as it does, where we know")

    def experiments(self) -> list[str]:
        """The distinct experiments of its checks."""
        return list(dict.fromkeys(check.experiment for check in self.checks))

    def is_about_time(self) -> bool:
        return any(check.predicate.measure.is_time for check in self.checks)


class Claims(Closed):
    """The content of claims.yaml."""

    configurations: dict[str, Factors] = Field(min_length=1, description="the names that claims give to variants")
    claims: dict[str, Claim] = Field(min_length=1)


def claims_path() -> Path:
    return project_root() / "data" / "claims.yaml"


def load_claims(path: Path | None = None) -> Claims:
    """Load and check claims.yaml; the result is cached until the file changes."""
    return _loaded(path or claims_path())


@kept
def _loaded(path: Path) -> Claims:
    return check_claims(read_yaml(path), path.name)


def check_claims(raw: Any, where: str = "claims.yaml") -> Claims:
    """Check a parsed claims.yaml. Raises BadInput that names the fault, its place and what is allowed."""
    claims = document(Claims, raw, where)
    for name, factors in claims.configurations.items():
        _check_configuration(factors, f"{where}: configurations.{name}")
    for name, claim in claims.claims.items():
        _check_claim(claim, claims, f"{where}: claims.{name}")
    return claims


def _check_configuration(factors: Factors, where: str) -> None:
    _check_factors(factors, where)
    if "strategy" not in factors:
        raise BadInput(f"{where}: 'strategy' is missing.")
    if factors["strategy"] not in registry.names():
        raise unknown(f"strategy in {where}:", factors["strategy"], registry.names())


def _check_factors(factors: Factors, where: str) -> None:
    for factor in factors:
        if factor not in TrialSpec.model_fields:
            raise unknown(f"factor in {where}:", factor, TrialSpec.model_fields)


def _check_claim(claim: Claim, claims: Claims, where: str) -> None:
    for number, check in enumerate(claim.checks):
        place = f"{where}.checks.{number}"
        _check_factors(check.where, f"{place}.where")
        for configuration in check.predicate.of:
            if configuration not in claims.configurations:
                raise unknown(f"configuration in {place}:", configuration, claims.configurations)
    if claim.is_about_time() and "emulated" in claim.evidence:
        raise BadInput(f"{where}: evidence emulated cannot decide a claim about time: an emulated run shows none.")
