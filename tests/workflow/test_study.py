"""Snakemake runs a real tiny study from scratch to the report, and does no more than necessary."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import subprocess
import xml.etree.ElementTree as ET
from copy import deepcopy
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, TINY, Checkout, Tmflow
from tmflow.runfile import record

pytestmark = pytest.mark.slow

NOTEBOOK = "your_own_run.ipynb"  # one is enough to test the rule: other tests execute all notebooks
TWO = deepcopy(TINY)
TWO["experiments"]["tiny"] |= {"rounds": 1, "rounds_at_most": 2}  # one round has no interval, so another one is added
TWO["experiments"]["other"] = {
    "question": "Does the other run?",
    "factors": {"model": "mnist_softmax", "batch": 10, "iterations": 30, "threads": [1]},
}
TWO["experiments"]["drawn"] = {
    "question": "What does the other look like without locks?",
    "runs_of": "other",
    "only": {"strategy": "nolock"},
    "shows": ["accuracy"],
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, tmflow: Tmflow, checkout_at: type[Checkout]) -> Checkout:
    checkout = checkout_at(tmp_path_factory.mktemp("study") / "checkout", TWO)
    (checkout.root / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, checkout.root / "notebooks")
    done = tmflow("study", "run", **checkout.variables)
    assert done.returncode == 0, done.stderr
    assert "make portal" in done.stdout
    assert done.stdout.count("one more round of") == 1
    assert "one more round of tiny (2)." in done.stdout
    assert re.search(r"^measured: .*\d+ untested here", done.stdout, re.MULTILINE), "it ends with the claims"
    return checkout


def query(study: Checkout, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(study.results / "study.db") as connection:
        return connection.execute(sql).fetchall()


def test_every_trial_is_stored_exactly_once(study: Checkout) -> None:
    lines = [run for path in study.results.glob("runs/full/*/*/round-*.jsonl") for run in record.read(path)]
    assert len(lines) == 2 * (4 + 2)
    assert {run.status for run in lines} == {"ok"}
    assert {run.spec.dataset for run in lines} == {"digits"}
    stored = query(study, "SELECT uid FROM run")
    assert sorted(uid for (uid,) in stored) == sorted(run.uid for run in lines)


def test_rounds_are_shuffled_by_their_seed_and_share_a_campaign(study: Checkout) -> None:
    rounds = [list(record.read(path)) for path in sorted(study.results.glob("runs/full/tiny/*/round-*.jsonl"))]
    assert len({run.campaign.uid for runs in rounds for run in runs}) == 1
    assert len({runs[0].order_seed for runs in rounds}) == len(rounds)
    assert [run.trial_seed for run in rounds[1]] == [8] * 4


def test_a_round_is_added_where_an_interval_is_too_wide_and_none_beyond_the_cap(study: Checkout) -> None:
    """And no round of the experiment that has reached its limit, although its intervals are wide."""
    for experiment in ("tiny", "other"):
        assert len(list(study.results.glob(f"runs/full/{experiment}/*/round-*.jsonl"))) == 2
    campaign = json.loads((study.results / "runs" / "full" / "campaign.json").read_text())
    assert list(campaign["rounds"].values()) == [2]
    assert campaign["finished"]
    log = (study.results / "logs" / "snakemake.log").read_text()
    assert log.count("Building DAG of jobs") == 3, "the rounds, one more, and the drawing: all calls are kept"


def test_figures_open_and_say_what_they_show(study: Checkout) -> None:
    folder = study.results / "figures" / "tiny"
    index = json.loads((folder / "figures.json").read_text())
    assert {figure["kind"] for figure in index["figures"]} >= {"speedup", "step_time", "accuracy", "staleness"}
    for figure in index["figures"]:
        for name in figure["files"]:
            assert (folder / name).stat().st_size > 100, name
    text = "".join(ET.parse(folder / "speedup.svg").getroot().itertext())
    for word in ("digits", "measured", "2 rounds"):
        assert word in text
    assert (folder / "speedup.png").read_bytes().startswith(b"\x89PNG")


def test_report_and_table(study: Checkout) -> None:
    report = (study.results / "report.html").read_text()
    index = json.loads((study.results / "figures" / "tiny" / "figures.json").read_text())
    assert all(escape(figure["title"]) in report for figure in index["figures"])
    assert "Does the other run?" in report
    assert (
        report.index("Summary</h2>")
        < report.index("Which findings of the study hold")
        < report.index("Figures and tables")
    )
    table = (study.results / "tables" / "tiny.html").read_text()
    assert "Does it run?" in table
    assert "nolock" in table


def test_notebooks_are_executed(study: Checkout) -> None:
    cells = json.loads((study.results / "notebooks" / NOTEBOOK).read_text())["cells"]
    assert all(cell["outputs"] for cell in cells if cell["cell_type"] == "code")


def test_status_and_plan(study: Checkout, tmflow: Tmflow) -> None:
    state = json.loads(tmflow("study", "status", "--json", **study.variables).stdout)
    assert (state["trials_planned"], state["trials_ok"], state["trials_failed"], state["trials_unsupported"]) == (
        12, 12, 0, 0,
    )  # fmt: skip
    assert 0 < state["timed_s"] < state["wall_s"]
    assert 0 < state["warm_up_s"] < state["wall_s"]
    left = state["wall_s"] - state["timed_s"] - state["warm_up_s"]
    assert state["overhead_fraction"] == pytest.approx(left / state["wall_s"], abs=0.001)
    plan = json.loads(tmflow("study", "plan", "--json", **study.variables).stdout)
    assert [(row["id"], row["trials"], row["runs_of"]) for row in plan] == [
        ("tiny", 8, None), ("other", 4, None), ("drawn", 0, "other"),
    ]  # fmt: skip
    assert all(row["estimated_s"] > 0 for row in plan)


def test_an_experiment_draws_on_the_runs_of_another(study: Checkout) -> None:
    index = json.loads((study.results / "figures" / "drawn" / "figures.json").read_text())
    assert {figure["kind"] for figure in index["figures"]} == {"accuracy"}
    (drawn,) = (study.results / "figures" / "drawn").glob("*.csv")
    assert {row["strategy"] for row in csv.DictReader(drawn.open())} == {"nolock"}
    table = (study.results / "tables" / "drawn.html").read_text()
    assert "What does the other look like without locks?" in table
    assert "<td>nolock</td>" in table
    assert "<td>tf_lock</td>" not in table
    assert not list(study.results.glob("runs/full/drawn"))
    assert query(study, "SELECT count(*) FROM experiment WHERE name = 'drawn'") == [(0,)]


def uids(study: Checkout, scale: str = "full") -> set[str]:
    return {run.uid for path in study.results.glob(f"runs/{scale}/*/*/round-*.jsonl") for run in record.read(path)}


@pytest.mark.deep
def test_what_is_measured_stays_measured(study: Checkout, tmflow: Tmflow) -> None:
    """Neither a forced rule nor a changed source nor a lost database repeats a round or loses the measured costs."""
    before, cost = uids(study), tmflow("study", "status", "--json", **study.variables).stdout
    (study.results / "study.db").unlink()
    with (study.root / "native_ops" / "include" / "tmflow" / "kernel.hpp").open("a") as source:
        source.write("// changed\n")
    done = tmflow("study", "run", "--forcerun", "round", python=study.python, **study.variables)
    assert done.returncode == 0, done.stderr
    assert uids(study) == before
    assert {uid for (uid,) in query(study, "SELECT uid FROM run")} == before
    assert tmflow("study", "status", "--json", **study.variables).stdout == cost


@pytest.mark.deep
def test_fresh_measures_anew_and_keeps_what_was(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    """Also: a point that cannot run is a result; the study continues, and figures and tables say so."""
    config = deepcopy(TINY)
    config["rounds"] = 1
    config["defaults"] |= {"driver": "native", "strategy": ["lock", "nolock"], "threads": [1]}
    config["experiments"]["too-large"] = {
        "question": "Does a batch larger than the training set run?",
        "factors": {"model": "mnist_softmax", "batch": 2000, "iterations": 10},
    }
    checkout = checkout_at(tmp_path / "checkout", config)
    campaigns = []
    for arguments in ((), ("--fresh",)):
        done = tmflow("study", "run", *arguments, **checkout.variables)
        assert done.returncode == 0, done.stderr
        state = json.loads(tmflow("study", "status", "--json", **checkout.variables).stdout)
        assert (state["trials_ok"], state["trials_unsupported"]) == (2, 2)
        campaigns.append(state["campaign"])
    assert len(set(campaigns)) == 2
    assert query(checkout, "SELECT count(*), count(DISTINCT uid) FROM run") == [(8, 8)]
    assert list(checkout.results.glob(f"runs/archive/full-{campaigns[0][:8]}/tiny/*/round-001.jsonl"))
    assert "does not fit a training set" in (checkout.results / "tables" / "too-large.html").read_text()
    assert "does not fit" in (checkout.results / "figures" / "too-large" / "figures.json").read_text()


def test_config_changed_under_a_running_study(study: Checkout, tmflow: Tmflow) -> None:
    done = tmflow("step", "round", "tiny", "0123456789ab", "1", **study.variables)
    assert done.returncode == 2
    assert "config.yaml changed 'tiny' while the study was running" in done.stderr


def planned(study: Checkout, tmflow: Tmflow) -> str:
    done = tmflow("study", "run", "--dry-run", **study.variables)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_rerun_does_nothing(study: Checkout, tmflow: Tmflow) -> None:
    assert "Nothing to be done" in planned(study, tmflow)


def test_a_changed_factor_reruns_only_what_depends_on_it(study: Checkout, tmflow: Tmflow) -> None:
    changed = deepcopy(TWO)
    changed["experiments"]["other"]["factors"]["batch"] = 11
    study.configure(changed)
    try:
        text = planned(study, tmflow)
    finally:
        study.configure(TWO)
    assert set(re.findall(r"wildcards: experiment=([\w-]+)", text)) == {"other", "drawn"}
    assert len(re.findall(r"rule round:", text)) == 2
    assert not re.search(r"rule (build|data|probe_platform):", text)


def test_another_choice_of_what_to_show_is_drawn_anew_and_nothing_else(study: Checkout, tmflow: Tmflow) -> None:
    changed = deepcopy(TWO)
    changed["experiments"]["drawn"]["shows"] = ["accuracy", "step_time"]
    study.configure(changed)
    try:
        text = planned(study, tmflow)
    finally:
        study.configure(TWO)
    assert set(re.findall(r"^rule (\w+):", text, re.MULTILINE)) == {"all", "figures", "report"}
    assert set(re.findall(r"wildcards: experiment=([\w-]+)", text)) == {"drawn"}


def test_lint_finds_nothing_and_every_rule_has_a_log(tmflow: Tmflow) -> None:
    done = tmflow("study", "lint", TMFLOW_ROOT=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        text = path.read_text()
        assert len(re.findall(r"^rule \w+:", text, re.MULTILINE)) == len(re.findall(r"^    log:", text, re.MULTILINE))
        assert len(text.splitlines()) < 150


def test_plain_snakemake_names_a_misspelt_key(study: Checkout) -> None:
    broken = {**TWO, "ruonds": 3}
    study.configure(broken)
    try:
        command = [str(Path(ROOT, ".venv/bin/snakemake")), "--dry-run"]
        done = subprocess.run(command, cwd=study.root, capture_output=True, text=True, check=False, timeout=120)
    finally:
        study.configure(TWO)
    assert done.returncode != 0
    assert "unknown key 'ruonds' (did you mean 'rounds'?)" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
