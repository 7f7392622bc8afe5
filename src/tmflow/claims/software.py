"""Which software measured a run: words that are the same for the same software alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from tmflow.point import numbered
from tmflow.variants import Known, known, name_of
from tmflow.wording import listed

VERSIONS = ("tmflow", "python", "tensorflow", "numpy", "compiler", "cflags", "lock_sha256")
DIGITS = 10  # of a hash that are shown


def measured_by(runs: pd.DataFrame, software: pd.DataFrame, code_of: Callable[[str], str]) -> pd.Series:
    """The software that measured each run, in words.

    runs: with uid and campaign_uid; software: as `store.queries.software` gives it of them; code_of: what commits
    share that differ in no code. Commits that do are one software. Uncommitted changes nobody knows: those of one
    campaign are taken to be the same, those of two are not.
    """
    by = software.set_index("uid").loc[runs["uid"]].assign(campaign_uid=runs["campaign_uid"].to_numpy(dtype=object))
    telling = ["campaign_uid", "git_commit", "git_dirty", *VERSIONS]
    number = numbered(by, telling)
    distinct = known(by[telling][~pd.Series(number).duplicated().to_numpy()])  # few, however many runs
    told = [name for name in VERSIONS if name == "tmflow" or len({row.get(name) for row in distinct}) > 1]
    alike: dict[tuple[Any, ...], list[Known]] = {}
    keys = [_key(row, code_of) for row in distinct]
    for key, row in zip(keys, distinct, strict=True):
        alike.setdefault(key, []).append(row)
    words = {key: _words(rows, told) for key, rows in alike.items()}
    return pd.Series([words[keys[its]] for its in number], index=runs.index, dtype=object)


def _key(row: Known, code_of: Callable[[str], str]) -> tuple[Any, ...]:
    """What is the same for the same software alone."""
    commit, changed = row.get("git_commit"), row.get("git_dirty", False)
    code = commit if changed or commit is None else code_of(commit)
    return (code, row["campaign_uid"] if changed else None, *(row.get(name) for name in VERSIONS))


def _words(alike: Sequence[Known], told: Sequence[str]) -> str:
    """Runs of one software: the versions `told`, and the commits."""
    first = alike[0]
    commits = [commit[:DIGITS] for commit in dict.fromkeys(row["git_commit"] for row in alike if "git_commit" in row)]
    versions = ", ".join(f"{name_of(name)} {_short(name, first.get(name))}" for name in told)
    at = f" at {listed(commits)}" if commits else ""
    same = " (the same code)" if len(commits) > 1 else ""
    changed = f" with uncommitted changes, in campaign {first['campaign_uid']}" if first.get("git_dirty") else ""
    return f"{versions}{at}{same}{changed}"


def _short(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return str(value)[:DIGITS] if name.endswith("_sha256") else str(value)
