"""The experiments that a call of the study requests, by name or path, with suggestions for wrong names."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY
from tmflow.base.errors import BadInput
from tmflow.study.config import check_study
from tmflow.study.plan import Plan
from tmflow.workflow import run
from tmflow.workflow.request import RULES, Request, parse_request


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two experiments, and one that uses the runs of the first; quick leaves out the second."""
    config = deepcopy(TINY)
    factors = config["experiments"]["tiny"]["factors"]
    config["experiments"]["other-one"] = {"question": "?", "factors": factors, "quick": {"skip": True}}
    config["experiments"]["drawn"] = {"question": "?", "runs_of": "tiny", "shows": ["accuracy"]}
    return Plan(check_study(config), "full", tmp_path / "elsewhere")


def figures(plan: Plan, *names: str) -> list[str]:
    """The run files behind the experiments, which all use those of one, and the folders of their figures."""
    paths = [*plan.run_files("tiny"), *(plan.results / "figures" / name for name in names)]
    return [os.path.relpath(path, ROOT) for path in paths]


def test_without_words_it_is_the_whole_study(plan: Plan) -> None:
    request = parse_request(plan, [])
    assert request == Request()
    assert request.is_whole_study
    assert request.sources(plan) == ["tiny", "other-one", "drawn"]
    assert request.arguments(plan) == []


@pytest.mark.parametrize(
    "words",
    [
        ["drawn", "tiny"],
        ["results/figures/drawn", "results/figures/tiny/"],
        ["results/figures/drawn/accuracy.svg", "results/tables/tiny.html"],
        ["drawn", "drawn", "tiny"],
    ],
)
def test_experiments_by_name_or_by_a_path_of_theirs(plan: Plan, words: list[str]) -> None:
    request = parse_request(plan, words)
    assert (request.experiments, request.is_by_name) == (("drawn", "tiny"), True)
    assert request.sources(plan) == ["tiny"]
    assert request.arguments(plan) == figures(plan, "drawn", "tiny")


def test_a_path_in_a_results_folder_that_lies_elsewhere(plan: Plan) -> None:
    assert parse_request(plan, [str(plan.results / "figures" / "tiny")]).experiments == ("tiny",)
    report = parse_request(plan, ["results/report.html"])
    assert report.targets == (os.path.relpath(plan.results / "report.html", ROOT),)
    assert not report.is_whole_study
    assert report.sources(plan) == plan.experiments


def test_options_and_their_values_go_to_snakemake_after_the_targets(plan: Plan) -> None:
    request = parse_request(plan, ["--until", "round", "--dry-run", "tiny", "--cores=1", "results/figures/drawn"])
    assert request.options == ("--until", "round", "--dry-run", "--cores=1")
    assert request.is_dry_run
    assert request.arguments(plan) == [*figures(plan, "tiny", "drawn"), *request.options]
    value = parse_request(plan, ["--forcerun", "results/figures/tiny"])
    assert (value.experiments, value.options) == ((), ("--forcerun", "results/figures/tiny"))


def test_the_rules_that_are_targets(plan: Plan) -> None:
    assert parse_request(plan, ["report", "--forcerun", "build"]) == Request((), ("report",), ("--forcerun", "build"))
    text = "".join(path.read_text() for path in (ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")))
    rules = re.split(r"^rule (\w+):", text, flags=re.MULTILINE)[1:]
    bodies = dict(zip(rules[::2], rules[1::2], strict=True))
    assert {name for name, body in bodies.items() if "{" not in body.split("output:")[-1].split("log:")[0]} == set(
        RULES
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["drwan"], r"^unknown experiment 'drwan' \(did you mean 'drawn'\?\); valid: drawn, other-one, tiny\.$"),
        (["--dry-run", "results/figures/other"], r"^unknown experiment 'other' .*; valid: drawn, other-one, tiny\.$"),
        (["results/tables/tinny.html"], r"^unknown experiment 'tinny' \(did you mean 'tiny'\?\)"),
        (
            ["results/reprot.html"],
            r"^'results/reprot\.html' is nothing that the study makes; name an experiment \(tiny, ",
        ),
        (["/"], r"^'/' is nothing that the study makes"),
        (["/tmp/figures/tiny"], r"^'/tmp/figures/tiny' is nothing that the study makes"),
        ([""], r"^unknown experiment ''; valid"),
    ],
)
def test_what_the_study_does_not_make_is_one_sentence(plan: Plan, words: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_request(plan, words)


def test_fresh_is_for_the_whole_study(plan: Plan) -> None:
    """It sets all run files aside, which nobody wants who names an experiment."""
    with pytest.raises(
        BadInput, match=r"^--fresh measures the whole study again: name no experiment or file with it\.$"
    ):
        run.run(plan, ["tiny"], fresh=True)


def test_what_quick_leaves_out(plan: Plan) -> None:
    quick = Plan(plan.study, "quick", plan.results)
    with pytest.raises(BadInput, match=r"^config\.yaml leaves out experiment 'other-one' at scale quick"):
        parse_request(quick, ["other-one"])
