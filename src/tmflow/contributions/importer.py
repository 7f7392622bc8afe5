"""Bundles in the database: imported as a whole, hidden by a withdrawal, shown again; never deleted."""

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
from tmflow.bundle.problems import Findings, Report, report
from tmflow.bundle.reader import Bundle, open_bundle
from tmflow.contributions.spool import Aside, aside, packing
from tmflow.store import dedup, round_counts, schema
from tmflow.store.dedup import Row
from tmflow.store.engine import open_reader, open_writer
from tmflow.store.frames import Source, frame
from tmflow.store.ingest import FileToStore, no_search_for_garbage, store_runs, storing
from tmflow.store.models import Campaign, Contribution, Platform, Probe, Round, Run
from tmflow.store.url import explain_errors

SHORTEST = 8  # hex digits of an identity that name a contribution


class NotSound(BadInput):
    """A bundle whose check found something wrong: the report has all of it."""

    def __init__(self, path: Path, found: Report) -> None:
        errors = [problem.sentence for problem in found.problems if problem.severity == "error"]
        listed = "\n  ".join([*errors, *([f"and {found.omitted} more"] if found.omitted else [])])
        super().__init__(f"{path} is not stored, for it is not sound:\n  {listed}")
        self.report = found


@dataclass(frozen=True)
class ImportReport:
    """A contribution, and how many of its runs were new. `withdrawn`: why its runs are hidden; None of one shown."""

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
    """Store the runs of a bundle that the database does not hold yet, with its probe; all of it or, on an error, none.

    `name`: the contribution's, if it is not that of the file. `allowed_signers`: as of `verify.verify`. Makes the
    database if there is none. Raises NotSound for a bundle that its check does not pass, before anything is written;
    Conflict for runs that are stored with another content; BadInput for a bundle of another `identity` than is given,
    for a point of a round that has another run, and for a database that cannot be used.
    """
    signature.require_allowed_signers(allowed_signers)
    with no_search_for_garbage(), open_bundle(path) as bundle:
        if identity not in (None, bundle.identity):
            raise BadInput(f"{path} has the identity {bundle.identity}, and not {identity}: it is another bundle.")
        if schema.exists(url) and (known := _stored(url, bundle)):
            return known
        with aside() as runs:
            _lay_aside(bundle, runs, allowed_signers)
            if not schema.exists(url):
                schema.upgrade(url)
            with storing(url, "the bundle") as connection:
                return _known(connection, bundle) or _store(connection, bundle, runs, name or path.name)


def withdraw(url: URL, identity: str, reason: str) -> int:
    """Hide the runs of a contribution, named by its identity or the first digits of it; returns how many these are.

    Raises BadInput where there is no such contribution, or it is withdrawn already, and without a reason.
    """
    if not reason.strip():
        raise BadInput("the reason of a withdrawal is empty; say in a few words why its runs should not be shown.")
    return _set(url, identity, {"withdrawn_at_utc": utc_now(), "withdrawn_reason": reason.strip()})


def restore(url: URL, identity: str) -> int:
    """Show the runs of a withdrawn contribution again; named and returned as by `withdraw`.

    Raises BadInput where there is no such contribution, or it is not withdrawn.
    """
    return _set(url, identity, {"withdrawn_at_utc": None, "withdrawn_reason": None})


def whole_identity(url: URL, identity: str) -> str:
    """The identity of the contribution that is named by it, or by the first digits of it. Raises BadInput for none."""
    with explain_errors(url), open_reader(url).connect() as connection:
        return str(_named(connection, identity)["identity"])


