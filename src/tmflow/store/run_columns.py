"""The columns of a table of runs, as `queries.runs` gives it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Label, case, func
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.spec import TrialSpec
from tmflow.store.models import Backend, Campaign, Environment, Experiment, Platform, Round, Run, Spec

FACTORS = [Spec.__table__.columns[name] for name in TrialSpec.model_fields]

# What a run belongs to.
BELONGS_TO: tuple[Any, ...] = (
    Experiment.name.label("experiment"),
    Experiment.scale,
    Experiment.definition_sha256,
    Campaign.uid.label("campaign_uid"),
    Round.number.label("round"),
)

BACKEND = Backend.name + " " + func.substr(Backend.config_sha256, 1, 8)

# Those that a run could use: the machine's, or fewer where the process was confined to some. NULL = both unreadable.
HARDWARE_THREADS = case(
    (Environment.cpus_allowed < Platform.threads_logical, Environment.cpus_allowed),
    else_=func.coalesce(Platform.threads_logical, Environment.cpus_allowed),
)


def seconds(column: InstrumentedAttribute[Any]) -> Label[Any]:
    """A time of a run, NULL where the run is emulated."""
    return case((Run.evidence != "emulated", column)).label(column.key)


# Its spec stands for all factors.
OF_RUN = [
    Run.uid,
    *BELONGS_TO,
    Platform.slug.label("platform"),
    Platform.name.label("platform_name"),
    HARDWARE_THREADS.label("hardware_threads"),
    Platform.tm_capability,
    Run.evidence,
    BACKEND.label("backend"),
    Run.time_domain,
    Run.status,
    Run.reason,
    Run.spec_id,
    Run.ordinal,
    Run.trial_seed,
    Run.resumed,
    Run.disturbed,
    Run.started_at_utc,
    *map(seconds, (Run.setup_s, Run.loop_s, Run.evaluation_s, Run.total_s)),
    Run.final_accuracy,
    Run.dataset_sha256,
]
