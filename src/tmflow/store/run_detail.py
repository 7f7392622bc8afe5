"""One stored run in full, in the layout of its run file."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from tmflow.base.documents import parse_object
from tmflow.base.errors import BadInput
from tmflow.platform.facts import key_of
from tmflow.runfile.lines import SCHEMA_VERSION
from tmflow.runfile.record import Backend, CampaignRef, ExperimentRef, MachineState, Software
from tmflow.store import factor_columns, models
from tmflow.store.frames import Source, connected, fetch
from tmflow.store.rows import PLAIN, Row, part


def run(source: Source, uid: str) -> dict[str, Any]:
    """The run in the layout of a run file (tmflow.runfile.record.Run); "stored" holds what the database adds.

    Lists are sorted by worker, variable and so on. Raises BadInput if the run does not exist or is withdrawn.
    """
    with connected(source) as connection:
        if contribution := withdrawn(connection, uid):
            raise BadInput(f"run {uid} was withdrawn with {contribution}.")
        return withdrawn_or_not(connection, uid)


def withdrawn(source: Source, uid: str) -> str | None:
    """The contribution with which this run was withdrawn, and the reason; None if it is not withdrawn."""
    contribution = models.Contribution
    statement = (
        select(contribution.name, contribution.withdrawn_reason)
        .join(models.Run, models.Run.contribution_id == contribution.id)
        .where(models.Run.uid == uid, contribution.withdrawn_at_utc.is_not(None))
    )
    return next((f"contribution {name}: {reason}" for name, reason in fetch(source, statement)), None)


def withdrawn_or_not(source: Source, uid: str) -> dict[str, Any]:
    """As `run`, but also for a withdrawn run."""
    with connected(source) as connection:
        return _run(connection, uid)


def _run(connection: Connection, uid: str) -> dict[str, Any]:
    matching = _rows(connection, models.Run, uid=uid)
    if not matching:
        raise BadInput(f"the database has no run {uid}.")
    run_row = matching[0]

    def row(model: type[models.Base], id_: int) -> Row:
        """The row of another table that the run refers to."""
        (only,) = _rows(connection, model, id=id_)
        return only

    def details(model: type[models.Base]) -> list[Row]:
        """The rows of a list of the run, without its id."""
        of_run = _rows(connection, model, run_id=run_row["id"])
        return [{name: value for name, value in entry.items() if name != "run_id"} for entry in of_run]

    round_ = row(models.Round, run_row["round_id"])
    experiment = row(models.Experiment, round_["experiment_id"])
    platform = row(models.Platform, run_row["platform_id"])
    file = row(models.RunFile, run_row["run_file_id"])
    machine = part(MachineState, run_row)
    backend = environment = None
    if run_row["backend_id"] is not None:
        backend_row = row(models.Backend, run_row["backend_id"])
        config = parse_object(backend_row["config_json"], f"the configuration of backend {backend_row['name']}")
        backend = part(Backend, backend_row | {"config": config})
    if run_row["environment_id"] is not None:
        settings = row(models.Environment, run_row["environment_id"])
        environment = parse_object(settings["facts_json"], f"the facts of environment {settings['env_sha256']}")
    contribution: Row = {"identity": None, "name": None}
    if run_row["contribution_id"] is not None:
        contribution = row(models.Contribution, run_row["contribution_id"])
    definition = parse_object(experiment["definition_json"], f"the definition of experiment {experiment['name']}")
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: run_row[name] for name in PLAIN},
        "campaign": part(CampaignRef, row(models.Campaign, round_["campaign_id"])),
        "experiment": part(ExperimentRef, experiment | {"definition": definition}),
        "backend": backend,
        "round": round_["number"],
        "order_seed": round_["order_seed"],
        "spec": factor_columns.factors_of(row(models.Spec, run_row["spec_id"])),
        "platform": parse_object(platform["facts_json"], f"the facts of platform {platform['slug']}"),
        "environment": environment,
        "software": part(Software, row(models.Software, run_row["software_id"])),
        "machine": None if set(machine.values()) == {None} else machine,
        **{name: details(model) for name, model in models.DETAILS.items()},
        "fused": [entry["variable"] for entry in details(models.FusedUpdate)],
        "aborts": _aborts(connection, run_row["id"]),
        "stored": {
            "platform": key_of(platform["slug"], contribution["identity"]),
            "platform_name": platform["name"],
            "contribution": contribution["name"],
            "content_sha256": run_row["content_sha256"],
            "run_file": file["name"],
            "ingested_at_utc": file["ingested_at_utc"],
        },
    }


def _aborts(connection: Connection, run_id: int) -> list[Row]:
    reason, thread = models.AbortReason, models.ThreadAbort
    statement = (
        select(thread.worker, thread.variable, reason.mechanism, reason.raw_code, reason.family, thread.n)
        .join(reason)
        .where(thread.run_id == run_id)
        .order_by(thread.worker, thread.variable, reason.mechanism, reason.raw_code)
    )
    return [dict(row._mapping) for row in fetch(connection, statement)]


def _rows(connection: Connection, model: type[models.Base], **equal: Any) -> list[Row]:
    """The rows in which these columns have these values, ordered by primary key."""
    table = model.__table__
    matches = [table.columns[name] == value for name, value in equal.items()]
    return [dict(row._mapping) for row in fetch(connection, select(table).where(*matches).order_by(*table.primary_key))]
