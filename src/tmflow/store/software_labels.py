"""Labels of the software that measured runs: two labels are the same only for the same software."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sqlalchemy import Connection

from tmflow.analysis.run_table import numbered
from tmflow.analysis.variants import ValuesByName, name_of, values_by_name
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.base.text import listed
from tmflow.platform import software
from tmflow.store.frames import with_facts
from tmflow.store.models import Software

VERSIONS = ("tmflow", "python", "tensorflow", "numpy", "compiler", "cflags", "lock_sha256")
DIGITS = 10  # digits of a hash that are shown


def of_runs(connection: Connection, runs: pd.DataFrame) -> pd.Series:
    """Label the software of each run; the columns are software_id and campaign_uid.

    If this checkout has the commits, it determines which of them have the same code.
    """
    number = numbered(runs, ["software_id", "campaign_uid"])
    labels = measured_by(_distinct_software(connection, runs, number), _code_here)
    return pd.Series(labels.to_numpy()[number], index=runs.index, dtype="str")


def is_of(connection: Connection, runs: pd.DataFrame, here: Mapping[str, Any], campaign_uid: str | None) -> pd.Series:
    """Whether each run is by the same software as runs of this campaign by `here`, which has the facts of `Software`.

    runs: as for `of_runs`. campaign_uid: None for a campaign that does not exist yet.
    """
    number = numbered(runs, ["software_id", "campaign_uid"])
    stored = _distinct_software(connection, runs, number).astype(object)
    another = {**here, "campaign_uid": campaign_uid or "a new campaign"}
    every = pd.concat([stored, pd.DataFrame([another], columns=stored.columns, dtype=object)], ignore_index=True)
    *labels, wanted = measured_by(every, _code_here)
    return pd.Series([labels[place] == wanted for place in number], index=runs.index, dtype=bool)


def _distinct_software(connection: Connection, runs: pd.DataFrame, number: NDArray[np.intp]) -> pd.DataFrame:
    """The facts of the distinct pairs of software and campaign, in the order of their numbers."""
    distinct = runs[~pd.Series(number, runs.index).duplicated()].reset_index(drop=True)  # few, however many runs
    columns = Software.__table__.columns
    facts = [columns[name] for name in ("git_commit", "git_dirty", *VERSIONS)]
    return with_facts(connection, distinct, "software_id", columns["id"], facts)


def measured_by(by: pd.DataFrame, code_of: Callable[[str], str]) -> pd.Series:
    """Label the software of each row.

    by: campaign_uid and the columns of `Software`. code_of: maps a commit to an identity of its code; commits with the
    same code are one software. Uncommitted changes are unknown: they count as the same within a campaign, and as
    different in two campaigns.
    """
    rows = values_by_name(by[["campaign_uid", "git_commit", "git_dirty", *VERSIONS]])
    commits = {row["git_commit"] for row in rows if "git_commit" in row}
    codes = {commit: code_of(commit) if len(commits) > 1 else commit for commit in commits}
    shown = [name for name in VERSIONS if name == "tmflow" or len({row.get(name) for row in rows}) > 1]
    keys = [_key(row, codes) for row in rows]
    groups: dict[tuple[Any, ...], list[ValuesByName]] = {}
    for key, row in zip(keys, rows, strict=True):
        groups.setdefault(key, []).append(row)
    labels = {key: _label(group, shown) for key, group in groups.items()}
    return pd.Series([labels[key] for key in keys], index=by.index, dtype=object)


def _key(row: ValuesByName, codes: Mapping[str, str]) -> tuple[Any, ...]:
    """The identity of the software: equal only for the same software."""
    commit, changed = row.get("git_commit"), row.get("git_dirty", False)
    code = commit if changed or commit is None else codes[commit]
    return (code, row["campaign_uid"] if changed else None, *(row.get(name) for name in VERSIONS))


def _code_here(commit: str) -> str:
    try:
        return _code_of(project_root(), commit)
    except (BadInput, LookupError):  # an installed package has no commits, and a checkout may lack this one
        return commit


@cache  # starts a git process, and the content of a commit never changes
def _code_of(root: Path, commit: str) -> str:
    """The identity of a commit's code; raises LookupError, which is not cached, if the checkout lacks the commit."""
    code = software.code_of(root, commit)
    if code == commit:
        raise LookupError(commit)
    return code


def _label(group: Sequence[ValuesByName], shown: Sequence[str]) -> str:
    """Label one software: the versions `shown` and the commits; `group` is the rows of its runs."""
    first = group[0]
    commits = [commit[:DIGITS] for commit in dict.fromkeys(row["git_commit"] for row in group if "git_commit" in row)]
    versions = ", ".join(f"{name_of(name)} {_shorten(name, first.get(name))}" for name in shown)
    at = f" at {listed(commits)}" if commits else ""
    same = " (the same code)" if len(commits) > 1 else ""
    changed = f" with uncommitted changes, in campaign {first['campaign_uid']}" if first.get("git_dirty") else ""
    return f"{versions}{at}{same}{changed}"


def _shorten(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return str(value)[:DIGITS] if name.endswith("_sha256") else str(value)
