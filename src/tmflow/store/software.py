"""Which software measured a run: words that are the same for the same software alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import Connection

from tmflow.errors import BadInput
from tmflow.paths import project_root
from tmflow.platform import software
from tmflow.point import numbered
from tmflow.store.frame import with_facts
from tmflow.store.models import Software
from tmflow.variants import name_of
from tmflow.wording import listed

VERSIONS = ("tmflow", "python", "tensorflow", "numpy", "compiler", "cflags", "lock_sha256")
DIGITS = 10  # of a hash that are shown


def of_runs(connection: Connection, runs: pd.DataFrame) -> pd.Series:
    """The software that measured each of these runs, in words; they have software_id and campaign_uid.

    Which commits share their code is read from this checkout, if this is one and has them.
    """
    number = numbered(runs, ["software_id", "campaign_uid"])
    distinct = runs[~pd.Series(number, runs.index).duplicated()].reset_index(drop=True)  # few, however many runs
    columns = Software.__table__.columns
    told = [columns[name] for name in ("git_commit", "git_dirty", *VERSIONS)]
    words = measured_by(with_facts(connection, distinct, "software_id", columns["id"], told), _code_here)
    return pd.Series(words.to_numpy()[number], index=runs.index, dtype="str")


def measured_by(by: pd.DataFrame, code_of: Callable[[str], str]) -> pd.Series:
    """The software of each row, in words.

    by: with campaign_uid and the columns of `Software`; code_of: what commits share that differ in no code. Commits
    that do are one software. Uncommitted changes nobody knows: those of one campaign are taken to be the same, those of
    two are not.
    """
    changed = by["git_dirty"].fillna(False).astype(bool)
    commits = by["git_commit"].astype(object)
    several = commits.dropna().unique()
    codes = {commit: code_of(commit) if len(several) > 1 else commit for commit in several}
    by = by.assign(
        code=commits.map(codes).where(~changed, commits),
        changed_in=by["campaign_uid"].astype(object).where(changed, None),
    )
    told = [name for name in VERSIONS if name == "tmflow" or by[name].nunique(dropna=False) > 1]
    words = pd.Series("", index=by.index, dtype=object)
    for _, alike in by.groupby(["code", "changed_in", *VERSIONS], dropna=False, sort=False):
        words[alike.index] = _words(alike, told)
    return words


def _code_here(commit: str) -> str:
    try:
        return _code_of(project_root(), commit)
    except (BadInput, LookupError):  # an installed package has no commits, and a checkout may lack this one
        return commit


@cache  # it takes a process of git, and what a commit holds does not change
def _code_of(root: Path, commit: str) -> str:
    """Raises LookupError where the checkout does not tell: that is not remembered, for it may tell later."""
    code = software.code_of(root, commit)
    if code == commit:
        raise LookupError(commit)
    return code


def _words(alike: pd.DataFrame, told: Sequence[str]) -> str:
    """Runs of one software: the versions `told`, and the commits."""
    first = alike.iloc[0]
    commits = [commit[:DIGITS] for commit in alike["git_commit"].dropna().unique()]
    versions = ", ".join(f"{name_of(name)} {_short(name, first[name])}" for name in told)
    at = f" at {listed(commits)}" if commits else ""
    same = " (the same code)" if len(commits) > 1 else ""
    changed = "" if pd.isna(first["changed_in"]) else f" with uncommitted changes, in campaign {first['changed_in']}"
    return f"{versions}{at}{same}{changed}"


def _short(name: str, value: Any) -> str:
    if pd.isna(value):
        return "unknown"
    return str(value)[:DIGITS] if name.endswith("_sha256") else str(value)
