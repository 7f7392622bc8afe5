"""The constraints of the tables, each violated once, on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from sqlalchemy import URL, CheckConstraint, Connection, delete, func, insert, select, text
from sqlalchemy.exc import DataError, IntegrityError

from tests.support.sample_runs import SPEC
from tmflow.runfile import content_hash
from tmflow.runfile.record import (
    Backend,
    CampaignRef,
    Counters,
    CurvePoint,
    EnvironmentFacts,
    Lost,
    MachineState,
    Phase,
    PlatformFacts,
    Process,
    Reads,
    Retries,
    Run,
    Software,
    Staleness,
)
from tmflow.spec.factors import DRIVER_FACTORS, VALUES_BEFORE
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, models, schema

HASH = "0" * 64
TIME = "2026-01-01T00:00:00.000Z"

# One valid row of each table; together they are a run with all its details.
VALID: dict[type[models.Base], dict[str, Any]] = {
    models.Platform: {
        **dict.fromkeys(PlatformFacts.model_fields),
        "id": 1,
        "facts_sha256": HASH,
        "slug": "machine",
        "name": "machine",
        "isa": "x86_64",
        "tm_capability": "none",
        "facts_json": "{}",
    },
    models.Environment: {"id": 1, "env_sha256": HASH, "platform_id": 1, "facts_json": "{}"},
    models.Software: {"id": 1, "software_sha256": HASH, "tmflow": "0", "python": "3"},
    models.Backend: {
        "id": 1,
        "kind": "emulator",
        "name": "tsx",
        "version": "1",
        "config_sha256": HASH,
        "config_json": "{}",
    },
    models.Reference: {"id": 1, "citation": "A paper", "locator": "Figure 1", "extraction": "digitised"},
    models.RunFile: {"id": 1, "sha256": HASH, "name": "round-001.jsonl", "ingested_at_utc": TIME, "n_runs": 1},
    models.Contribution: {
        **{"id": 1, "identity": HASH, "name": "bundle.zip", "version": 1, "imported_at_utc": TIME, "n_runs": 1},
        **{"withdrawn_at_utc": TIME, "withdrawn_reason": "the clock was wrong"},
    },
    models.Probe: {
        **{"id": 1, "sha256": HASH, "platform_id": 1, "contribution_id": 1, "evidence": "measured"},
        **{"started_at_utc": TIME, "document_json": "{}"},
    },
    models.Campaign: {"id": 1, "uid": "campaign-1", "created_at_utc": TIME, "platform_id": 1},
    models.Experiment: {
        "id": 1,
        "name": "fig",
        "scale": "full",
        "definition_sha256": HASH,
        "definition_json": "{}",
    },
    models.Round: {"id": 1, "campaign_id": 1, "experiment_id": 1, "number": 1, "order_seed": 0},
    models.Spec: {
        **TrialSpec.model_validate(SPEC | {"strategy": "tf_lock", "threads": 1}).model_dump(),
        "id": 1,
        "spec_sha256": HASH,
    },
    models.Run: {
        "id": 1,
        "uid": "run-0001",
        "content_sha256": HASH,
        **dict.fromkeys(("run_file_id", "round_id", "spec_id", "platform_id", "environment_id", "software_id"), 1),
        "evidence": "measured",
        "time_domain": "wall",
        "status": "ok",
        "ordinal": 0,
        "trial_seed": 0,
        "resumed": False,
        "started_at_utc": TIME,
        "loop_s": 1.0,
        "final_accuracy": 0.9,
    },
    models.CurvePoint: {"run_id": 1, "iteration": 1, "elapsed_s": 0.5, "accuracy": 0.5},
    models.Counters: {"run_id": 1, "worker": 0, "variable": "W", "updates": 1},
    models.Staleness: {"run_id": 1, "worker": 0, "staleness": 0, "steps": 1},
    models.Retries: {"run_id": 1, "worker": 0, "variable": "W", "retries": 0, "sections": 1},
    models.FailedPublications: {"run_id": 1, "worker": 0, "variable": "W", "failed_publications": 0, "updates": 1},
    models.TakenBlocks: {"run_id": 1, "worker": 0, "variable": "W", "taken_blocks": 0, "updates": 1},
    models.VariableRead: {"run_id": 1, "worker": 0, "variable": "W", "reads": 1, "torn": 0},
    models.LostUpdate: {"run_id": 1, "variable": "W", "expected": 1, "lost": 0},
    models.FusedUpdate: {"run_id": 1, "variable": "W"},
    models.Process: {"run_id": 1, "role": "worker", "index": 0, "host": "host-a", "steps": 1, "loop_s": 0.1, "exit": 0},
    models.Phase: {"run_id": 1, "worker": 0, "phase": "compute", "samples": 1, "seconds": 0.1},
    models.AbortReason: {"id": 1, "mechanism": "rtm", "raw_code": "0x6", "family": "conflict"},
    models.ThreadAbort: {"run_id": 1, "worker": 0, "variable": "W", "reason_id": 1, "n": 1},
    models.RunAbort: {"run_id": 1, "reason_id": 1, "n": 1},
    models.RoundTally: {
        "round_id": 1, "platform_id": 1, "contribution_id": 0,
        "evidence": "measured", "status": "ok", "n_runs": 1,
        "newest_run_at_utc": "2026-01-01T00:00:00Z",
    },
}  # fmt: skip

FAILED = {"status": "failed", "reason": "it failed", "loop_s": None, "final_accuracy": None}
PUBLISHED = {"evidence": "published", "time_domain": "reported", "reference_id": 1, "environment_id": None}

SESSION_FACTORS = DRIVER_FACTORS["session"]
NATIVE = {"driver": "native", **dict.fromkeys(SESSION_FACTORS)}

# Each: the table, the change of its valid row, and the CHECK that must refuse it.
VIOLATIONS: list[tuple[type[models.Base], dict[str, Any], str]] = [
    (models.Run, {"repeat": 0}, "repeat_positive"),
    (models.Spec, {"provider": "tsx"}, "provider_valid"),
    (models.Spec, {"spending": "study"}, "spending_valid"),
    *(
        (models.Spec, {name: "other"}, f"{name}_valid")
        for name in ("subscription", "tunables", "design", "manager", "instrumentation", "method", "promise")
    ),
    *((models.Spec, {name: "other"}, f"{name}_valid") for name in ("activation", "reading", "layout", "measures")),
    *((models.Spec, {name: None}, f"{name}_of_session") for name in DRIVER_FACTORS["session"]),
    *((models.Spec, NATIVE | {name: value}, f"{name}_of_session") for name, value in DRIVER_FACTORS["session"].items()),
    *((models.Spec, {name: "O2"}, f"{name}_valid") for name in ("kernel", "optimisation")),
    (models.Spec, {"library": ""}, "library_not_empty"),
    (models.Spec, {"provider": "emulated"}, "profile_of_emulated"),
    (models.Spec, {"provider": "rtm", "profile": "intel-tsx-study"}, "profile_of_emulated"),
    (models.Spec, {"profile": "intel-tsx-study"}, "profile_of_emulated"),
    (models.Platform, {"tm_capability": "tsx"}, "tm_capability_valid"),
    (models.Backend, {"kind": "guess"}, "kind_valid"),
    (models.Reference, {"extraction": "guess"}, "extraction_valid"),
    (models.Reference, {"uncertainty_fraction": -0.1}, "uncertainty_fraction_not_negative"),
    (models.RunFile, {"n_runs": -1}, "n_runs_not_negative"),
    (models.Contribution, {"version": -1}, "version_not_negative"),
    (models.Contribution, {"n_runs": -1}, "n_runs_not_negative"),
    (models.Contribution, {"withdrawn_reason": None}, "withdrawn_for_a_reason"),
    (models.Contribution, {"withdrawn_at_utc": None}, "withdrawn_for_a_reason"),
    (models.Probe, {"evidence": "published"}, "evidence_valid"),
    (models.Experiment, {"scale": "huge"}, "scale_valid"),
    (models.Round, {"number": 0}, "number_positive"),
    (models.Round, {"order_seed": -1}, "order_seed_not_negative"),
    (models.Run, {"evidence": "guessed"}, "evidence_valid"),
    (models.Run, {"time_domain": "cpu"}, "time_domain_valid"),
    (models.Run, {"status": "withdrawn", "reason": "r", "final_accuracy": None}, "status_valid"),
    (models.Run, {"reason": "yet it is ok"}, "error_xor_result"),
    (models.Run, {"loop_s": None}, "error_xor_result"),
    (models.Run, FAILED | {"reason": None}, "error_xor_result"),
    (models.Run, FAILED | {"final_accuracy": 0.1}, "error_xor_result"),
    (models.Run, {"evidence": "emulated"}, "backend_of_substitutes"),
    (models.Run, {"evidence": "simulated", "time_domain": "simulated"}, "backend_of_substitutes"),
    (models.Run, {"backend_id": 1}, "backend_of_substitutes"),
    (models.Run, PUBLISHED | {"reference_id": None}, "reference_of_published"),
    (models.Run, {"reference_id": 1}, "reference_of_published"),
    (models.Run, PUBLISHED | {"environment_id": 1}, "no_environment_of_published"),
    (models.Run, {"environment_id": None}, "no_environment_of_published"),
    (models.Run, PUBLISHED | {"time_domain": "wall"}, "published_time_is_reported"),
    (models.Run, {"time_domain": "reported"}, "published_time_is_reported"),
    (models.Run, {"evidence": "simulated", "backend_id": 1}, "simulated_time_is_simulated"),
    (models.Run, {"time_domain": "simulated"}, "simulated_time_is_simulated"),
    (models.Run, {"loop_s": 0.0}, "loop_s_positive"),
    *((models.Run, {name: -1}, f"{name}_not_negative") for name in ("ordinal", "trial_seed")),
    *(
        (models.Run, {name: -0.1}, f"{name}_not_negative")
        for name in ("setup_s", "evaluation_s", "total_s", "suspended_s")
    ),
    *((models.Run, {n: v}, f"{n}_range") for n in ("steal_fraction", "others_fraction") for v in (-0.1, 1.1)),
    *((models.Run, {"final_accuracy": v}, "final_accuracy_range") for v in (-0.1, 1.1)),
    (models.CurvePoint, {"iteration": -1}, "iteration_not_negative"),
    (models.CurvePoint, {"elapsed_s": -0.1}, "elapsed_s_not_negative"),
    *((models.CurvePoint, {"accuracy": v}, "accuracy_range") for v in (-0.1, 1.1)),
    *(
        (models.Counters, {name: -1}, f"{name}_not_negative")
        for name in ("worker", "updates", "commits", "fallbacks", "attempts", "lock_waited_s", "lock_held_s")
    ),
    *((models.Retries, {name: -1}, f"{name}_not_negative") for name in ("worker", "sections")),
    *((models.Retries, {"retries": retries}, "retries_range") for retries in (-1, 64)),
    *(
        (model, {name: -1}, f"{name}_not_negative")
        for model in (models.FailedPublications, models.TakenBlocks)
        for name in ("worker", "updates")
    ),
    *((models.FailedPublications, {"failed_publications": n}, "failed_publications_range") for n in (-1, 64)),
    *((models.TakenBlocks, {"taken_blocks": n}, "taken_blocks_range") for n in (-1, 64)),
    *((models.VariableRead, {name: -1}, f"{name}_not_negative") for name in ("worker", "torn")),
    (models.VariableRead, {"torn": 2}, "torn_are_reads"),
    *((models.LostUpdate, {name: -1}, f"{name}_not_negative") for name in ("lost", "elements", "inconsistent")),
    (models.LostUpdate, {"lost": 2}, "lost_were_made"),
    (models.LostUpdate, {"elements": 1, "inconsistent": 2}, "inconsistent_are_elements"),
    (models.Process, {"role": "chief"}, "role_valid"),
    *((models.Process, {name: -1}, f"{name}_not_negative") for name in ("index", "steps", "loop_s", "cpu_s")),
    *((models.Process, {"exit": code}, "exit_range") for code in (-65, 256)),
    (models.Phase, {"phase": "sleep"}, "phase_valid"),
    (models.Phase, {"samples": 0}, "samples_positive"),
    *((models.Phase, {name: -1}, f"{name}_not_negative") for name in ("worker", "seconds", "transfers", "bytes")),
    *((models.Staleness, {name: -1}, f"{name}_not_negative") for name in ("worker", "staleness", "steps")),
    (models.AbortReason, {"family": "bad luck"}, "family_valid"),
    *((models.ThreadAbort, {name: -1}, f"{name}_not_negative") for name in ("worker", "n")),
    (models.RunAbort, {"n": -1}, "n_not_negative"),
    (models.RoundTally, {"evidence": "guessed"}, "evidence_valid"),
    (models.RoundTally, {"status": "withdrawn"}, "status_valid"),
    (models.RoundTally, {"n_runs": 0}, "n_runs_positive"),
]
VIOLATIONS += [
    (models.Platform, {name: 0}, f"{name}_positive")
    for name in models.Platform.__table__.columns.keys()  # noqa: SIM118
    if name.endswith(("_bytes", "_ways", "_hz")) or name.startswith(("sockets", "numa", "cores", "threads"))
]
VIOLATIONS += [
    (models.Platform, {name: -1}, f"{name}_not_negative") for name in ("cpu_family", "cpu_model_no", "cpu_stepping")
]
VIOLATIONS += [
    (models.Environment, {"cpus_allowed": 0}, "cpus_allowed_positive"),
    (models.Environment, {"aslr": -1}, "aslr_not_negative"),
]
FLAGS = [
    (models.Environment, "turbo"),
    (models.Environment, "smt"),
    (models.Environment, "tm_enabled"),
    (models.Software, "git_dirty"),
    (models.Run, "resumed"),
    (models.Run, "disturbed"),
]


def spec_bounds() -> Iterator[tuple[str, float, float]]:
    """For each bound of the range of a factor with a column: the factor, the last value inside, the first outside."""
    columns = models.Spec.__table__.columns
    for name, field in TrialSpec.model_fields.items():
        if name not in columns:  # a later factor, which the spec alone checks
            continue
        step = 1e-9 if float in (field.annotation, *get_args(field.annotation)) else 1
        for bound in field.metadata:
            match bound:
                case Ge(ge=low):
                    yield name, low, low - step
                case Gt(gt=low):
                    yield name, low + step, low
                case Le(le=high):
                    yield name, high, high + 1000 * step


@pytest.fixture
def connection(url: URL) -> Iterator[Connection]:
    """A database with every valid row; changes of a test are rolled back."""
    schema.upgrade(url)
    with engine.open_writer(url).connect() as opened:
        for model, row in VALID.items():
            opened.execute(insert(model), row)
        yield opened
        opened.rollback()


def change(connection: Connection, model: type[models.Base], values: dict[str, Any]) -> str | None:
    """Change the one row of a table and undo it; return the error of the database, or None."""
    setting = ", ".join(f'"{name}" = :{name}' for name in values)  # index is a word of SQL
    try:
        with connection.begin_nested() as savepoint:
            connection.execute(text(f"UPDATE {model.__tablename__} SET {setting}"), values)
            savepoint.rollback()
    except (IntegrityError, DataError) as error:
        return str(error.orig)
    return None


def test_every_check_refuses_its_violation(connection: Connection) -> None:
    wrong = {}
    for model, values, check in VIOLATIONS:
        name = f"ck_{model.__tablename__}_{check}"
        objection = change(connection, model, values)
        if objection is None or name not in objection:
            wrong[name, str(values)] = objection
    assert not wrong


def test_every_factor_has_the_range_of_the_spec(connection: Connection) -> None:
    bounds = list(spec_bounds())
    assert {name for name, _, _ in bounds} >= {"threads", "learning_rate", "dropout_keep", "curve_points"}
    for name, inside, outside in bounds:
        assert change(connection, models.Spec, {name: inside}) is None, (name, inside)
        assert f"ck_spec_{name}_range" in (change(connection, models.Spec, {name: outside}) or ""), (name, outside)


def test_a_flag_is_true_or_false_on_sqlite_too(sqlite: URL) -> None:
    schema.upgrade(sqlite)
    with engine.open_writer(sqlite).connect() as connection:
        for model, row in VALID.items():
            connection.execute(insert(model), row)
        for model, name in FLAGS:
            assert f"ck_{model.__tablename__}_{name}_flag" in (change(connection, model, {name: 2}) or "")


def test_no_check_is_left_untested() -> None:
    tested = {f"ck_{model.__tablename__}_{check}" for model, _, check in VIOLATIONS}
    tested |= {f"ck_spec_{name}_range" for name, _, _ in spec_bounds()}
    tested |= {f"ck_{model.__tablename__}_{name}_flag" for model, name in FLAGS}
    checks = (c for table in models.Base.metadata.tables.values() for c in table.constraints)
    assert tested == {str(check.name) for check in checks if isinstance(check, CheckConstraint)}


def test_references_types_and_nulls_are_enforced(connection: Connection) -> None:
    wrong: list[tuple[type[models.Base], dict[str, Any]]] = [
        (models.Run, {"spec_id": 99}),
        (models.Run, {"environment_id": 99}),
        (models.Campaign, {"platform_id": 99}),
        (models.Run, {"contribution_id": 99}),
        (models.Probe, {"platform_id": 99}),
        (models.Probe, {"contribution_id": 99}),
        (models.ThreadAbort, {"reason_id": 99}),
        (models.Counters, {"run_id": 99}),
        (models.Run, {"final_accuracy": "very good"}),
        (models.Counters, {"updates": "many"}),
        (models.Run, {"status": None}),
    ]
    assert [case for case in wrong if change(connection, *case) is None] == []


def test_a_point_has_one_run_in_a_round(connection: Connection) -> None:
    with pytest.raises(IntegrityError, match=r"(?i)unique"), connection.begin_nested():
        connection.execute(
            insert(models.Run), VALID[models.Run] | {"id": 2, "uid": "run-0002", "content_sha256": "1" * 64}
        )


def test_details_go_with_their_run(connection: Connection) -> None:
    connection.execute(delete(models.Run))
    details = (
        *(models.CurvePoint, models.Counters, models.Staleness, models.ThreadAbort, models.RunAbort),
        *(models.Retries, models.VariableRead, models.LostUpdate, models.FusedUpdate, models.Process, models.Phase),
    )
    assert [connection.scalar(select(func.count()).select_from(model)) for model in details] == [0] * len(details)


def test_each_factor_has_a_column_or_had_a_value_before_it_was_one() -> None:
    """A factor without a column is in the document of its spec; older specs lack it there."""
    columns = set(models.Spec.__table__.columns.keys()) - {"id", "spec_sha256", "later_factors_json"}
    assert columns <= set(TrialSpec.model_fields)
    for name in set(TrialSpec.model_fields) - columns:
        assert TrialSpec.model_fields[name].default == VALUES_BEFORE.get(name)


@pytest.mark.parametrize(
    ("model", "contract", "apart"),
    [
        (models.Platform, PlatformFacts, set()),
        (models.Environment, EnvironmentFacts, {"mitigations"}),
        (models.Software, Software, set()),
        (models.Backend, Backend, {"config"}),
        (models.Campaign, CampaignRef, set()),
        (models.Counters, Counters, set()),
        (models.CurvePoint, CurvePoint, set()),
        (models.Staleness, Staleness, set()),
        (models.Retries, Retries, set()),
        (models.VariableRead, Reads, set()),
        (models.LostUpdate, Lost, set()),
        (models.Process, Process, set()),
        (models.Phase, Phase, set()),
        (models.Run, MachineState, set()),
        (
            models.Run,
            Run,
            {"schema_version", "campaign", "experiment", "round", "order_seed", "spec", "platform", "environment"}
            | {
                "software",
                "backend",
                "machine",
                "curve",
                "counters",
                "aborts",
                "staleness",
                "retries",
                "failed_publications",
                "taken_blocks",
                "reads",
                "lost",
                "processes",
                "phases",
                "fused",
            },
        ),
    ],
)
def test_every_field_of_a_run_file_has_a_column(
    model: type[models.Base], contract: type[BaseModel], apart: set[str]
) -> None:
    assert set(contract.model_fields) - apart <= set(model.__table__.columns.keys())


@pytest.mark.parametrize("name", models.DETAILS)
def test_entries_of_a_list_are_told_apart_as_rows_of_its_table_are(name: str) -> None:
    key = [column.name for column in models.DETAILS[name].__table__.primary_key]
    assert ["run_id", *content_hash.LISTS[name]] == key
    assert set(content_hash.LISTS) == {*models.DETAILS, "aborts"}
