"""Contributions are sources of their own: what a stranger invents changes nothing that was measured here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import URL, Engine

from tests.support.forged import CLAIM, EXPERIMENT, MACHINE, contribute, forged_runs, local_runs, store
from tmflow.analysis import summaries
from tmflow.analysis.pairwise import Sides
from tmflow.charts.figures import DRAWINGS
from tmflow.claims.heading import heading
from tmflow.claims.judge import verdicts
from tmflow.contributions.importer import withdraw
from tmflow.platform.key import is_local
from tmflow.reports.answers import ask
from tmflow.store import (
    engine,
    platform_queries,
    queries,
    run_detail,
    schema,
    search,
)
from tmflow.store import (
    platform_queries as circumstances,
)
from tmflow.store.search import RunFilter

ASKED: dict[str, Callable[[Engine], Any]] = {
    **{
        f"table {name}": lambda reader, read=read: read(
            reader, experiment=EXPERIMENT, scale="full", platforms=[MACHINE]
        )
        for name, read in queries.TABLES.items()
    },
    "counts": lambda reader: of_machine(queries.counts(reader)),
    "definition": lambda reader: queries.definition(reader, EXPERIMENT, "full", [MACHINE]),
    "search": lambda reader: search.page(reader, RunFilter(platforms=(MACHINE,))),
    "tally": lambda reader: search.tally(reader, RunFilter(platforms=(MACHINE,))),
    "platforms": lambda reader: of_machine(platform_queries.platforms(reader)),
    "settings": lambda reader: platform_queries.environments(reader, MACHINE),
    "newest runs": lambda reader: platform_queries.newest_runs(reader, MACHINE),
    "figures": lambda reader: [
        DRAWINGS[kind].summarise(queries.records(reader, experiment=EXPERIMENT, platforms=[MACHINE]))
        for kind in ("speedup", "speedup_vs_tf_lock", "step_time", "accuracy")
    ],
    "verdicts": lambda reader: [
        [its.id, its.evidence, its.finding.verdict, its.finding.why, its.finding.numbers, its.machine]
        for its in verdicts(reader, platform=MACHINE)
    ],
    "verdicts of all": lambda reader: [
        [its.id, its.evidence, its.finding.verdict, its.finding.why, its.finding.numbers, its.machine]
        for its in verdicts(reader)
        if its.machine is not None
    ],
    "answers": lambda reader: [(its.short, its.sentences, its.rests_on) for its in ask(reader, MACHINE, "", {})],
}


def of_machine(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["platform"] == MACHINE]


def told(reader: Engine) -> dict[str, str]:
    """As text, so that whatever differs is seen."""
    return {name: _text(ask_(reader)) for name, ask_ in ASKED.items()}


def _text(answer: Any) -> str:
    if isinstance(answer, list):
        return "\n".join(map(_text, answer))
    return answer.to_csv(index=False) if isinstance(answer, pd.DataFrame) else str(answer)


def verdicts_by(reader: Engine, platform: str, **how: bool) -> dict[str, str]:
    return {its.id: its.finding.verdict for its in verdicts(reader, "measured", platform, **how)}


def test_invented_runs_change_nothing_that_was_measured_here(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    reader = engine.open_reader(url)
    before = told(reader)
    assert "reproduced" in before["verdicts"]
    contribute(url, tmp_path / "forged", forged_runs())
    assert told(reader) == before
    contribute(url, tmp_path / "again", forged_runs(campaign="another", day=60), "other.zip")
    assert told(reader) == before
    assert schema.check(url).ok


def test_a_newer_definition_of_a_contribution_hides_nobodys_runs(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    reader = engine.open_reader(url)
    before = told(reader)
    key = contribute(url, tmp_path / "forged", forged_runs(batch=50))
    assert told(reader) == before
    both = queries.runs(reader, experiment=EXPERIMENT)
    assert both.groupby("platform")["definition_sha256"].nunique().to_dict() == {MACHINE: 1, key: 1}
    joined = queries.runs(reader, experiment=EXPERIMENT, joined=True)
    assert set(joined["definition_sha256"]) == set(both["definition_sha256"])


def test_each_contribution_is_judged_by_itself_and_all_together_only_if_asked(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    key = contribute(url, tmp_path / "forged", forged_runs())
    reader = engine.open_reader(url)
    apart, others, joined = (
        verdicts_by(reader, MACHINE),
        verdicts_by(reader, key),
        verdicts_by(reader, MACHINE, joined=True),
    )
    flipped = {name for name in apart if apart[name] != others[name]}
    assert CLAIM in flipped
    assert joined[CLAIM] != "reproduced"
    text = heading(reader, MACHINE, joined=True)
    assert f"joined with 1 contribution: stranger.zip ({key})" in text
    assert "judged separately: " + key in heading(reader, MACHINE)
    assert "contributed as stranger.zip" in heading(reader, key)


def test_the_same_campaign_and_round_are_no_way_in(url: URL, tmp_path: Path) -> None:
    """Runs of points that are missing, claimed for a round of another contribution: no pair is made of the two."""
    first = [run for run in local_runs() if run.spec.strategy == "tf_lock"]
    before = contribute(url, tmp_path / "first", first, "first.zip")
    reader = engine.open_reader(url)
    its_table = queries.runs(reader, experiment=EXPERIMENT, platforms=[before])
    claimed = [run for run in forged_runs(6, campaign="campaign-1", day=0) if run.spec.strategy == "tf_nolock"]
    key = contribute(url, tmp_path / "forged", claimed)
    pd.testing.assert_frame_equal(queries.runs(reader, experiment=EXPERIMENT, platforms=[before]), its_table)
    runs = queries.runs(reader, experiment=EXPERIMENT)
    assert set(runs["campaign_uid"]) == {"campaign-1"}
    assert set(runs["platform"]) == {before, key}
    of_stranger = summaries.speedup(runs, "tf_lock").query("platform == @key")
    assert of_stranger["estimate"].isna().all()
    sides = Sides(*(runs[runs["platform"] == its].assign(software_sha256="") for its in (before, key)))
    assert not sides.paired
    uid = claimed[1].uid
    assert {its for its in search.neighbours(reader, uid) if its} <= {run.uid for run in claimed}
    assert run_detail.run(reader, uid)["stored"]["platform"] == key


def test_no_contribution_speaks_where_local_runs_leave_a_claim_untested(url: URL, tmp_path: Path) -> None:
    """Nor where it would be the only one to say something: its verdict stands beside."""
    store(url, tmp_path / "local", [run for run in local_runs() if run.spec.strategy == "tf_lock"])
    contribute(url, tmp_path / "forged", forged_runs())
    (its,) = verdicts(engine.open_reader(url), "measured", claims=[CLAIM])
    assert (its.finding.verdict, list(its.elsewhere.values())) == ("untested", ["contradicted"])


def test_a_contribution_is_a_platform_by_its_key(url: URL, tmp_path: Path) -> None:
    key = contribute(url, tmp_path / "forged", forged_runs())
    reader = engine.open_reader(url)
    assert not is_local(key)
    assert set(queries.counts(reader)["platform"]) == {key}
    assert circumstances.platform_facts(reader, [key])[key]["cores_physical"] == 4
    assert platform_queries.local_platform(reader, "0" * 64) is None
    assert len(queries.runs(reader, platforms=[key])) == len(forged_runs())
    assert queries.runs(reader, platforms=[MACHINE]).empty
    (row,) = platform_queries.contributions_to(reader, MACHINE).to_dict("records")
    assert (row["platform"], row["name"], row["n_runs"]) == (key, "stranger.zip", len(forged_runs()))
    assert platform_queries.newest_probe(reader, key) is not None
    assert platform_queries.newest_probe(reader, MACHINE) is None
    withdraw(url, row["identity"], "invented")
    assert platform_queries.contributions_to(reader, MACHINE).empty


@pytest.mark.parametrize("digits", [15, 64])
def test_a_key_names_a_contribution_by_all_of_its_digits_alone(url: URL, tmp_path: Path, digits: int) -> None:
    contribute(url, tmp_path / "forged", forged_runs())
    reader = engine.open_reader(url)
    (identity,) = platform_queries.contributions_to(reader, MACHINE)["identity"]
    assert queries.runs(reader, platforms=[f"{MACHINE}@{identity[:digits]}"]).empty
    assert search.page(reader, RunFilter(platforms=(f"{MACHINE}@{identity[:digits]}",))).empty
