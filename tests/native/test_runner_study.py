"""The study embedded in the static program is that of config.yaml; its commands refuse wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from runner import Program
from variants import Variant, why_not

from tmflow.base.paths import project_root
from tmflow.benchmark.plan import parse_subjects, shuffled_turns
from tmflow.benchmark.storage import TimedVariant
from tmflow.datasets import mnist
from tmflow.native import registry
from tmflow.study import native_plan
from tmflow.study.config import SCALES, load_study

STUDY = load_study(project_root() / "config.yaml")


def test_the_committed_file_is_what_config_yaml_gives(tmp_path: Path) -> None:
    native_plan.write(STUDY, tmp_path / "study.jsonl")
    committed = project_root() / "data" / "native" / "study.jsonl"
    assert committed.read_text() == (tmp_path / "study.jsonl").read_text(), (
        f"run `tmflow study plan --native {committed.relative_to(project_root())}`"
    )


@pytest.mark.slow
def test_each_machine_has_the_points_that_python_gives_it(native_program: Program) -> None:
    for scale in SCALES:
        for processors in (*range(1, 13), 16, 31, 32, 33, 64, 128, 1024):
            printed = json.loads(
                native_program.run("plan", "--json", "--scale", scale, f"--processors={processors}").stdout
            )
            assert [one["id"] for one in printed] == [
                name for name in STUDY.at(scale) if native_plan.is_native(STUDY, name, scale)
            ]
            for one in printed:
                points = STUDY.points(one["id"], scale, "mnist", processors)
                assert one["specs"] == [point.sha256 for point in points]
                assert one["rounds"] == STUDY.rounds_of(one["id"], scale)
                assert one["trials"] == len(points) * one["rounds"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "unknown command 'fly'"),
        (["run", "--scale", "huge"], "scale is 'huge'; valid: full, quick."),
        (
            ["run", "--experiment", "fig-4.1"],
            "experiment is 'fig-4.1', but should be an experiment of scale full that needs no TensorFlow: ",
        ),
        (["run", "--rounds", "0"], "rounds is '0', but should be a whole number from 1 to 1000."),
        (["run", "--trial-timeout", "-1"], "trial-timeout is '-1', but should be a number of seconds above 0."),
        (["run", "--fast"], "unknown option '--fast'; valid: --scale,"),
        (["run", "--data"], "option '--data' needs a value."),
        (["run", "--rounds=1", "--rounds=2"], "option '--rounds' is given twice."),
        (["run", "--data", "nowhere"], "MNIST is not in nowhere/mnist or in nowhere: copy its four files there"),
        (["export", "--results", "nowhere"], "nothing to export: no runs in nowhere/runs."),
        (["probe", "--seconds", "1"], "seconds is 1.0; allowed: 5 to 600."),
        (["bench", "--strategy", "magic"], "unknown strategy 'magic'; valid: lock,"),
        (["bench", "--gradient", "new"], "gradient is 'new', but should be constant, fresh, or constant,fresh."),
        (["bench", "--gradient", "fresh,fresh"], "gradient names 'fresh' twice."),
        (["bench", "--threads", "one"], "threads is 'one', but should be a whole number from 1 to 1024."),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    native_program: Program, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = native_program.run(*arguments, cwd=tmp_path, env={})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tmflow-native: {sentence}")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_benchmark_has_the_fields_of_pythons(native_program: Program) -> None:
    asked = ("--elements=10,5000", "--threads=1,2", "--rounds=2", "--strategy=lock,block_stm", "--gradient=constant")
    done = native_program.run("bench", "--json", *asked)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 8
    for row in rows:
        assert set(row) < set(TimedVariant.model_fields)
        assert row["us_per_update"] > 0
        assert row["updates"] > 0
        assert row["rounds"] == len(row["us_by_round"]) == 2
        assert (row["lost_fraction"], row["doubled"], row["corrupt_elements"]) == (0, 0, 0)
    assert len(native_program.run("bench", *asked).stdout.splitlines()) == 1 + len(rows)


@pytest.mark.slow
def test_the_benchmark_guarantees_and_shuffles_as_pythons(native_program: Program) -> None:
    """Blocks of 2,048 elements contain all of a small variable, and the order in a round equals Python's."""
    every = ("striped", "combining", "htm", "stm", "adaptive", "nolock", "block_stm")
    sizes, counts, names = (10, 5000), (1, 2), [name for name in every if not why_not(Variant(name))]
    asked = ("--elements=10,5000", "--threads=1,2", "--rounds=2", f"--strategy={','.join(names)}", "--seed=7")
    done = native_program.run("bench", "--json", "--gradient=constant", *asked)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        (subject,) = parse_subjects(row["strategy"])
        assert row["consistency"] == subject.consistency_for(row["elements"]), row
    assert {row["consistency"] for row in rows if row["strategy"] == "striped"} == {"tensor", "block"}
    cells = [[(name, n, threads) for name in names] for n in sizes for threads in counts]
    for number in (1, 2):
        by_turn = sorted(rows, key=lambda row: int(row["turn_by_round"][number - 1]))
        found = [(row["strategy"], row["elements"], row["threads"]) for row in by_turn]
        assert found == shuffled_turns(cells, 7, number)


@pytest.mark.slow
def test_the_benchmark_writes_fresh_gradients(native_program: Program) -> None:
    asked = ("--elements=5000", "--threads=1", "--rounds=2", "--strategy=stm")
    done = native_program.run("bench", "--json", "--gradient=constant,fresh", *asked)
    assert done.returncode == 0, done.stderr
    constant, fresh = (json.loads(line) for line in done.stdout.splitlines())
    assert (constant["gradient"], constant["us_with_writing_by_round"]) == ("constant", None)
    assert fresh["gradient"] == "fresh"
    for us, both in zip(fresh["us_by_round"], fresh["us_with_writing_by_round"], strict=True):
        assert 0 < us < both
    printed = native_program.run("bench", "--gradient=constant,fresh", *asked).stdout.splitlines()
    assert "us per update, constant" in printed[0]
    assert "us per update, fresh" in printed[0]
    assert len(printed) == 2


@pytest.mark.slow
def test_the_doctor_tells_what_runs_here_and_what_is_missing(native_program: Program, tmp_path: Path) -> None:
    well = native_program.run("doctor")
    assert well.returncode == 0, well.stderr
    listed = {line.split()[0]: line for line in well.stdout.partition("strategies\n")[2].splitlines() if line[0] == " "}
    assert list(listed) == [variant.name for variant in registry.variants() if variant.provider == "native"]
    assert listed["lock"].endswith(" runs here")
    assert not listed["tle"].endswith(" runs here")
    assert re.search(r"\nMeasure with: (.*tmflow-native) probe && \1 run && \1 export\n$", well.stdout)
    assert well.stdout.count("MNIST") == 1
    ill = native_program.run("doctor", cwd=tmp_path, env={})
    assert ill.returncode == 1
    assert ill.stdout.splitlines()[-1].startswith("MNIST is not in data/mnist: copy its four files there")
    for file in mnist.obtain().glob("*-ubyte.gz"):
        (tmp_path / file.name).write_bytes(file.read_bytes()[:5000])
    damaged = native_program.run("doctor", "--data", tmp_path)
    assert damaged.returncode == 1
    assert " cannot be decompressed: `gzip -dc " in damaged.stdout.splitlines()[-1]
