"""Which software measured a run: words that are the same for the same software alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from tmflow.variants import name_of
from tmflow.wording import listed

VERSIONS = ("tmflow", "python", "tensorflow", "numpy", "compiler", "cflags", "lock_sha256")
DIGITS = 10  # of a hash that are shown


def measured_by(runs: pd.DataFrame, software: pd.DataFrame, code_of: Callable[[str], str]) -> pd.Series:
    """The software that measured each run, in words.

    runs: with uid and campaign_uid; software: as `store.queries.software` gives it of them; code_of: what commits
    share that differ in no code. Commits that do are one software. Uncommitted changes nobody knows: those of one
    campaign are taken to be the same, those of two are not.
    """
    by = runs[["uid", "campaign_uid"]].merge(software, on="uid", validate="one_to_one")
    changed = by["git_dirty"].fillna(False).astype(bool)
    commits = by["git_commit"].astype(object)
    by["code"] = commits.map({commit: code_of(commit) for commit in commits.dropna().unique()}).where(~changed, commits)
    by["changed_in"] = by["campaign_uid"].astype(object).where(changed, None)
    told = [name for name in VERSIONS if name == "tmflow" or by[name].nunique(dropna=False) > 1]
    words = pd.Series("", index=by.index, dtype=object)
    for _, alike in by.groupby(["code", "changed_in", *VERSIONS], dropna=False, sort=False):
        words[alike.index] = _words(alike, told)
    return words.set_axis(runs.index)


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
