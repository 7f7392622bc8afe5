"""Contributions are separate sources: invented runs change nothing that was measured here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import URL, Engine

from tests.support.forged import CLAIM, EXPERIMENT, MACHINE, contribute, forged_runs, local_runs, store
from tmflow.analysis import summaries
from tmflow.analysis.comparison import Sides
from tmflow.charts.figures import DRAWINGS
from tmflow.claims.origins import verdicts
from tmflow.claims.render import heading
from tmflow.contributions.importer import withdraw
from tmflow.platform.facts import is_local, platform_sha256
from tmflow.reports.answers import ask
from tmflow.store import (
    engine,
    platform_queries,
    queries,
    run_detail,
    schema,
)
from tmflow.store import (
    platform_queries as circumstances,
)
from tmflow.store.run_filter import RESULTS, RunFilter

ASKED: dict[str, Callable[[Engine], Any]] = {
    **{
        f"table {name}": lambda reader, read=read: read(
            reader, replace(RESULTS, experiments=[EXPERIMENT], scales=["full"], platforms=[MACHINE])
        )
        for name, read in queries.TABLES.items()
    },
    "counts": lambda reader: of_machine(queries.counts(reader)),
    "definition": lambda reader: queries.definition(reader, EXPERIMENT, "full", [MACHINE]),
    "search": lambda reader: queries.page(reader, RunFilter(platforms=(MACHINE,))),
    "tally": lambda reader: queries.tally(reader, RunFilter(platforms=(MACHINE,))),
    "platforms": lambda reader: of_machine(platform_queries.platforms(reader)),
    "settings": lambda reader: platform_queries.environments(reader, MACHINE),
    "newest runs": lambda reader: platform_queries.newest_runs(reader, MACHINE),
    "figures": lambda reader: [
        DRAWINGS[kind].summarise(
            queries.records(reader, replace(RESULTS, experiments=[EXPERIMENT], platforms=[MACHINE]))
        )
        for kind in ("speedup", "speedup_vs_tf_lock", "step_time", "accuracy")
    ],
    "verdicts": lambda reader: [
        [judged.id, judged.evidence, judged.finding.verdict, judged.finding.why, judged.finding.numbers, judged.machine]
        for judged in verdicts(reader, platform=MACHINE)
    ],
    "verdicts of all": lambda reader: [
        [judged.id, judged.evidence, judged.finding.verdict, judged.finding.why, judged.finding.numbers, judged.machine]
        for judged in verdicts(reader)
        if judged.machine is not None
    ],
    "answers": lambda reader: [
        (judged.short, judged.sentences, judged.rests_on) for judged in ask(reader, MACHINE, "", {})
    ],
}


def of_machine(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["platform"] == MACHINE]


def all_answers(reader: Engine) -> dict[str, str]:
    """The values as text, so that every difference shows."""
    return {name: _text(ask_(reader)) for name, ask_ in ASKED.items()}


def _text(answer: Any) -> str:
    if isinstance(answer, list):
        return "\n".join(map(_text, answer))
    return answer.to_csv(index=False) if isinstance(answer, pd.DataFrame) else str(answer)


def verdicts_by(reader: Engine, platform: str, **how: bool) -> dict[str, str]:
    return {judged.id: judged.finding.verdict for judged in verdicts(reader, "measured", platform, **how)}


@pytest.mark.deep
def test_invented_runs_change_nothing_that_was_measured_here(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    reader = engine.open_reader(url)
    before = all_answers(reader)
    assert "holds here" in before["verdicts"]
    contribute(url, tmp_path / "forged", forged_runs())
    assert all_answers(reader) == before
    contribute(url, tmp_path / "again", forged_runs(campaign="another", day=60), "other.zip")
    assert all_answers(reader) == before
    assert schema.check(url).ok


def test_a_newer_definition_of_a_contribution_hides_nobodys_runs(url: URL, tmp_path: Path) -> None:
    store(url, tmp_path / "local", local_runs())
    reader = engine.open_reader(url)
    before = all_answers(reader)
    key = contribute(url, tmp_path / "forged", forged_runs(batch=50))
    assert all_answers(reader) == before
    both = queries.runs(reader, replace(RESULTS, experiments=[EXPERIMENT]))
    assert both.groupby("platform")["definition_sha256"].nunique().to_dict() == {MACHINE: 1, key: 1}
    joined = queries.runs(reader, replace(RESULTS, experiments=[EXPERIMENT], joined=True))
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
    assert joined[CLAIM] != "holds here"
    text = heading(reader, MACHINE, joined=True)
    assert f"joined with 1 contribution: stranger.zip ({key})" in text
    assert "judged separately: " + key in heading(reader, MACHINE)
    assert "contributed as stranger.zip" in heading(reader, key)


def test_the_same_campaign_and_round_are_no_way_in(url: URL, tmp_path: Path) -> None:
    """Runs of missing points, claimed for a round of another contribution: the two are not paired."""
    first = [run for run in local_runs() if run.spec.strategy == "tf_lock"]
    before = contribute(url, tmp_path / "first", first, "first.zip")
    reader = engine.open_reader(url)
    its_table = queries.runs(reader, replace(RESULTS, experiments=[EXPERIMENT], platforms=[before]))
    claimed = [run for run in forged_runs(6, campaign="campaign-1", day=0) if run.spec.strategy == "tf_nolock"]
    key = contribute(url, tmp_path / "forged", claimed)
    pd.testing.assert_frame_equal(
        queries.runs(reader, replace(RESULTS, experiments=[EXPERIMENT], platforms=[before])), its_table
    )
    runs = queries.runs(reader, replace(RESULTS, experiments=[EXPERIMENT]))
    assert set(runs["campaign_uid"]) == {"campaign-1"}
    assert set(runs["platform"]) == {before, key}
    of_stranger = summaries.speedup(runs, "tf_lock").query("platform == @key")
    assert of_stranger["estimate"].isna().all()
    sides = Sides(*(runs[runs["platform"] == judged].assign(software_sha256="") for judged in (before, key)))
    assert not sides.paired
    uid = claimed[1].uid
    assert {judged for judged in queries.neighbours(reader, uid) if judged} <= {run.uid for run in claimed}
    assert run_detail.run(reader, uid)["stored"]["platform"] == key


def test_no_contribution_speaks_where_local_runs_leave_a_claim_untested(url: URL, tmp_path: Path) -> None:
    """Not even as the only source: its verdict is shown separately."""
    store(url, tmp_path / "local", [run for run in local_runs() if run.spec.strategy == "tf_lock"])
    contribute(url, tmp_path / "forged", forged_runs())
    (judged,) = verdicts(engine.open_reader(url), "measured", claims=[CLAIM])
    assert (judged.finding.verdict, list(judged.elsewhere.values())) == ("untested here", ["does not hold here"])


def test_a_contribution_is_a_platform_by_its_key(url: URL, tmp_path: Path) -> None:
    key = contribute(url, tmp_path / "forged", forged_runs())
    reader = engine.open_reader(url)
    assert not is_local(key)
    assert set(queries.counts(reader)["platform"]) == {key}
    assert circumstances.platform_facts(reader, [key])[key]["cores_physical"] == 4
    facts_sha256 = platform_sha256(forged_runs()[0].platform)
    assert platform_queries.keys_of_platform(reader, facts_sha256) == [key]
    assert platform_queries.local_platform(reader, facts_sha256) is None
    assert platform_queries.keys_of_platform(reader, "0" * 64) == []
    assert len(queries.runs(reader, replace(RESULTS, platforms=[key]))) == len(forged_runs())
    assert queries.runs(reader, replace(RESULTS, platforms=[MACHINE])).empty
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
    assert queries.runs(reader, replace(RESULTS, platforms=[f"{MACHINE}@{identity[:digits]}"])).empty
    assert queries.page(reader, RunFilter(platforms=(f"{MACHINE}@{identity[:digits]}",))).empty