def contributions(source: Source) -> pd.DataFrame:
    """One row for each contribution, in the order of their import.

    identity, name, version, imported_at_utc, n_runs; n_stored, those of its runs that were not there before; platforms,
    of those, by their slugs; withdrawn_at_utc, withdrawn_reason, NA of one that is shown.
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
    told = [column for column in Contribution.__table__.columns if column.name != "id"]
    stored = [
        cast(func.coalesce(func.sum(of_platform.c.n), 0), BigInteger).label("n_stored"),
        cast(func.coalesce(func.aggregate_strings(of_platform.c.slug, ", "), ""), Text).label("platforms"),
    ]
    statement = select(*told[:5], *stored, *told[5:]).outerjoin(
        of_platform, of_platform.c.contribution_id == Contribution.id
    )
    grouped = statement.group_by(Contribution.id, *told).order_by(Contribution.id)
    return frame(source, grouped).astype({"n_stored": "int64"})


def _stored(url: URL, bundle: Bundle) -> ImportReport | None:
    with explain_errors(url), open_reader(url).connect() as connection:
        return _known(connection, bundle)


def _known(connection: Connection, bundle: Bundle) -> ImportReport | None:
    """What to say of a bundle that is stored already; None of one that is not."""
    its = select(Contribution.name, Contribution.n_runs, Contribution.withdrawn_reason)
    row = connection.execute(its.where(Contribution.identity == bundle.identity)).one_or_none()
    if row is None:
        return None
    return ImportReport(bundle.identity, row.name, 0, row.n_runs, row.withdrawn_reason)


def _lay_aside(bundle: Bundle, runs: Aside, allowed_signers: Path | None) -> None:
    """The runs of a bundle, if nothing is wrong with any of them, nor with the bundle."""
    findings = Findings()
    runs.lay(chain.from_iterable(verify.checked(bundle, findings, packing, allowed_signers)))
    found = report(bundle.identity, bundle.version, findings)
    if not found.ok:
        raise NotSound(bundle.path, found)


def _store(connection: Connection, bundle: Bundle, runs: Aside, name: str) -> ImportReport:
    row = {"identity": bundle.identity, "name": name, "version": bundle.version, "imported_at_utc": utc_now()}
    total = runs.n_runs.total()
    itself = connection.execute(insert(Contribution).returning(Contribution.id), row | {"n_runs": total}).scalar_one()
    members = [entry for entry in bundle.manifest if entry.sha256 in runs.n_runs]
    files = [FileToStore(entry.sha256, Path(entry.path).name, runs.n_runs[entry.sha256]) for entry in members]
    stored = store_runs(connection, files, runs.runs(), itself)
    _store_probe(connection, bundle, itself)
    return ImportReport(bundle.identity, name, stored.runs_new, total - stored.runs_new, None)


def _store_probe(connection: Connection, bundle: Bundle, contribution_id: int) -> None:
    probe, platform = bundle.document(format.PROBE), bundle.document(format.PLATFORM)
    if probe is None or platform is None:  # as a zip of run files alone
        return
    its = select(Platform.id).where(Platform.facts_sha256 == sha256_of(platform["facts"]))
    row = {
        "sha256": sha256_of(probe),
        "platform_id": connection.execute(its).scalar_one(),
        "contribution_id": contribution_id,
        "evidence": probe["evidence"],
        "started_at_utc": probe["started_at_utc"],
        "document_json": canonical_json(probe),
    }
    dedup.ids(connection, Probe, ["sha256"], [row])


def _set(url: URL, identity: str, values: Row) -> int:
    """Change whether the runs of a contribution are shown, and count what is."""
    with explain_errors(url), open_writer(url).begin() as connection:
        found = _named(connection, identity)
        withdrawing = values["withdrawn_at_utc"] is not None
        if withdrawing and found["withdrawn_at_utc"] is not None:
            raise BadInput(f"contribution {found['name']} is withdrawn already: {found['withdrawn_reason']}.")
        if not withdrawing and found["withdrawn_at_utc"] is None:
            raise BadInput(f"contribution {found['name']} is not withdrawn: its runs are shown.")
        itself = Contribution.id == found["id"]
        connection.execute(update(Contribution).where(itself).values(values))
        its = Run.contribution_id == found["id"]
        round_counts.count_again(connection, connection.scalars(select(Run.round_id).where(its).distinct()).all())
        return connection.execute(select(func.count()).select_from(Run).where(its)).scalar_one()


def _named(connection: Connection, identity: str) -> Row:
    """The contribution of that identity, or whose identity alone begins so."""
    if not re.fullmatch(f"[0-9a-f]{{{SHORTEST},64}}", identity):
        raise BadInput(
            f"identity is '{identity}', but should be that of a contribution, or its first {SHORTEST} hex digits or "
            "more; `tmflow bundle list` has them."
        )
    begins_so = Contribution.identity.startswith(identity)
    found = [dict(row) for row in connection.execute(select(Contribution.__table__).where(begins_so)).mappings()]
    if len(found) != 1:
        how_many = "no contribution has" if not found else f"{len(found)} contributions have"
        raise BadInput(f"{how_many} an identity that begins with '{identity}'; `tmflow bundle list` has all of them.")
    return found[0]
