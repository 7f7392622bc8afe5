"""Steps: the notation of configurations, results of runs, and the targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.benchmark.comparison import check_step_targets
from tmflow.benchmark.markdown import render, report_steps
from tmflow.benchmark.steps import OF_THE_TARGETS, StepSubject, check, parse_step, summarised
from tmflow.benchmark.storage import SavedSteps, read_benchmark, write_benchmark
from tmflow.benchmark.text import format_table
from tmflow.runfile.record import Run
from tmflow.spec.trial import TrialSpec


def ran(spec: TrialSpec, us: float, accuracy: float = 0.9) -> Run:
    """A run of `spec` whose steps took `us` each."""
    (run,) = sample_runs(strategies=("lock",), threads=(1,), rounds=1)
    changes = {"spec": spec, "loop_s": us * spec.iterations / 1e6, "final_accuracy": accuracy}
    return run.model_copy(update=changes)


def refused(spec: TrialSpec) -> Run:
    (run,) = sample_runs(strategies=("htm",), threads=(1,), rounds=1, unsupported=("htm",))
    return run.model_copy(update={"spec": spec})


def benchmark(times: dict[str, tuple[float, ...]], *without: StepSubject) -> SavedSteps:
    """Named configurations with the times of their steps by round, and some that did not run."""
    subjects = [parse_step(f"{name}: threads={number}", "digits") for number, name in enumerate(times, 1)]
    rounds = len(next(iter(times.values())))
    by_round = [
        {s.spec.sha256: ran(s.spec, times[s.name][number]) for s in subjects}
        | {s.spec.sha256: refused(s.spec) for s in without}
        for number in range(rounds)
    ]
    return summarised([*subjects, *without], by_round, subjects[0].name)


def test_a_configuration_is_its_factors_and_maybe_a_name() -> None:
    plain = parse_step("strategy=nolock threads=2", "digits")
    assert (plain.name, plain.spec.strategy, plain.spec.threads, plain.spec.batch) == (
        "strategy=nolock threads=2", "nolock", 2, 1
    )  # fmt: skip
    named = parse_step("mine : model=mnist_deep strategy=lock learning_rate=0.1", "digits")
    assert (named.name, named.spec.learning_rate, named.spec.dropout_keep) == ("mine", 0.1, 0.5)
    assert named.spec.dataset == "digits"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("strategy", "'strategy' is not of the form factor=value"),
        ("threads=", "'threads=' is not of the form factor=value"),
        ("threads=1 threads=2", "has the factor 'threads' twice"),
        ("strategy=lok", r"unknown strategy in --step 'strategy=lok': 'lok' \(did you mean 'lock'\?\)"),
        ("thread=1", r"unknown key 'thread' \(did you mean 'threads'\?\)"),
        ("threads=0", "threads is 0, but"),
        ("dataset=mnist", "the dataset is that of all steps"),
    ],
)
def test_a_configuration_that_cannot_be_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_step(text, "digits")


def test_what_cannot_be_compared_is_refused() -> None:
    one, same = parse_step("a: threads=1", "digits"), parse_step("b: threads=1", "digits")
    with pytest.raises(BadInput, match="'b' and 'a' are the same configuration"):
        check([one, same], 8, None)
    with pytest.raises(BadInput, match="needs a configuration"):
        check([], 8, None)
    with pytest.raises(BadInput, match="unknown reference 'c'; valid: a"):
        check([one], 8, "c")
    emulated = parse_step("e: strategy=htm provider=emulated profile=intel-tsx-study", "digits")
    with pytest.raises(BadInput, match="'e' has emulated transactions"):
        check([emulated], 8, None)
    with pytest.raises(BadInput, match="rounds is 0"):
        check([one], 0, None)


def test_every_configuration_of_the_targets_can_be() -> None:
    check([parse_step(text, "digits") for text in OF_THE_TARGETS], 8, "deep, stock")


def test_times_are_paired_round_by_round() -> None:
    out = parse_step("out: strategy=nolock", "digits")
    found = benchmark({"a": (100.0, 400.0), "b": (50.0, 200.0)}, out)
    a, b = found.rows
    assert (a.us_per_step, b.us_per_step) == pytest.approx((200, 100))
    assert (b.ratio_to, b.ratio, b.ratio_low, b.ratio_high) == ("a", *(pytest.approx(0.5),) * 3)
    assert a.us_high is not None
    assert a.us_high > 400
    assert (a.accuracy, a.consistency, a.rounds) == (pytest.approx(0.9), "tensor", 2)
    assert [(one.name, one.failed) for one in found.left_out] == [("out", False)]
    text = format_table(found)
    assert "out cannot run here: htm needs hardware" in text
    assert " ".join(text.splitlines()[5].split()).startswith("b 100 [")


@pytest.mark.parametrize(("native", "says"), [(4.0, "met"), (6.0, "missed")])
def test_targets(native: float, says: str) -> None:
    found = benchmark(
        {
            "softmax, session": (100.0, 110.0),
            "softmax, native": (native, native * 1.1),
            "softmax, fused native": (0.4, 0.41),
            "softmax, fused native, 2 workers": (0.8, 0.83),
            "MLP, native": (100.0, 200.0),
            "MLP, fused native": (50.0, 52.0),
            "MLP, fused striped, 2 workers": (40.0, 41.0),
            "MLP, fused combining, 2 workers": (25.0, 26.0),
            "MLP of one image, native": (20.0, 21.0),
            "MLP of one image, fused native": (8.0, 8.1),
            "deep, stock": (3000.0, 4000.0),
            "deep, fused lock": (1600.0, 2000.0),
            "deep, fused striped": (1200.0, 1600.0),
            "deep, lock": (2500.0, 3000.0),
        }
    )
    checked = {one.what: one for one in check_step_targets(found)}
    assert checked["softmax, native"].verdict == says
    assert checked["MLP, native"].verdict == "undecided"
    assert checked["softmax, fused native"].verdict == "met"
    assert checked["softmax, fused native, 2 workers"].verdict == "missed"
    assert checked["MLP of one image, fused native"].verdict == "met"
    assert checked["MLP, fused combining, 2 workers"].verdict == "met"
    assert list(checked) == [
        "softmax, native",
        "softmax, fused native",
        "MLP, native",
        "softmax, fused native, 2 workers",
        "MLP of one image, fused native",
        "MLP, fused combining, 2 workers",
        "deep, fused striped",
        "deep, lock",
    ]
    assert checked["deep, fused striped"].measured.estimate == pytest.approx(0.4, rel=1e-2)


def test_the_file_gives_the_same_report(tmp_path: Path) -> None:
    found = benchmark({"a": (100.0, 400.0), "b": (50.0, 200.0)})
    write_benchmark(tmp_path / "steps.json", found)
    again = read_benchmark(tmp_path / "steps.json")
    assert again == found
    assert render(again, "steps") == (report_steps(found), {})
    assert "| b | 100 [" in report_steps(found)
