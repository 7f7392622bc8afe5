"""Questions about machines: which there are, under which settings they ran, and their newest runs.

As `queries`: pure functions of an engine or a connection that give tables of pandas.
"""

from __future__ import annotations

import pandas as pd
from sqlalchemy import exists, select

from tmflow.probe import document
from tmflow.store.frame import Source, Statement, fetch, frame
from tmflow.store.models import (
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
from tmflow.store.run_columns import BELONGS_TO, FACTORS, seconds
from tmflow.store.visible import visible

FACTS = (
    "slug", "name", "isa", "cpu_vendor", "cpu_model", "sockets", "cores_physical", "threads_logical", "memory_bytes",
    "tm_capability",
)  # fmt: skip
SETTINGS = (
    "env_sha256", "os", "kernel", "libc", "microcode", "governor", "turbo", "smt", "cpus_allowed", "thp",
    "virtualisation", "aslr", "tm_enabled", "mitigations_json",
)  # fmt: skip
RUNS = 6000  # of a platform that are read: the newest


def platforms(source: Source) -> pd.DataFrame:
    """One row for each platform that has runs to show, by name: the columns `FACTS`."""
    columns = [Platform.__table__.columns[name] for name in FACTS]
    with_runs = exists().where(RoundTally.platform_id == Platform.id)
    return frame(source, select(*columns).where(with_runs).order_by(Platform.name, Platform.slug))


def environments(source: Source, slug: str) -> pd.DataFrame:
    """The settings under which runs of a platform ran: the columns `SETTINGS`, one row for each."""
    columns = [Environment.__table__.columns[name] for name in SETTINGS]
    statement = select(*columns).join(Platform, Environment.platform_id == Platform.id).where(Platform.slug == slug)
    ran = exists().where(Run.platform_id == Platform.id, Run.environment_id == Environment.id, visible())
    return frame(source, statement.where(ran).order_by(Environment.id))


def newest_probe(source: Source, slug: str) -> document.Probe | None:
    """The probe of a platform that began last, of those whose contribution is shown; None without."""
    its = select(Probe.document_json).join(Platform, Probe.platform_id == Platform.id).join(Contribution)
    shown = its.where(Platform.slug == slug, Contribution.withdrawn_at_utc.is_(None))
    found = fetch(source, shown.order_by(Probe.started_at_utc.desc(), Probe.id.desc()).limit(1))
    return document.Probe.model_validate_json(found[0][0]) if found else None


def newest_runs(source: Source, slug: str, at_most: int = RUNS) -> pd.DataFrame:
    """The runs of a platform that started last, of any status, newest first, and at most so many.

    uid, experiment, scale, definition_sha256, campaign_uid, round (the number), the factors, evidence, status,
    env_sha256, tmflow, git_commit, software_sha256, started_at_utc, loop_s (NaN where emulated), disturbed, and of the
    machine load1_before, steal_fraction and others_fraction.
    """
    return frame(source, statement_of_newest_runs(slug, at_most))


def statement_of_newest_runs(slug: str, at_most: int) -> Statement:
    """What `newest_runs` asks: an index has the runs of a platform in the order of their start."""
    return (
        select(
            Run.uid,
            *BELONGS_TO,
            *FACTORS,
            Run.evidence,
            Run.status,
            Environment.env_sha256,
            Software.tmflow,
            Software.git_commit,
            Software.software_sha256,
            Run.started_at_utc,
            seconds(Run.loop_s),
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
        .where(Platform.slug == slug, visible())
        .order_by(Run.started_at_utc.desc(), Run.id.desc())
        .limit(at_most)
    )
