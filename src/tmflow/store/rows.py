"""A run of a run file as rows of the tables: pure functions, no database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.platform.facts import display_name, slug
from tmflow.runfile.facts import EnvironmentFacts, PlatformFacts
from tmflow.runfile.record import Backend, ExperimentRef, MachineState, Run, Software
from tmflow.spec.trial import TrialSpec

Row = dict[str, Any]

# Fields of a run that are columns of the same name.
PLAIN = (
    "uid",
    "evidence",
    "time_domain",
    "status",
    "reason",
    "ordinal",
    "trial_seed",
    "resumed",
    "started_at_utc",
    "dataset_sha256",
    "setup_s",
    "loop_s",
    "evaluation_s",
    "total_s",
    "final_accuracy",
)


def platform_row(facts: Mapping[str, Any]) -> Row:
    """The slug is a wish: another platform may have it."""
    known = PlatformFacts.model_validate(facts).model_dump()
    return known | {
        "facts_sha256": sha256_of(facts),
        "facts_json": canonical_json(facts),
        "name": display_name(known),
        "slug": slug(known["cpu_model"] or known["isa"], known["threads_logical"]),
    }


def environment_row(facts: Mapping[str, Any], platform: Mapping[str, Any]) -> Row:
    """Without platform_id. The same settings on two platforms are two environments."""
    known = EnvironmentFacts.model_validate(facts).model_dump()
    mitigations = known.pop("mitigations")
    return known | {
        "env_sha256": sha256_of({"platform": platform, "environment": facts}),
        "mitigations_json": None if mitigations is None else canonical_json(mitigations),
        "facts_json": canonical_json(facts),
    }


def software_row(software: Software) -> Row:
    versions = software.model_dump()
    return versions | {"software_sha256": sha256_of(versions)}


def backend_row(backend: Backend) -> Row:
    told = backend.model_dump(exclude={"config"})
    return told | {"config_json": canonical_json(backend.config)}


def spec_row(spec: TrialSpec) -> Row:
    return spec.model_dump() | {"spec_sha256": spec.sha256}


def experiment_row(experiment: ExperimentRef) -> Row:
    return {
        "name": experiment.name,
        "scale": experiment.scale,
        "definition_sha256": experiment.definition_sha256,
        "definition_json": canonical_json(experiment.definition),
    }


def run_row(run: Run, content_sha256: str) -> Row:
    """Without the ids of what it refers to."""
    said = vars(run)
    machine = vars(run.machine) if run.machine else dict.fromkeys(MachineState.model_fields)
    return {name: said[name] for name in PLAIN} | machine | {"content_sha256": content_sha256, "reference_id": None}
