"""Which software measured a run: words that are the same for the same software alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import Connection

from tmflow.analysis.run_table import numbered
from tmflow.analysis.variants import Known, known, name_of
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.base.text import listed
from tmflow.platform import software
from tmflow.store.frames import with_facts
from tmflow.store.models import Software

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
    rows = known(by[["campaign_uid", "git_commit", "git_dirty", *VERSIONS]])
    commits = {row["git_commit"] for row in rows if "git_commit" in row}
    codes = {commit: code_of(commit) if len(commits) > 1 else commit for commit in commits}
    told = [name for name in VERSIONS if name == "tmflow" or len({row.get(name) for row in rows}) > 1]
    keys = [_key(row, codes) for row in rows]
    alike: dict[tuple[Any, ...], list[Known]] = {}
    for key, row in zip(keys, rows, strict=True):
        alike.setdefault(key, []).append(row)
    words = {key: _words(of_one, told) for key, of_one in alike.items()}
    return pd.Series([words[key] for key in keys], index=by.index, dtype=object)


def _key(row: Known, codes: Mapping[str, str]) -> tuple[Any, ...]:
    """What is the same for the same software alone."""
    commit, changed = row.get("git_commit"), row.get("git_dirty", False)
    code = commit if changed or commit is None else codes[commit]
    return (code, row["campaign_uid"] if changed else None, *(row.get(name) for name in VERSIONS))


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
