"""What new runs refer to: found, or inserted, before the runs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, update

from tmflow.runner.runfile import Run
from tmflow.store import models, once, rows
from tmflow.store.rows import Row


def reference_rows(connection: Connection, runs: Sequence[Run]) -> list[Row]:
    """For each run, the ids of its round, spec, platform, environment, software and backend, if it has one.

    Raises BadInput for a campaign on two platforms, a round of two orders or a backend of two kinds.
    """
    machines = _with_free_slugs(connection, [rows.platform_row(run.platform) for run in runs])
    platforms = once.ids(connection, models.Platform, ["facts_sha256"], machines)
    settings = [
        rows.environment_row(run.environment, run.platform) | {"platform_id": platform}
        for run, platform in zip(runs, platforms, strict=True)
    ]
    environments = once.ids(connection, models.Environment, ["env_sha256"], settings)
    software = once.ids(connection, models.Software, ["software_sha256"], [rows.software_row(r.software) for r in runs])
    specs = once.ids(connection, models.Spec, ["spec_sha256"], [rows.spec_row(run.spec) for run in runs])
    rounds = _round_ids(connection, runs, platforms)
    return [
        {
            "round_id": round_id,
            "spec_id": spec_id,
            "platform_id": platform_id,
            "environment_id": environment_id,
            "software_id": software_id,
            "backend_id": backend_id,
        }
        for round_id, spec_id, platform_id, environment_id, software_id, backend_id in zip(
            rounds, specs, platforms, environments, software, _backend_ids(connection, runs), strict=True
        )
    ]


def _backend_ids(connection: Connection, runs: Sequence[Run]) -> list[int | None]:
    def two_kinds(row: Row, other: Row) -> str:
        return (
            f"backend {row['name']} {row['version']} is of kind {row['kind']} in one run, {other['kind']} in another."
        )

    present = [run.backend for run in runs if run.backend is not None]
    key = ["name", "version", "config_sha256"]
    ids = iter(once.ids(connection, models.Backend, key, list(map(rows.backend_row, present)), {"kind": two_kinds}))
    return [None if run.backend is None else next(ids) for run in runs]


def _round_ids(connection: Connection, runs: Sequence[Run], platforms: Sequence[int]) -> list[int]:
    experiments = _experiment_ids(connection, runs)
    campaigns = _campaign_ids(connection, runs, platforms)
    of = dict(zip(zip(campaigns, experiments, strict=True), runs, strict=True))

    def two_orders(row: Row, other: Row) -> str:
        run = of[row["campaign_id"], row["experiment_id"]]
        return (
            f"round {row['number']} of experiment '{run.experiment.name}' in campaign {run.campaign.uid} has order_seed"
            f" {row['order_seed']} in one run and {other['order_seed']} in another; a round has one order: ingest the"
            " runs of one of them only."
        )

    passes = [
        {"campaign_id": campaign, "experiment_id": experiment, "number": run.round, "order_seed": run.order_seed}
        for run, campaign, experiment in zip(runs, campaigns, experiments, strict=True)
    ]
    key = ["campaign_id", "experiment_id", "number"]
    return once.ids(connection, models.Round, key, passes, fixed={"order_seed": two_orders})


def _campaign_ids(connection: Connection, runs: Sequence[Run], platforms: Sequence[int]) -> list[int]:
    def two_times(row: Row, other: Row) -> str:
        return (
            f"campaign {row['uid']} was created at {row['created_at_utc']} by one run and at {other['created_at_utc']}"
            " by another; ingest the run files as the study wrote them."
        )

    def two_machines(row: Row, other: Row) -> str:
        ids = (row["platform_id"], other["platform_id"])
        slugs = connection.scalars(select(models.Platform.slug).where(models.Platform.id.in_(ids)))
        return (
            f"campaign {row['uid']} has runs of two machines, {' and '.join(sorted(slugs))}, but a campaign belongs to "
            "one; ingest the run files of one of them only, and run the study on the other in a results folder of its "
            "own."
        )

    invocations = [
        run.campaign.model_dump() | {"platform_id": platform} for run, platform in zip(runs, platforms, strict=True)
    ]
    fixed = {"created_at_utc": two_times, "platform_id": two_machines}
    return once.ids(connection, models.Campaign, ["uid"], invocations, fixed=fixed)


def _experiment_ids(connection: Connection, runs: Sequence[Run]) -> list[int]:
    """Also brings up to date when each definition was run last, whatever the order in which runs come in."""
    key = ["name", "scale", "definition_sha256"]
    experiments = once.ids(connection, models.Experiment, key, rows.experiment_rows(runs))
    last: dict[int, str] = {}
    for run, experiment in zip(runs, experiments, strict=True):
        last[experiment] = max(run.started_at_utc, last.get(experiment, ""))
    table = models.Experiment
    later = update(table).where(table.id == bindparam("itself"), table.last_run_at_utc < bindparam("at"))
    connection.execute(
        later.values(last_run_at_utc=bindparam("at")), [{"itself": itself, "at": at} for itself, at in last.items()]
    )
    return experiments


def _with_free_slugs(connection: Connection, platforms: Sequence[Row]) -> list[Row]:
    """Where another platform has the slug already, a part of the hash is added."""
    stored = connection.execute(select(models.Platform.slug, models.Platform.facts_sha256))
    taken = dict(stored.tuples().all())
    free = []
    for row in platforms:
        sha256 = row["facts_sha256"]
        slug = row["slug"] if taken.get(row["slug"], sha256) == sha256 else f"{row['slug']}-{sha256[:8]}"
        taken[slug] = sha256
        free.append(row | {"slug": slug})
    return free
