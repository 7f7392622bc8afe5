"""Insertion of new runs, with the rows that they share, and the tally of the runs of each round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from sqlalchemy import Connection, Select, delete, func, insert, select, tuple_

from tmflow.base.errors import BadInput
from tmflow.store import models, rows
from tmflow.store.frames import SOURCE, visible
from tmflow.store.models import Base
from tmflow.store.rows import REASON, IncomingRun, Key, Row, chunks, columns

Clash = Callable[[Row, Row], str]
"""The message for two rows that contradict each other."""


def insert_runs(
    connection: Connection, incoming: Sequence[IncomingRun], file_ids: Sequence[int], contribution_id: int | None
) -> set[int]:
    """Insert new runs, each with the id of its run file; return the ids of their rounds.

    Raises BadInput if a repeat of a point in a round already has a run, and for a campaign on two platforms, a round
    with two orders or a backend of two kinds.
    """
    if not incoming:
        return set()
    references = _references(connection, incoming)
    _require_vacant(connection, incoming, references)
    in_order = itemgetter(*columns(models.Run))
    run_rows = [
        in_order({**item.row, **refers, "run_file_id": file_id, "contribution_id": contribution_id})
        for item, refers, file_id in zip(incoming, references, file_ids, strict=True)
    ]
    insert_rows(connection, models.Run, run_rows)
    stored = select(models.Run.uid, models.Run.id).where(models.Run.uid.in_({item.uid for item in incoming}))
    id_of = dict(connection.execute(stored).tuples().all())

    def details(name: str) -> list[Key]:
        """The rows of the list `name` of all runs, each with the id of its run first."""
        return [(id_of[item.uid], *row) for item in incoming for row in item.details.get(name, ())]

    for name, model in models.DETAILS.items():
        insert_rows(connection, model, details(name))
    insert_rows(connection, models.FusedUpdate, details("fused"))
    _insert_aborts(connection, details("aborts"))
    return {row["round_id"] for row in references}


def _references(connection: Connection, incoming: Sequence[IncomingRun]) -> list[Row]:
    """Get or create the round, spec, platform, environment, software and optional backend of each run: their ids."""
    origins = list(dict.fromkeys(item.origin for item in incoming))
    runs = [origin.run for origin in origins]
    machines = _with_free_slugs(connection, [rows.platform_row(run.platform) for run in runs])
    platforms = shared_ids(connection, models.Platform, ["facts_sha256"], machines)
    of_platform = [(run, {"platform_id": platform}) for run, platform in zip(runs, platforms, strict=True)]
    settings = [rows.environment_row(run.environment, run.platform) | platform for run, platform in of_platform]
    environments = shared_ids(connection, models.Environment, ["env_sha256"], settings)
    versions = [rows.software_row(run.software) for run in runs]
    software = shared_ids(connection, models.Software, ["software_sha256"], versions)
    invocations = [run.campaign.model_dump() | platform for run, platform in of_platform]
    fixed: dict[str, Clash] = {"created_at_utc": _two_times, "platform_id": partial(_two_machines, connection)}
    campaigns = shared_ids(connection, models.Campaign, ["uid"], invocations, fixed)
    definitions = [rows.experiment_row(run.experiment) for run in runs]
    experiments = shared_ids(connection, models.Experiment, ["name", "scale", "definition_sha256"], definitions)
    of_origin = [
        {"platform_id": platform, "environment_id": environment, "software_id": of_software}
        for platform, environment, of_software in zip(platforms, environments, software, strict=True)
    ]
    origin_number = {origin: number for number, origin in enumerate(origins)}
    numbers = [origin_number[item.origin] for item in incoming]

    rounds = _round_ids(connection, incoming, [(campaigns[number], experiments[number]) for number in numbers])
    specs = list(dict.fromkeys(item.spec for item in incoming))
    spec_ids = shared_ids(connection, models.Spec, ["spec_sha256"], [rows.spec_row(spec.run.spec) for spec in specs])
    spec_of = dict(zip(specs, spec_ids, strict=True))

    backends = [rows.backend_row(item.backend) for item in incoming if item.backend is not None]
    key = ["name", "version", "config_sha256"]
    backend_ids = iter(shared_ids(connection, models.Backend, key, backends, {"kind": _two_kinds}))
    return [
        {
            **of_origin[number],
            "round_id": round_id,
            "spec_id": spec_of[item.spec],
            "backend_id": None if item.backend is None else next(backend_ids),
        }
        for item, number, round_id in zip(incoming, numbers, rounds, strict=True)
    ]


def _round_ids(
    connection: Connection, incoming: Sequence[IncomingRun], studies: Sequence[tuple[int, int]]
) -> list[int]:
    """Get or create the round of each run; studies: the ids of its campaign and its experiment."""
    key = ["campaign_id", "experiment_id", "number"]
    first: dict[tuple[int, ...], IncomingRun] = {}  # of each round and order, for the message
    rounds = [(*study, item.round, item.order_seed) for study, item in zip(studies, incoming, strict=True)]
    for of_run, item in zip(rounds, incoming, strict=True):
        first.setdefault(of_run, item)

    def two_orders(row: Row, other: Row) -> str:
        return _two_orders(first[tuple(row[name] for name in (*key, "order_seed"))], row, other)

    round_rows = [dict(zip((*key, "order_seed"), of_round, strict=True)) for of_round in first]
    ids = shared_ids(connection, models.Round, key, round_rows, {"order_seed": two_orders})
    id_of = dict(zip(first, ids, strict=True))
    return [id_of[of_run] for of_run in rounds]


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


def _two_times(row: Row, other: Row) -> str:
    return (
        f"campaign {row['uid']} was created at {row['created_at_utc']} by one run and at {other['created_at_utc']}"
        " by another; ingest the run files as the study wrote them."
    )


def _two_machines(connection: Connection, row: Row, other: Row) -> str:
    ids = (row["platform_id"], other["platform_id"])
    slugs = connection.scalars(select(models.Platform.slug).where(models.Platform.id.in_(ids)))
    return (
        f"campaign {row['uid']} has runs of two machines, {' and '.join(sorted(slugs))}, but a campaign belongs to "
        "one; ingest the run files of one of them only, and run the study on the other in another results folder."
    )


def _two_orders(item: IncomingRun, row: Row, other: Row) -> str:
    run = item.origin.run
    return (
        f"round {row['number']} of experiment '{run.experiment.name}' in campaign {run.campaign.uid} has order_seed"
        f" {row['order_seed']} in one run and {other['order_seed']} in another; a round has one order: ingest the"
        " runs of one of them only."
    )


def _two_kinds(row: Row, other: Row) -> str:
    return f"backend {row['name']} {row['version']} is of kind {row['kind']} in one run, {other['kind']} in another."


def _require_vacant(connection: Connection, incoming: Sequence[IncomingRun], references: Sequence[Row]) -> None:
    run = models.Run
    stored = select(run.round_id, run.spec_id, run.repeat, run.uid).where(
        run.round_id.in_({row["round_id"] for row in references})
    )
    occupied = {(round_id, spec_id, repeat): uid for round_id, spec_id, repeat, uid in connection.execute(stored)}
    for item, row in zip(incoming, references, strict=True):
        holder = occupied.setdefault((row["round_id"], row["spec_id"], item.row["repeat"]), item.uid)
        if holder != item.uid:
            raise BadInput(
                f"{item.where}: run {item.uid} has the campaign, experiment, round, spec and repeat of run {holder}; "
                "each repeat of a point is run once in a round."
            )


def _insert_aborts(connection: Connection, aborts: Sequence[Key]) -> None:
    """Insert the aborts by worker and variable, and their totals per run."""
    reasons = list(dict.fromkeys((mechanism, code, family) for _, _, _, mechanism, code, family, _ in aborts))
    reason_rows = [dict(zip(REASON, reason, strict=True)) for reason in reasons]
    id_of = dict(zip(reasons, shared_ids(connection, models.AbortReason, REASON, reason_rows), strict=True))
    of_workers: list[Key] = []
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for run_id, worker, variable, mechanism, code, family, n in aborts:
        reason_id = id_of[mechanism, code, family]
        of_workers.append((run_id, worker, variable, reason_id, n))
        sums[run_id, reason_id] += n
    insert_rows(connection, models.ThreadAbort, of_workers)
    insert_rows(connection, models.RunAbort, [(*key, n) for key, n in sums.items()])


def shared_ids(
    connection: Connection,
    model: type[Base],
    key: Sequence[str],
    rows: Sequence[Row],
    fixed: Mapping[str, Clash] | None = None,
) -> list[int]:
    """Get the id of each row, identified by its key columns; insert the rows that the table lacks.

    The `fixed` columns follow from the key. Raises BadInput with the message of the column if two rows with the same
    key differ in it.
    """
    clashes = fixed or {}
    key_of = partial(_values, key)

    def require_same(row: Row, other: Row) -> None:
        for name, describe in clashes.items():
            if row[name] != other[name]:
                raise BadInput(describe(row, other))

    by_key: dict[Key, Row] = {}
    for row in rows:
        require_same(row, by_key.setdefault(key_of(row), row))
    id_of = {}
    for stored in _find(connection, model, key, by_key, also=("id", *clashes)):
        require_same(by_key[key_of(stored)], stored)
        id_of[key_of(stored)] = stored["id"]
    missing = {row_key: row for row_key, row in by_key.items() if row_key not in id_of}
    if missing:
        connection.execute(insert(model), list(missing.values()))
        id_of |= {key_of(row): row["id"] for row in _find(connection, model, key, missing, also=("id",))}
    return [id_of[key_of(row)] for row in rows]


def _values(names: Sequence[str], row: Row) -> Key:
    return tuple(row[name] for name in names)


def _find(
    connection: Connection, model: type[Base], key: Sequence[str], keys: Iterable[Key], also: Sequence[str]
) -> Iterator[Row]:
    """Find the stored rows with one of these keys: their key columns and the `also` columns."""
    columns = model.__table__.columns
    for chunk in chunks(keys):
        matches = tuple_(*(columns[name] for name in key)).in_(chunk)
        query = select(*(columns[name] for name in (*key, *also))).where(matches)
        yield from map(dict, connection.execute(query).mappings())


def insert_rows(connection: Connection, model: type[Base], rows: list[Key]) -> None:
    """Insert rows that have the `columns` of a table, with values that the driver accepts without conversion.

    The statement bypasses SQLAlchemy's processing of each row, which takes as long as SQLite's insert.
    """
    if not rows:
        return
    names = columns(model)
    statement = insert(model).compile(dialect=connection.dialect, column_keys=names)
    if statement.positiontup is not None:
        assert statement.positiontup == names
        connection.exec_driver_sql(str(statement), rows)
    else:
        connection.exec_driver_sql(str(statement), [dict(zip(names, row, strict=True)) for row in rows])


# The runs of a round are counted at ingest, so that no page has to count runs.
TALLY_KEY = (models.Run.round_id, models.Run.platform_id, SOURCE, models.Run.evidence, models.Run.status)
TALLIES: Select[tuple[int, int, int, str, str, int, str]] = (
    select(*TALLY_KEY, func.count().label("n_runs"), func.max(models.Run.started_at_utc).label("newest_run_at_utc"))
    .where(visible())
    .group_by(*TALLY_KEY)
)
"""The correct rows of RoundTally: counts of the visible runs."""


def recount_rounds(connection: Connection, round_ids: Iterable[int]) -> None:
    """Recompute the tally of these rounds."""
    for chunk in chunks(round_ids):
        connection.execute(delete(models.RoundTally).where(models.RoundTally.round_id.in_(chunk)))
        counted = TALLIES.where(models.Run.round_id.in_(chunk))
        connection.execute(insert(models.RoundTally).from_select(columns(models.RoundTally), counted))
