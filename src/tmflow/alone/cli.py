"""The command `tmflow-native`. Exit codes: 0 ok, 2 bad input (one sentence), 1 anything else."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

from tmflow._version import __version__
from tmflow.alone.plan import Experiment, study
from tmflow.base.errors import BadInput, RoundFailed
from tmflow.platform.environment import cpus_allowed

Arguments = argparse.Namespace


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; `{self.prog} --help` tells what there is.")


def doctor(given: Arguments) -> int:
    """Tell what runs here, and what to do next."""
    from tmflow.workflow import findings

    found = [findings.machine(), findings.tm(), findings.python(), findings.data(), *findings.strategies()]
    why = "the native driver's experiments; whoever stores the bundle is told which claims they decide"
    found.append(
        findings.Finding("run here", "ok", why, "tmflow-native probe && tmflow-native run && tmflow-native export")
    )
    print(json.dumps([asdict(one) for one in found], indent=1) if given.json else "\n".join(findings.lines(found)))
    return findings.exit_code(found)


def build(given: Arguments) -> int:
    """Build the native library; what is up to date is not built again."""
    from tmflow.base.paths import results_dir
    from tmflow.native.build import build
    from tmflow.native.loader import library_dir

    build(results_dir() / "build" / "cmake", library_dir(), None)
    print(f"Built {library_dir()}.")
    return 0


def plan(given: Arguments) -> int:
    """List the experiments, and how many trials they are here."""
    chosen = study().at(given.scale)
    processors = _processors(given)
    rows = [{"id": one.name, "rounds": one.rounds, "trials": _trials(one, processors)} for one in chosen]
    if given.json:
        print(json.dumps(rows))
        return 0
    print(f"{'experiment':<24}{'rounds':>10}{'trials':>10}")
    for row in rows:
        print(f"{row['id']:<24}{row['rounds']:>10}{row['trials']:>10}")
    in_all = sum(_trials(one, processors) for one in chosen)
    print(f"{'in all':<34}{in_all:>10}  on {processors} hardware threads")
    return 0


def run(given: Arguments) -> int:
    """Measure what is missing of the experiments; safe to interrupt and to repeat."""
    from tmflow.alone.run import measure

    chosen = study().at(given.scale, [] if given.experiment is None else given.experiment.split(","))
    if given.trial_timeout:
        chosen = [replace(one, trial_timeout_s=given.trial_timeout) for one in chosen]
    measure(study(), chosen, given.scale, _results(given), _processors(given), given.rounds)
    return 0


def probe(given: Arguments) -> int:
    """Find out by trying what the transactions of this machine can do and cost; leave it alone meanwhile."""
    from tmflow.base.files import write_json
    from tmflow.base.locks import machine_to_itself
    from tmflow.native import loader
    from tmflow.platform.facts import platform_facts, platform_sha256
    from tmflow.probe.seconds import require_seconds

    require_seconds(given.seconds)
    with machine_to_itself():
        found = json.loads(loader.core().probe(given.seconds, None, __version__))
    found["platform_sha256"] = platform_sha256(platform_facts())
    file = Path(given.save) if given.save else _results(given) / "probe.json"
    write_json(file, found)
    if given.json:
        print(json.dumps(found, indent=1))
    print(f"kept in {file}", file=sys.stderr)
    return 0


def export(given: Arguments) -> int:
    """Write the runs into one file, for `tmflow bundle import` or a pull request."""
    from tmflow.bundle.writer import Chosen, export

    done = export(_results(given), Path(given.out), Chosen(), None)
    print(f"{done.path}: {done.runs} runs of {done.platform}, bundle {done.identity}")
    return 0


def bench(given: Arguments) -> int:
    """Time updates of one variable in full contention, under each strategy."""
    from tmflow.alone import bench as its
    from tmflow.benchmark.plan import make_plan

    made = make_plan(given.elements, given.threads, given.strategy, given.rounds, 0, None, given.gradient)
    return 0 if its.run(made, as_json=given.json) else 1


def _trials(one: Experiment, processors: int) -> int:
    return one.rounds * len(one.points_for(processors))


def _processors(given: Arguments) -> int:
    return getattr(given, "processors", None) or cpus_allowed() or os.cpu_count() or 1


def _results(given: Arguments) -> Path:
    return Path(given.results or os.environ.get("TMFLOW_RESULTS_DIR") or "results").expanduser().absolute()


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"'{text}' should be a whole number from 1 to 1000000")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """What the command line may hold."""
    whole = _Parser(prog="tmflow-native", description=f"{sys.modules['tmflow.alone'].__doc__}".partition("\n")[0])
    whole.add_argument("--version", action="version", version=__version__)
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(its: Callable[[Arguments], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(its.__name__, help=its.__doc__, description=its.__doc__)
        added.set_defaults(command=its)
        return added

    json_help, scales = "print JSON, for programs", ("full", "quick")
    its = command(doctor)
    its.add_argument("--data", help="folder of MNIST's four files; else TMFLOW_DATA_DIR, else data/mnist")
    its.add_argument("--json", action="store_true", help=json_help)
    command(build)
    its = command(plan)
    its.add_argument("--scale", choices=scales, default="full")
    its.add_argument("--processors", type=_positive, help="of another machine")
    its.add_argument("--json", action="store_true", help=json_help)
    its = command(run)
    its.add_argument("--scale", choices=scales, default="full")
    its.add_argument("--experiment", help="only these; several with commas between")
    its.add_argument("--rounds", type=_positive, help="of each experiment, in place of the study's")
    its.add_argument("--trial-timeout", type=_positive, help="seconds of a trial, in place of the study's")
    its.add_argument("--data", help="folder of MNIST's four files; else TMFLOW_DATA_DIR, else data/mnist")
    its.add_argument("--results", help="else TMFLOW_RESULTS_DIR, else results here")
    its = command(probe)
    its.add_argument("--seconds", type=float, default=60, help="that it may take, about; 5 to 600")
    its.add_argument("--save", help="the file; else probe.json in the results, which `export` takes along")
    its.add_argument("--results", help="else TMFLOW_RESULTS_DIR, else results here")
    its.add_argument("--json", action="store_true", help=json_help)
    its = command(export)
    its.add_argument("--results", help="else TMFLOW_RESULTS_DIR, else results here")
    its.add_argument("--out", default=".", help="the file to write, or a folder for one with a name of its own")
    its = command(bench)
    its.add_argument("--elements", help="sizes; 10,7850,3211264 if not given")
    its.add_argument("--threads", help="threads at once; 1,2,4 if not given, as far as there are processors")
    its.add_argument("--strategy", help="variants, with commas between: stm or stm:design=wt:manager=delay")
    its.add_argument("--gradient", default="fresh", help="fresh (written before every update), constant, or both")
    its.add_argument("--rounds", type=_positive, default=4, help="times that each is measured, in turns")
    its.add_argument("--json", action="store_true", help=json_help)
    return whole


def main() -> None:
    try:
        given = parser().parse_args()
        if getattr(given, "data", None):
            os.environ["TMFLOW_DATA_DIR"] = given.data
        sys.exit(given.command(given))
    except BadInput as error:
        print(f"tmflow-native: {error}", file=sys.stderr)
        sys.exit(2)
    except RoundFailed as error:
        print(f"tmflow-native: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\ntmflow-native: stopped; rounds that are done are kept, and the same command goes on.", file=sys.stderr)
        sys.exit(130)
