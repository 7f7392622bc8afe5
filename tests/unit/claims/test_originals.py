"""data/figures.yaml has every figure of the study and every source of a claim, and refuses what it does not know."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tmflow.base.documents import read_yaml
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.charts.marks import Published
from tmflow.claims.originals import (
    CONCLUSIONS,
    KINDS_OF_CAPTIONS,
    check_originals,
    experiment_of,
    load_originals,
)
from tmflow.claims.schema import load_claims
from tmflow.study.config import load_study

ORIGINALS = load_originals()
FILE = project_root() / "data" / "figures.yaml"


# The study's list of figures: caption, platform, model, batch, pixels, and what distinguishes STM and TLE.
CAPTIONS = {
    "4.1": ("Speedup", "TSX", "mnist_softmax", 100, 784, None),
    "4.2": ("Commits", "TSX", "mnist_softmax", 100, 784, None),
    "4.3": ("Conflicts", "TSX", "mnist_softmax", 100, 784, None),
    "4.4": ("Conflicts", "TSX", "mnist_softmax", 100, 100, None),
    "4.5": ("Commits", "TSX", "mnist_softmax", 100, 100, None),
    "4.6": ("Speedup", "TSX", "mnist_softmax", 100, 100, None),
    "4.7": ("Speedup", "POWER8", "mnist_softmax", 1, 784, None),
    "4.8": ("Failures", "POWER8", "mnist_softmax", 1, 784, None),
    "4.9": ("Accuracy", "POWER8", "mnist_softmax", 1, 784, None),
    "4.10": ("Speedup", "TSX", "mnist_deep", 1, 784, None),
    "4.11": ("Speedup", "TSX", "mnist_deep", 15, 784, None),
    "4.12": ("Accuracy", "TSX", "mnist_deep", 1, 784, None),
    "4.13": ("STM", "TSX", "mnist_deep", 1, 784, "suicide"),
    "4.14": ("STM", "TSX", "mnist_deep", 5, 784, "suicide"),
    "4.15": ("STM", "TSX", "mnist_deep", 1, 784, "backoff"),
    "4.16": ("STM", "TSX", "mnist_deep", 5, 784, "backoff"),
    "4.17": ("Global TLE", "TSX", "mnist_deep", None, 784, "default"),
    "4.18": ("Global TLE", "TSX", "mnist_deep", None, 784, "custom"),
}


def test_every_figure_of_the_study_is_there_in_its_order_and_with_its_caption() -> None:
    assert list(ORIGINALS.figures) == list(CAPTIONS)
    for number, figure in ORIGINALS.figures.items():
        variant = figure.manager or figure.tunables
        assert CAPTIONS[number] == (
            figure.caption, figure.platform, figure.model, figure.batch, figure.matrix, variant
        )  # fmt: skip


def test_an_experiment_draws_what_the_figure_with_its_number_draws() -> None:
    study = load_study(project_root() / "config.yaml")
    for number, original in ORIGINALS.figures.items():
        experiment = study.experiments[experiment_of(number)]
        assert KINDS_OF_CAPTIONS[original.caption] in (experiment.shows or ()), number
        only = experiment.shown()["only"]
        assert only.get("manager", [None]) == [original.manager], number
        assert only.get("tunables", [None]) == [original.tunables], number


def test_what_the_text_leaves_open_is_marked_as_assumed() -> None:
    assert ORIGINALS.assumptions("4.1") == ["intra_op_threads", "inter_op_threads", "pinning"]
    assert ORIGINALS.assumptions("4.17")[:3] == ["batch", "iterations", "dropout_keep"]
    assert {n for n in CAPTIONS if "iterations" in ORIGINALS.assumptions(n)} == {f"4.{n}" for n in range(13, 19)}


def test_the_numbers_of_the_text_go_to_the_chart_that_shows_their_measure() -> None:
    published = ORIGINALS.published_by("fig-4.1")
    assert published("speedup") == [
        Published("near linear to 16", workers=16), Published("best about 25", value=25),
    ]  # fmt: skip
    assert published("accuracy") == ORIGINALS.published_by("crossover")("speedup") == []
    numbers = [number for figure in ORIGINALS.figures.values() for number in figure.numbers]
    assert {n.workers for n in numbers if n.workers} == {15, 16, 26, 34, 55}
    assert {n.value for n in numbers if n.value} == {25, 8, 0.5}


def test_the_study_is_cited_alike_everywhere() -> None:
    study = ORIGINALS.study
    thesis = read_yaml(project_root() / "CITATION.cff")["references"][0]
    (author,) = thesis["authors"]
    assert (f"{author['given-names']} {author['family-names']}", thesis["title"]) == (study.author, study.title)
    for page in ("README.md", "docs/concepts.md"):
        text = " ".join((project_root() / page).read_text().split())
        assert study.author in text, page
        assert f"*{study.title}*" in text, page


def test_every_source_of_a_claim_is_there_and_every_figure_has_a_claim() -> None:
    claims = load_claims().claims.values()
    assert {figure for claim in claims for figure in ORIGINALS.figures_of_claim(claim)} == set(ORIGINALS.figures)
    assert CONCLUSIONS in {claim.source for claim in claims}


def test_a_claim_of_another_report_is_about_no_figure_of_the_study() -> None:
    claim = load_claims().claims["distributed-one-worker"]
    assert ORIGINALS.figures_of_claim(claim) == []
    with pytest.raises(BadInput, match=r"^the source '"):
        ORIGINALS.figures_of(claim.source)


def test_an_experiment_repeats_every_figure_with_its_model_batch_and_pixels() -> None:
    study = load_study(project_root() / "config.yaml")
    for number, original in ORIGINALS.figures.items():
        name = experiment_of(number)
        only = study.experiments[name].shown()["only"]
        points = study.points(study.source(name), "full", "mnist")
        shown = [p for p in points if all(getattr(p, f) in (None, *values) for f, values in only.items())]
        assert {point.model for point in shown} == {original.model}, name
        assert {point.batch for point in shown} == {original.batch or 1}, name
        assert {point.matrix for point in shown} == {original.matrix}, name


@pytest.mark.parametrize(
    ("source", "figures"),
    [
        ("figure 4.2", ["4.2"]),
        ("figures 4.17 and 4.18", ["4.17", "4.18"]),
        ("figures 4.9 to 4.11", ["4.9", "4.10", "4.11"]),
        ("conclusions", []),
    ],
)
def test_a_source_names_its_figures(source: str, figures: list[str]) -> None:
    assert ORIGINALS.figures_of(source) == figures


@pytest.mark.parametrize("source", ["figure 4.19", "figures 4.1, 4.2", "page 3", "figure 4.1 to 4.3 and more", ""])
def test_a_source_that_names_neither_figures_nor_the_conclusions_is_refused(source: str) -> None:
    with pytest.raises(BadInput, match=r"^the source '"):
        ORIGINALS.figures_of(source)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("figures", "4.1", "colour"), "red", "unknown key 'figures.4.1.colour'"),
        (("figures", "4.1", "platform"), "RISC", "figures.4.1.platform is 'RISC'"),
        (("figures", "4.1", "batch"), 0, "figures.4.1.batch is 0"),
        (("figures", "4.1", "matrix"), "784", "figures.4.1.matrix is '784'"),
        (("figures", "4.1", "finding"), None, "figures.4.1.finding is None"),
        (("figures", "4.1", "caption"), "Speed", "figures.4.1.caption is 'Speed'"),
        (("figures", "4.1", "iterations"), None, "figures.4.1: iterations is either stated or listed in 'assumed'"),
        (("figures", "4.1", "assumed"), ["batch"], "figures.4.1: batch is either stated or listed in 'assumed'"),
        (("figures", "4.1", "assumed"), ["colour"], "factor in figures.yaml: figures.4.1.assumed: 'colour'"),
        (
            ("figures", "4.1", "numbers"),
            [{"words": "best about 25"}],
            "figures.4.1: each of the numbers has either workers",
        ),
        (("figures", "4.1", "numbers"), [{"words": "best of 0", "value": 0}], "figures.4.1.numbers.0.value is 0"),
        (("figures", "4.2", "numbers"), [{"words": "below 50", "value": 50}], "the value 50 of a number is beyond 1"),
        (
            ("figures", "4.3", "numbers"),
            [{"words": "most of it", "value": 0.9}],
            "4.3: numbers belong to figures",
        ),
        (("figures", "4.1", "manager"), "suicide", "figures.4.1: manager belongs to figures with the caption STM"),
        (("figures", "4.13", "manager"), None, "figures.4.13: manager is either stated or listed in 'assumed'"),
        (("figures", "4.1", "assumed"), ["pinning"], "figures.4.1: pinning is listed as assumed twice"),
        (("machines",), {"TSX": "one machine"}, "machines: POWER8 is missing, which figure 4.7 names"),
        (("assumed",), ["pining"], "'pining' (did you mean 'pinning'?)"),
        (("study", "title"), "", "study.title is ''"),
        (("figures", "four"), "x", "figures.four is 'x'"),
        (("conclusions",), "no", "conclusions is 'no'"),
    ],
)
def test_what_is_wrong_is_one_sentence(place: tuple[str, ...], value: Any, says: str) -> None:
    raw = copy.deepcopy(read_yaml(FILE))
    inside = raw
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    with pytest.raises(BadInput) as error:
        check_originals(raw)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_figure_without_a_number_is_refused() -> None:
    raw = read_yaml(FILE)
    raw["figures"]["first"] = raw["figures"]["4.1"]
    with pytest.raises(BadInput, match="figure 'first' should be a number"):
        check_originals(raw)
    with pytest.raises(BadInput, match="must be a mapping"):
        check_originals([])
