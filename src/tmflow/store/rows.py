"""A run of a run file as rows of the tables: pure functions, no database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from tmflow.platform.facts import display_name
from tmflow.runner.runfile import Backend, ExperimentRef, MachineState, Run, Software
from tmflow.spec import TrialSpec, canonical_json, sha256_of
from tmflow.store import models
from tmflow.store.facts import EnvironmentFacts, PlatformFacts

Row = dict[str, Any]
Key = tuple[Any, ...]

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


def slug(processor: str, threads: int | None) -> str:
    """A short name for URLs and file names: "intel-xeon-e5-2648l-v4-56t"."""
    plain = re.sub(r"\((r|tm)\)|\bcpu\b|@.*", " ", processor.lower())
    words = re.findall(r"[a-z0-9]+", plain) or ["unknown"]
    return "-".join([*words, f"{threads}t"] if threads else words)


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


def experiment_row(experiment: ExperimentRef, last_run_at_utc: str) -> Row:
    return {
        "name": experiment.name,
        "scale": experiment.scale,
        "definition_sha256": experiment.definition_sha256,
        "definition_json": canonical_json(experiment.definition),
        "last_run_at_utc": last_run_at_utc,
    }


def run_row(run: Run, content_sha256: str) -> Row:
    """Without the ids of what it refers to."""
    said = vars(run)
    machine = vars(run.machine) if run.machine else dict.fromkeys(MachineState.model_fields)
    return {name: said[name] for name in PLAIN} | machine | {"content_sha256": content_sha256, "reference_id": None}


def columns(model: type[models.Base]) -> list[str]:
    """The columns of a table in their order, but for an id that the database gives."""
    return [name for name in model.__table__.columns.keys() if name != "id"]  # noqa: SIM118


def _of_table(model: type[models.Base]) -> tuple[list[str], list[str]]:
    """Of a table of details: its columns, and those of its key, without the run."""
    key = [column.name for column in model.__table__.primary_key if column.name != "run_id"]
    return [name for name in columns(model) if name != "run_id"], key


REASON = ("mechanism", "raw_code", "family")
# Of each list of a run: the fields of an entry in the order of its row, and those that no two entries have the same.
_FIELDS = {name: _of_table(model) for name, model in models.DETAILS.items()}
_FIELDS["aborts"] = ["worker", "variable", *REASON, "n"], ["worker", "variable", *REASON]
_ROW = {name: itemgetter(*fields) for name, (fields, _) in _FIELDS.items()}
_KEY = {name: itemgetter(*map(fields.index, key)) for name, (fields, key) in _FIELDS.items()} | {"fused": itemgetter(0)}


def detail_rows(run: Run) -> dict[str, list[Key]]:
    """By name each list of a run that is not empty, its entries as rows without the run.

    An abort has its reason in place of the reason's id.
    """
    said = vars(run)
    found: dict[str, list[Key]] = {
        name: list(map(row, map(vars, said[name]))) for name, row in _ROW.items() if said[name]
    }
    if run.fused:
        found["fused"] = [(variable,) for variable in run.fused]
    return found


def keys(name: str, rows: list[Key]) -> list[Any]:
    """Of the rows of that list of a run, what no two may have the same."""
    return list(map(_KEY[name], rows))
