"""The text of each table of a page, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from tmflow.analysis import variance
from tmflow.analysis.run_table import n_rounds
from tmflow.base.errors import BadInput
from tmflow.base.text import interval, listed, one_line, several, span
from tmflow.claims.origins import Judged
from tmflow.claims.render import accepted_verdicts, count_verdicts
from tmflow.reports.pages.bundle_runs import Published
from tmflow.reports.pages.cells import Numbers, stable
from tmflow.reports.pages.schema import ClaimsTable, NoiseTable, RunsTable, Table
from tmflow.spec.trial import Evidence


def table_text(table: Table | ClaimsTable | RunsTable | NoiseTable, numbers: Numbers, where: str) -> str:
    """The Markdown of a table; `where` names it in errors. Raises BadInput for a row or a column without numbers."""
    match table:
        case ClaimsTable():
            every = numbers.published(table.machine).verdicts(table.claims)
            return claims_text([it for it in every if is_about(it, table.experiments)])
        case RunsTable():
            return runs_text(numbers.published(table.machine).runs)
        case NoiseTable():
            return noise_text(numbers.published(table.machine).runs)
        case Table():
            return _grid(table, numbers, where)


def is_about(judged: Judged, beginning: str) -> bool:
    """Whether the claim has an experiment whose name begins like this; every claim is about the empty beginning."""
    return not beginning or any(name.startswith(beginning) for name in judged.claim.experiments())


def counts_text(published: Published, evidence: Evidence) -> str:
    """The number of claims with each verdict."""
    return count_verdicts(accepted_verdicts(published.verdicts(evidence)), evidence)


def claims_text(judged: Sequence[Judged]) -> str:
    """A row for each claim: its statement and source, the verdict, and the number that decided it or the reason."""
    rows = [
        (
            f"{_cell(verdict.claim.statement)} ({_cell(verdict.claim.source)})",
            _cell(verdict.finding.verdict),
            _reason(verdict),
        )
        for verdict in accepted_verdicts(judged)
    ]
    return _table(["claim (where it was published)", "verdict", "the number nearest to the bound, or the reason"], rows)


def runs_text(runs: pd.DataFrame) -> str:
    """A row for each experiment and kind of evidence: rounds, trials, and how they ended."""
    rows = []
    for (experiment, evidence), part in runs.groupby(["experiment", "evidence"], sort=True):
        ok = part["status"] == "ok"
        other = part.loc[~ok, "status"].value_counts().sort_index()
        rounds = str(n_rounds(part, part["status"] != ""))
        ended = ", ".join(f"{n} {status}" for status, n in other.items())
        disturbed = str(int(part["disturbed"].astype("boolean").fillna(False).sum()))
        date = str(part["started_at_utc"].max())[:10]
        rows.append((str(experiment), str(evidence), rounds, f"{len(part):,}", f"{ok.sum():,}", ended, disturbed, date))
    heads = ["experiment", "evidence", "rounds", "trials", "with a result", "without", "disturbed", "last run"]
    software = listed([_cell(name) for name in sorted(runs["software"].unique())])
    return f"{_table(heads, rows)}\n\nSoftware: {software}."


def noise_text(runs: pd.DataFrame) -> str:
    """A row for each experiment: the noise of its times, and of the ratio of a round for 1, 2 and 4 repeats."""
    heads = ["between rounds", "between trials", *(f"ratio, k = {k}" for k in variance.REPEATS)]
    rows = []
    for (_, experiment, *_), noise in variance.by_experiment(runs).items():
        times = (None, None) if noise.times is None else (noise.times.between, noise.times.within)
        ratios = [noise.ratios and noise.ratios.of_round(k) for k in variance.REPEATS]
        percentages = ["" if one is None else f"{100 * stable(one):.1f} %" for one in (*times, *ratios)]
        rows.append((experiment, str(noise.points), str(noise.rounds), *percentages))
    return _table(["experiment", "points", "rounds", *heads], rows)


def _grid(table: Table, numbers: Numbers, where: str) -> str:
    texts = {(row, column): numbers.cell(query, _place(where, row, column)) for row, column, query in table.cells()}
    for kind, names, at in (("row", table.rows, 0), ("column", table.columns, 1)):
        for name in names:
            if not any(text for key, text in texts.items() if key[at] == name):
                raise BadInput(f"{where}: the {kind} '{name}' has no number: the published runs have no such point.")
    rows = [(row, *(texts[row, column] for column in table.columns)) for row in table.rows]
    shown = dict.fromkeys(numbers.rounds(query) for row, column, query in table.cells() if texts[row, column])
    return f"{_table([table.corner, *table.columns], rows)}\n\nRuns: {'; '.join(shown)}."


def _place(where: str, row: str, column: str) -> str:
    return f"{where}, row '{row}', column '{column}'"


def _reason(verdict: Judged) -> str:
    number = verdict.finding.decides
    if number is None:
        return _cell(verdict.finding.why)
    low, high = (None if bound is None else stable(bound) for bound in (number["low"], number["high"]))
    estimate = interval(stable(number["estimate"]), low, high)
    claimed = span(number["claimed_low"], number["claimed_high"])
    seen = f"{_cell(number['what'])} ({_cell(number['experiment'])}): {estimate}; claimed {claimed}"
    if any(check.ground == "small machine" for check in verdict.finding.checks):
        return f"needs {several(verdict.claim.reach, 'hardware thread')}; so far {seen}"
    return seen


def _cell(text: object) -> str:
    """Text of the claims or of a run for a cell: a bar would end the cell, and a tag or a comment would hide text."""
    return one_line(text).replace("|", "&#124;").replace("<", "&lt;")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
