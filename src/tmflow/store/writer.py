"""Insertion of new runs, with the rows that they refer to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import Connection, select

from tmflow.base.errors import BadInput
from tmflow.runfile.reader import Shared
from tmflow.runfile.record import Backend, Run
from tmflow.store import dedup, models, rows
from tmflow.store.dedup import Key, Row
from tmflow.store.rows import REASON, IncomingRun


def reference_rows(connection: Connection, incoming: Sequence[IncomingRun]) -> list[Row]:
    """Get or create the round, spec, platform, environment, software and optional backend of each run: their ids.

    Raises BadInput for a campaign on two platforms, a round with two orders or a backend of two kinds.
    """
    origins = _origin_ids(connection, incoming)
    specs = _spec_ids(connection, incoming)
    rounds = _round_ids(connection, incoming, origins)
    backends = _backend_ids(connection, [item.backend for item in incoming])
    return [
        {
            "round_id": round_id,
            "spec_id": specs[item.spec],
            "platform_id": origins[item.origin].platform,
            "environment_id": origins[item.origin].environment,
            "software_id": origins[item.origin].software,
            "backend_id": backend_id,
        }
        for item, round_id, backend_id in zip(incoming, rounds, backends, strict=True)
    ]


class _Origin(NamedTuple):
    """The ids of the rows that the runs of an origin refer to."""

    platform: int
    environment: int
    software: int
    campaign: int
    experiment: int


def _origin_ids(connection: Connection, incoming: Sequence[IncomingRun]) -> dict[Shared, _Origin]:
    shared = list(dict.fromkeys(item.origin for item in incoming))
    runs = [origin.run for origin in shared]
    machines = _with_free_slugs(connection, [rows.platform_row(run.platform) for run in runs])
    platforms = dedup.ids(connection, models.Platform, ["facts_sha256"], machines)
    settings = [
        rows.environment_row(run.environment, run.platform) | {"platform_id": platform}
        for run, platform in zip(runs, platforms, strict=True)
    ]
    environments = dedup.ids(connection, models.Environment, ["env_sha256"], settings)
    software = dedup.ids(
        connection, models.Software, ["software_sha256"], [rows.software_row(r.software) for r in runs]
    )
    campaigns = _campaign_ids(connection, runs, platforms)
    experiments = _experiment_ids(connection, runs)
    ids = map(_Origin, platforms, environments, software, campaigns, experiments)
    return dict(zip(shared, ids, strict=True))


def _spec_ids(connection: Connection, incoming: Sequence[IncomingRun]) -> dict[Shared, int]:
    specs = list(dict.fromkeys(item.spec for item in incoming))
    ids = dedup.ids(connection, models.Spec, ["spec_sha256"], [rows.spec_row(shared.run.spec) for shared in specs])
    return dict(zip(specs, ids, strict=True))


def _backend_ids(connection: Connection, backends: Sequence[Backend | None]) -> list[int | None]:
    def two_kinds(row: Row, other: Row) -> str:
        return (
            f"backend {row['name']} {row['version']} is of kind {row['kind']} in one run, {other['kind']} in another."
        )

    present = [rows.backend_row(backend) for backend in backends if backend is not None]
    key = ["name", "version", "config_sha256"]
    ids = iter(dedup.ids(connection, models.Backend, key, present, {"kind": two_kinds}))
    return [None if backend is None else next(ids) for backend in backends]


def _round_ids(connection: Connection, incoming: Sequence[IncomingRun], origins: Mapping[Shared, _Origin]) -> list[int]:
    key = ["campaign_id", "experiment_id", "number"]
    passes = [
        (origins[item.origin].campaign, origins[item.origin].experiment, item.round, item.order_seed)
        for item in incoming
    ]

    def two_orders(row: Row, other: Row) -> str:
        run = incoming[passes.index(tuple(row.values()))].origin.run
        return (
            f"round {row['number']} of experiment '{run.experiment.name}' in campaign {run.campaign.uid} has order_seed"
            f" {row['order_seed']} in one run and {other['order_seed']} in another; a round has one order: ingest the"
            " runs of one of them only."
        )

    distinct = list(dict.fromkeys(passes))
    round_rows = [dict(zip((*key, "order_seed"), one, strict=True)) for one in distinct]
    ids = dedup.ids(connection, models.Round, key, round_rows, fixed={"order_seed": two_orders})
    id_of = dict(zip(distinct, ids, strict=True))
    return [id_of[one] for one in passes]


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
    return dedup.ids(connection, models.Campaign, ["uid"], invocations, fixed=fixed)


def _experiment_ids(connection: Connection, runs: Sequence[Run]) -> list[int]:
    key = ["name", "scale", "definition_sha256"]
    return dedup.ids(connection, models.Experiment, key, [rows.experiment_row(run.experiment) for run in runs])


def _with_free_slugs(connection: Connection, platforms: Sequence[Row]) -> list[Row]:
    """Make the slugs unique: append a part of the hash if another platform has the slug."""
    stored = connection.execute(select(models.Platform.slug, models.Platform.facts_sha256))
    sha256_of_slug = dict(stored.tuples().all())
    free = []
    for row in platforms:
        sha256 = row["facts_sha256"]
        slug = row["slug"] if sha256_of_slug.get(row["slug"], sha256) == sha256 else f"{row['slug']}-{sha256[:8]}"
        sha256_of_slug[slug] = sha256
        free.append(row | {"slug": slug})
    return free


def insert_runs(
    connection: Connection, incoming: Sequence[IncomingRun], file_ids: Sequence[int], contribution_id: int | None
) -> set[int]:
    """Insert new runs, each with the id of its run file; return the ids of their rounds.

    Raises BadInput if a point of a round already has a run.
    """
    if not incoming:
        return set()
    references = reference_rows(connection, incoming)
    _require_vacant(connection, incoming, references)
    in_order = itemgetter(*dedup.columns(models.Run))
    run_rows = [
        in_order({**item.row, **refers, "run_file_id": file_id, "contribution_id": contribution_id})
        for item, refers, file_id in zip(incoming, references, file_ids, strict=True)
    ]
    dedup.insert_rows(connection, models.Run, run_rows)
    stored = select(models.Run.uid, models.Run.id).where(models.Run.uid.in_({item.uid for item in incoming}))
    id_of = dict(connection.execute(stored).tuples().all())
    run_ids = [id_of[item.uid] for item in incoming]
    for name, model in models.DETAILS.items():
        dedup.insert_rows(connection, model, _details(name, run_ids, incoming))
    dedup.insert_rows(connection, models.FusedUpdate, _details("fused", run_ids, incoming))
    _insert_aborts(connection, _details("aborts", run_ids, incoming))
    return {row["round_id"] for row in references}


def _details(name: str, run_ids: Sequence[int], incoming: Sequence[IncomingRun]) -> list[Key]:
    """The rows of the list `name` of all runs, each with the id of its run first."""
    return [
        (run_id, *row) for run_id, item in zip(run_ids, incoming, strict=True) for row in item.details.get(name, ())
    ]


def _require_vacant(connection: Connection, incoming: Sequence[IncomingRun], references: Sequence[Row]) -> None:
    run = models.Run
    stored = select(run.round_id, run.spec_id, run.uid).where(run.round_id.in_({row["round_id"] for row in references}))
    occupied = {(round_id, spec_id): uid for round_id, spec_id, uid in connection.execute(stored)}
    for item, row in zip(incoming, references, strict=True):
        holder = occupied.setdefault((row["round_id"], row["spec_id"]), item.uid)
        if holder != item.uid:
            raise BadInput(
                f"{item.where}: run {item.uid} has the campaign, experiment, round and spec of run {holder}; "
                "a point is run once in a round."
            )


def _insert_aborts(connection: Connection, aborts: Sequence[Key]) -> None:
    """Insert the aborts by worker and variable, and their totals per run."""
    reasons = list(dict.fromkeys((mechanism, code, family) for _, _, _, mechanism, code, family, _ in aborts))
    reason_rows = [dict(zip(REASON, reason, strict=True)) for reason in reasons]
    id_of = dict(zip(reasons, dedup.ids(connection, models.AbortReason, REASON, reason_rows), strict=True))
    rows: list[Key] = []
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for run_id, worker, variable, mechanism, code, family, n in aborts:
        reason_id = id_of[mechanism, code, family]
        rows.append((run_id, worker, variable, reason_id, n))
        sums[run_id, reason_id] += n
    dedup.insert_rows(connection, models.ThreadAbort, rows)
    dedup.insert_rows(connection, models.RunAbort, [(*key, n) for key, n in sums.items()])
