"""A published site of a small database in which every free text tries to be HTML, a script, or the end of one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from tests.support.sample_runs import EMULATED, sample_runs
from tmflow.base.paths import project_root
from tmflow.reports.site.build import Written, publish
from tmflow.runfile import record
from tmflow.store import engine
from tmflow.store.ingest import ingest
from tmflow.study.config import load_study

HOSTILE = "</script><img src=x onerror=alert(1)> & 'x' \"y\" {{ 7*7 }}"
OWN_DATA = "<b>own & only</b>"  # an experiment that config.yaml does not have


class Published(NamedTuple):
    url: URL
    site: Path
    written: Written


def hostile_database(folder: Path) -> URL:
    """fig-4.10 (whose runs fig-4.11 uses) and an experiment outside the plan, on a machine with a hostile name."""
    url = engine.sqlite_url(folder / "study.db")
    platform = {"cpu_model": HOSTILE, "threads_logical": 4}
    runs = sample_runs(
        ("fig-4.10", OWN_DATA),
        ("tf_lock", "tf_nolock", "nolock", EMULATED),
        (1, 2),
        2,
        unsupported=("nolock",),
        platform=platform,
        batch=15,
        curve_points=0,
    )
    with_reasons = [run.model_copy(update={"reason": HOSTILE}) if run.status == "unsupported" else run for run in runs]
    record.write(folder / "runs.jsonl", with_reasons)
    ingest(url, [folder / "runs.jsonl"])
    return url


def published(folder: Path) -> Published:
    url = hostile_database(folder)
    study = load_study(project_root() / "config.yaml")
    return Published(url, folder / "site", publish(engine.open_reader(url), study, "full", folder / "site"))
