"""Queries about platforms: facts, settings, software, newest probes and runs, and contributions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
from sqlalchemy import exists, func, select

from tmflow.base.documents import document as checked
from tmflow.base.documents import parse_object
from tmflow.platform.facts import is_local, slug_of
from tmflow.probe import document
from tmflow.store import factor_columns
from tmflow.store.frames import (
    BELONGS_TO,
    PLATFORM_KEY,
    STATUS,
    Source,
    fetch,
    first,
    frame,
    loop_seconds,
    of_source,
    platform_columns,
    seconds,
    total,
    visible,
)
from tmflow.store.models import (
    Base,
    Campaign,
    Contribution,
    Environment,
    Experiment,
    Platform,
    Probe,
    Round,
    RoundTally,
    Run,
    Software,
    Spec,
)

FACTS = (
    "isa", "cpu_vendor", "cpu_model", "sockets", "cores_physical", "threads_logical", "memory_bytes",
    "tm_capability",
)  # fmt: skip
SETTINGS = (
    "env_sha256", "os", "kernel", "libc", "microcode", "governor", "turbo", "smt", "cpus_allowed", "thp",
    "virtualisation", "aslr", "tm_enabled", "mitigations_json",
)  # fmt: skip
RUNS = 6000  # default limit of `newest_runs`


def platforms(source: Source, *, joined: bool = False) -> pd.DataFrame:
    """One row for each platform and source with visible runs: platform (the key), platform_name, `FACTS`.

    Sorted by name, local runs first. `joined`: one row for each platform, with all its sources.
    """
    columns = [*platform_columns(joined=joined), *(Platform.__table__.columns[name] for name in FACTS)]
    local_first = (Platform.name, Platform.slug, *(() if joined else (func.coalesce(Contribution.id, 0),)))
    ran = select(RoundTally.platform_id, RoundTally.contribution_id).distinct().subquery()
    statement = select(*columns).join_from(Platform, ran, ran.c.platform_id == Platform.id)
    statement = statement.outerjoin(Contribution, Contribution.id == ran.c.contribution_id)
    table = frame(source, statement.order_by(*local_first))
    return table.drop_duplicates("platform", ignore_index=True)


def local_platform(source: Source, facts_sha256: str) -> str | None:
    """The key of the platform with these facts, or None if it has no local runs."""
    return next(filter(is_local, keys_of_platform(source, facts_sha256)), None)


def keys_of_platform(source: Source, facts_sha256: str) -> list[str]:
    """The keys of the platform with these facts: of its local runs, and of each contribution that has runs of it."""
    key, _ = platform_columns(joined=False)
    ran = select(RoundTally.platform_id, RoundTally.contribution_id).distinct().subquery()
    statement = select(key).join_from(Platform, ran, ran.c.platform_id == Platform.id)
    statement = statement.outerjoin(Contribution, Contribution.id == ran.c.contribution_id)
    of_facts = statement.where(Platform.facts_sha256 == facts_sha256).order_by(func.coalesce(Contribution.id, 0))
    return [str(value) for value in frame(source, of_facts)["platform"]]


def platform_of_campaign(source: Source, uid: str) -> str | None:
    """The key of the platform of a campaign, or None if the campaign has no local runs."""
    ran = exists().where(Run.round_id == Round.id, Round.campaign_id == Campaign.id, Run.contribution_id.is_(None))
    statement = select(Platform.slug).join_from(Campaign, Platform, Campaign.platform_id == Platform.id)
    slug: str | None = first(source, statement.where(Campaign.uid == uid, ran))
    return slug


def contributions_to(source: Source, platform: str) -> pd.DataFrame:
    """The contributions to a platform, in order of import; the source in the key is ignored.

    Columns: platform (the key of the contribution's runs), name, identity, imported_at_utc, n_runs (visible runs).
    """
    key, _ = platform_columns(joined=False)
    columns = [key, Contribution.name, Contribution.identity, Contribution.imported_at_utc]
    statement = (
        select(*columns, total(RoundTally.n_runs).label("n_runs"))
        .join_from(RoundTally, Platform, RoundTally.platform_id == Platform.id)
        .join(Contribution, RoundTally.contribution_id == Contribution.id)
        .where(Platform.slug == slug_of(platform))
        .group_by(Contribution.id, Platform.id, *columns)
        .order_by(Contribution.id)
    )
    return frame(source, statement).astype({"n_runs": "int64"})


def environments(source: Source, platform: str, *, joined: bool = False) -> pd.DataFrame:
    """The environments of the runs of a platform, given its key: one row each, with the columns `SETTINGS`."""
    columns = [Environment.__table__.columns[name] for name in SETTINGS]
    statement = select(*columns).join(Platform, Environment.platform_id == Platform.id)
    statement = statement.where(Platform.slug == slug_of(platform))
    matches = [Run.platform_id == Platform.id, Run.environment_id == Environment.id, visible()]
    ran = exists().where(*matches, of_source(platform, joined=joined))
    return frame(source, statement.where(ran).order_by(Environment.id))


def newest_probe(source: Source, platform: str, *, joined: bool = False) -> document.Probe | None:
    """The probe of a platform, given its key, that started last; None if it has no visible probe.

    Only contributions bring probes.
    """
    probes = select(Probe.document_json).join(Platform, Probe.platform_id == Platform.id).join(Contribution)
    shown = probes.where(Platform.slug == slug_of(platform), Contribution.withdrawn_at_utc.is_(None))
    if not joined:
        shown = shown.where(PLATFORM_KEY.in_([platform]))
    newest = first(source, shown.order_by(Probe.started_at_utc.desc(), Probe.id.desc()))
    if newest is None:
        return None
    what = f"the probe of platform {platform}"
    return checked(document.Probe, parse_object(newest, what), f"{what} in the database")


def newest_runs(source: Source, platform: str, at_most: int = RUNS, *, joined: bool = False) -> pd.DataFrame:
    """The newest runs of a platform, given its key: at most `at_most`, of any status, newest first.

    Columns: uid, experiment, scale, definition_sha256, campaign_uid, round (the number), the factors, evidence, status,
    env_sha256, tmflow, git_commit, software_sha256, started_at_utc, loop_s (NaN if emulated), total_s, disturbed, and
    the load of the machine: load1_before, steal_fraction, others_fraction.
    """
    statement = (
        select(
            Run.uid,
            *BELONGS_TO,
            *factor_columns.FACTORS,
            Run.evidence,
            STATUS,
            Environment.env_sha256,
            Software.tmflow,
            Software.git_commit,
            Software.software_sha256,
            Run.started_at_utc,
            loop_seconds(),
            seconds(Run.total_s),
            Run.disturbed,
            Run.load1_before,
            Run.steal_fraction,
            Run.others_fraction,
        )
        .select_from(Run)
        .join(Platform, Run.platform_id == Platform.id)
        .join(Round, Run.round_id == Round.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
        .join(Spec, Run.spec_id == Spec.id)
        .join(Software, Run.software_id == Software.id)
        .outerjoin(Environment, Run.environment_id == Environment.id)
        .where(Platform.slug == slug_of(platform), visible(), of_source(platform, joined=joined))
        .order_by(Run.started_at_utc.desc(), Run.id.desc())  # an index has the runs of a platform in this order
        .limit(at_most)
    )
    return frame(source, statement)


Facts = dict[str, Any]
"""The facts of one object by name; None is a fact that could not be read."""


def platform_facts(source: Source, keys: Iterable[str]) -> dict[str, Facts]:
    """All recorded facts of platforms by key (`tmflow.platform.facts`), also facts unknown to this version.

    They do not depend on the source: a platform is identified by the hash of its facts.
    """
    slugs = {key: slug_of(key) for key in keys}
    facts = _facts_json(source, Platform, "slug", slugs.values())
    return {key: facts[slug] for key, slug in slugs.items() if slug in facts}


def environment_facts(source: Source, hashes: Iterable[str]) -> dict[str, Facts]:
    """All recorded settings by hash, also settings unknown to this version."""
    return _facts_json(source, Environment, "env_sha256", hashes)


def software_facts(source: Source, hashes: Iterable[str]) -> dict[str, Facts]:
    """The software versions by hash."""
    columns = [column for column in Software.__table__.columns if column.name != "id"]
    fetched = fetch(source, select(*columns).where(Software.software_sha256.in_(sorted(hashes))))
    rows = (dict(row._mapping) for row in fetched)
    return {row.pop("software_sha256"): row for row in rows}


def _facts_json(source: Source, model: type[Base], key: str, values: Iterable[str]) -> dict[str, Facts]:
    name, facts = (model.__table__.columns[column] for column in (key, "facts_json"))
    rows = fetch(source, select(name, facts).where(name.in_(sorted(values))))
    return {value: parse_object(text, f"the facts of {model.__tablename__} {value}") for value, text in rows}
