"""One stored run in full, in the layout of its run file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Connection, select

from tmflow.base.errors import BadInput
from tmflow.base.json_objects import parse_object
from tmflow.platform.key import key_of
from tmflow.runfile.lines import SCHEMA_VERSION
from tmflow.runfile.record import Backend, CampaignRef, MachineState, Software
from tmflow.store import models, spec_factors
from tmflow.store.dedup import Row
from tmflow.store.frames import Source, connected, fetch
from tmflow.store.rows import PLAIN


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
    round_ = _row(connection, models.Round, run_row["round_id"])
    experiment = _row(connection, models.Experiment, round_["experiment_id"])
    platform = _row(connection, models.Platform, run_row["platform_id"])
    file = _row(connection, models.RunFile, run_row["run_file_id"])
    machine = _part(MachineState, run_row)
    contribution_id = run_row["contribution_id"]
    local: Row = {"identity": None, "name": None}
    contribution = local if contribution_id is None else _row(connection, models.Contribution, contribution_id)
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: run_row[name] for name in PLAIN},
        "campaign": _part(CampaignRef, _row(connection, models.Campaign, round_["campaign_id"])),
        "experiment": {
            "name": experiment["name"],
            "scale": experiment["scale"],
            "definition_sha256": experiment["definition_sha256"],
            "definition": parse_object(
                experiment["definition_json"], f"the definition of experiment {experiment['name']}"
            ),
        },
        "backend": _backend(connection, run_row["backend_id"]),
        "round": round_["number"],
        "order_seed": round_["order_seed"],
        "spec": spec_factors.factors_of(_row(connection, models.Spec, run_row["spec_id"])),
        "platform": parse_object(platform["facts_json"], f"the facts of platform {platform['slug']}"),
        "environment": _environment(connection, run_row["environment_id"]),
        "software": _part(Software, _row(connection, models.Software, run_row["software_id"])),
        "machine": None if set(machine.values()) == {None} else machine,
        **{name: _list(connection, model, run_row["id"]) for name, model in models.DETAILS.items()},
        "fused": [row["variable"] for row in _list(connection, models.FusedUpdate, run_row["id"])],
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


def _environment(connection: Connection, environment_id: int | None) -> dict[str, Any] | None:
    if environment_id is None:
        return None
    row = _row(connection, models.Environment, environment_id)
    return parse_object(row["facts_json"], f"the facts of environment {row['env_sha256']}")


def _backend(connection: Connection, backend_id: int | None) -> dict[str, Any] | None:
    if backend_id is None:
        return None
    row = _row(connection, models.Backend, backend_id)
    return _part(
        Backend, row | {"config": parse_object(row["config_json"], f"the configuration of backend {row['name']}")}
    )


def _list(connection: Connection, model: type[models.Base], run_id: int) -> list[Row]:
    return [
        {name: value for name, value in row.items() if name != "run_id"}
        for row in _rows(connection, model, run_id=run_id)
    ]


def _aborts(connection: Connection, run_id: int) -> list[Row]:
    reason, thread = models.AbortReason, models.ThreadAbort
    statement = (
        select(thread.worker, thread.variable, reason.mechanism, reason.raw_code, reason.family, thread.n)
        .join(reason)
        .where(thread.run_id == run_id)
        .order_by(thread.worker, thread.variable, reason.mechanism, reason.raw_code)
    )
    return [dict(row._mapping) for row in fetch(connection, statement)]


def _row(connection: Connection, model: type[models.Base], id_: int) -> Row:
    (row,) = _rows(connection, model, id=id_)
    return row


def _rows(connection: Connection, model: type[models.Base], **equal: Any) -> list[Row]:
    """The rows in which these columns have these values, ordered by primary key."""
    table = model.__table__
    matches = [table.columns[name] == value for name, value in equal.items()]
    return [dict(row._mapping) for row in fetch(connection, select(table).where(*matches).order_by(*table.primary_key))]


def _part(model: type[BaseModel], row: Mapping[str, Any]) -> Row:
    return {name: row[name] for name in model.model_fields}
