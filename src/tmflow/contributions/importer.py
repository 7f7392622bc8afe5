"""Imports bundles into the database, each in full or not at all; withdraws and restores them; deletes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas as pd
from sqlalchemy import URL, BigInteger, Connection, Text, cast, func, insert, select, update

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.bundle import format, signature, verify
from tmflow.bundle.problems import Report
from tmflow.bundle.reader import Bundle, open_bundle
from tmflow.contributions.spool import Spool, open_spool, prepare_packing
from tmflow.store import schema
from tmflow.store.engine import explain_errors, open_reader, open_writer
from tmflow.store.frames import Source, frame
from tmflow.store.ingest import FileToStore, no_search_for_garbage, store_runs, storing
from tmflow.store.models import Campaign, Contribution, Platform, Probe, Round, Run
from tmflow.store.rows import Row
from tmflow.store.writer import recount_rounds, shared_ids

SHORTEST = 8  # least number of hex digits of an identity that name a contribution


class InvalidBundle(BadInput):
    """A bundle with errors; the report lists them."""

    def __init__(self, path: Path, checked: Report) -> None:
        errors = [problem.sentence for problem in checked.problems if problem.severity == "error"]
        listed = "\n  ".join([*errors, *([f"and {checked.omitted} more"] if checked.omitted else [])])
        super().__init__(f"{path} is not stored, because it has errors:\n  {listed}")
        self.report = checked


@dataclass(frozen=True)
class ImportReport:
    """A contribution and its numbers of runs. `withdrawn`: the reason of a withdrawal; None if its runs are shown."""

    identity: str
    name: str
    runs_new: int
    runs_known: int
    withdrawn: str | None


def import_bundle(
    url: URL,
    path: Path,
    name: str | None = None,
    identity: str | None = None,
    allowed_signers: Path | None = None,
) -> ImportReport:
    """Store the new runs of a bundle with its probe, in one transaction; create the database if needed.

    name: the name of the contribution; default: the name of the file. allowed_signers: as for `verify.verify`. Raises
    InvalidBundle for a bundle with errors, before anything is written; Conflict for runs that are stored with other
    content; BadInput if the bundle does not have this `identity`, the database has another run of the same point and
    round, or the database cannot be used.
    """
    signature.require_allowed_signers(allowed_signers)
    with no_search_for_garbage(), open_bundle(path) as bundle:
        if identity not in (None, bundle.identity):
            raise BadInput(f"{path} has the identity {bundle.identity}, not {identity}: it is another bundle.")
        if schema.exists(url):
            with explain_errors(url), open_reader(url).connect() as connection:
                if stored := _report_if_stored(connection, bundle):
                    return stored
        with open_spool() as runs:
            report = Report()
            runs.append(chain.from_iterable(verify.check_files(bundle, report, prepare_packing, allowed_signers)))
            if not report.ok:
                raise InvalidBundle(bundle.path, report)
            if not schema.exists(url):
                schema.upgrade(url)
            with storing(url, "the bundle") as connection:
                return _report_if_stored(connection, bundle) or _store(connection, bundle, runs, name or path.name)


def withdraw(url: URL, identity: str, reason: str) -> int:
    """Hide the runs of a contribution, named by its identity or the first digits; return their number.

    Raises BadInput if there is no such contribution, if it is already withdrawn, or if no reason is given.
    """
    if not reason.strip():
        raise BadInput("the reason of a withdrawal is empty; give one in a few words.")
    return _set_reason(url, identity, reason.strip())


def restore(url: URL, identity: str) -> int:
    """Show the runs of a withdrawn contribution again; argument and result as for `withdraw`.

    Raises BadInput if there is no such contribution, or it is not withdrawn.
    """
    return _set_reason(url, identity, None)


def full_identity(url: URL, identity: str) -> str:
    """The full identity of the contribution named by its first digits. Raises BadInput if there is none."""
    with explain_errors(url), open_reader(url).connect() as connection:
        return str(_find_contribution(connection, identity)["identity"])


def contributions(source: Source) -> pd.DataFrame:
    """A row for each contribution, in the order of import.

    Columns: identity, name, version, imported_at_utc, n_runs; n_stored, the runs that were new; platforms, the slugs of
    these; withdrawn_at_utc, withdrawn_reason, NA if the runs are shown.
    """
    of_round = select(Run.contribution_id, Run.round_id, func.count().label("n"))
    counted = of_round.where(Run.contribution_id.is_not(None)).group_by(Run.contribution_id, Run.round_id).subquery()
    of_platform = (
        select(counted.c.contribution_id, Platform.slug, func.sum(counted.c.n).label("n"))
        .join_from(counted, Round, Round.id == counted.c.round_id)
        .join(Campaign)
        .join(Platform)
        .group_by(counted.c.contribution_id, Platform.slug)
        .subquery()
    )
    columns = [column for column in Contribution.__table__.columns if column.name != "id"]
    stored = [
        cast(func.coalesce(func.sum(of_platform.c.n), 0), BigInteger).label("n_stored"),
        cast(func.coalesce(func.aggregate_strings(of_platform.c.slug, ", "), ""), Text).label("platforms"),
    ]
    statement = select(*columns[:5], *stored, *columns[5:]).outerjoin(
        of_platform, of_platform.c.contribution_id == Contribution.id
    )
    grouped = statement.group_by(Contribution.id, *columns).order_by(Contribution.id)
    return frame(source, grouped).astype({"n_stored": "int64"})


def _report_if_stored(connection: Connection, bundle: Bundle) -> ImportReport | None:
    """The report of a bundle that is stored already; None if it is not stored."""
    statement = select(Contribution.name, Contribution.n_runs, Contribution.withdrawn_reason)
    row = connection.execute(statement.where(Contribution.identity == bundle.identity)).one_or_none()
    if row is None:
        return None
    return ImportReport(bundle.identity, row.name, 0, row.n_runs, row.withdrawn_reason)


def _store(connection: Connection, bundle: Bundle, runs: Spool, name: str) -> ImportReport:
    row = {"identity": bundle.identity, "name": name, "version": bundle.version, "imported_at_utc": utc_now()}
    total = runs.n_runs.total()
    contribution_id = connection.execute(
        insert(Contribution).returning(Contribution.id), row | {"n_runs": total}
    ).scalar_one()
    members = [entry for entry in bundle.manifest if entry.sha256 in runs.n_runs]
    files = [FileToStore(entry.sha256, Path(entry.path).name, runs.n_runs[entry.sha256]) for entry in members]
    stored = store_runs(connection, files, runs.runs(), contribution_id)
    _store_probe(connection, bundle, contribution_id)
    return ImportReport(bundle.identity, name, stored.runs_new, total - stored.runs_new, None)


def _store_probe(connection: Connection, bundle: Bundle, contribution_id: int) -> None:
    probe, platform = bundle.document(format.PROBE), bundle.document(format.PLATFORM)
    if probe is None or platform is None:  # a zip of run files has neither
        return
    statement = select(Platform.id).where(Platform.facts_sha256 == sha256_of(platform["facts"]))
    row = {
        "sha256": sha256_of(probe),
        "platform_id": connection.execute(statement).scalar_one(),
        "contribution_id": contribution_id,
        "evidence": probe["evidence"],
        "started_at_utc": probe["started_at_utc"],
        "document_json": canonical_json(probe),
    }
    shared_ids(connection, Probe, ["sha256"], [row])


def _set_reason(url: URL, identity: str, reason: str | None) -> int:
    """Withdraw a contribution for a reason, or restore it if there is none; update the counts."""
    with explain_errors(url), open_writer(url).begin() as connection:
        contribution = _find_contribution(connection, identity)
        name, present = contribution["name"], contribution["withdrawn_reason"]
        if reason is not None and present is not None:
            raise BadInput(f"contribution {name} is withdrawn already: {present}.")
        if reason is None and present is None:
            raise BadInput(f"contribution {name} is not withdrawn: its runs are shown.")
        at = None if reason is None else utc_now()
        changed = update(Contribution).where(Contribution.id == contribution["id"])
        connection.execute(changed.values(withdrawn_at_utc=at, withdrawn_reason=reason))
        of_contribution = Run.contribution_id == contribution["id"]
        recount_rounds(connection, connection.scalars(select(Run.round_id).where(of_contribution).distinct()).all())
        return connection.execute(select(func.count()).select_from(Run).where(of_contribution)).scalar_one()


def _find_contribution(connection: Connection, identity: str) -> Row:
    """Find the contribution whose identity begins with these digits; raise BadInput unless there is exactly one."""
    if not re.fullmatch(f"[0-9a-f]{{{SHORTEST},64}}", identity):
        raise BadInput(
            f"identity is '{identity}', but should be that of a contribution, or its first {SHORTEST} hex digits or "
            "more; `tmflow bundle list` lists them."
        )
    begins_so = Contribution.identity.startswith(identity)
    matches = [dict(row) for row in connection.execute(select(Contribution.__table__).where(begins_so)).mappings()]
    if len(matches) != 1:
        how_many = "no contribution has" if not matches else f"{len(matches)} contributions have"
        raise BadInput(f"{how_many} an identity that begins with '{identity}'; `tmflow bundle list` lists them.")
    return matches[0]
