"""`tmflow study`: plan, run and watch the study of config.yaml."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.base.paths import project_root, results_dir
from tmflow.base.text import several
from tmflow.cli.options import JsonOption, database, print_result
from tmflow.study.campaign import latest_scale
from tmflow.study.config import Scale, load_study
from tmflow.study.plan import Plan

app = typer.Typer(help="Plan, run and watch the study of config.yaml.", no_args_is_help=True, rich_markup_mode=None)

ScaleOption = Annotated[
    Scale | None, typer.Option(help="full: the study as defined; quick: a smoke test at reduced size.")
]


def make_plan(scale: Scale | None) -> Plan:
    """The plan of config.yaml at `scale`; default: the scale of the last campaign, or full."""
    results = results_dir()
    return Plan(load_study(project_root() / "config.yaml"), scale or latest_scale(results), results)


@app.command()
def plan(
    scale: ScaleOption = None,
    as_json: JsonOption = False,
    power: Annotated[
        float | None,
        typer.Option(
            help="Plan claims instead: the rounds that decide each with this probability, above 0 and below 1."
        ),
    ] = None,
    noise_point: Annotated[
        float | None,
        typer.Option(
            help="With --power: guess how much a round varies the time of this point alone; 0.02 is 2 %. It is not the "
            "noise between rounds of `study noise`, which is common to all points."
        ),
    ] = None,
    noise_trials: Annotated[
        float | None, typer.Option(help="With --power: guess how much the times of trials of a round vary.")
    ] = None,
    native: Annotated[Path | None, typer.Option(hidden=True, help="Write the static program's plan there.")] = None,
) -> None:
    """List the experiments, their trials, and their estimated durations, from similar past runs if there are any."""
    if power is not None or noise_point is not None or noise_trials is not None:
        _plan_claims(scale, power, noise_point, noise_trials, as_json)
        return
    if native:
        from tmflow.study import native_plan

        native_plan.write(load_study(project_root() / "config.yaml"), native)
        return
    study_plan = make_plan(scale)
    rows: list[dict[str, Any]] = []
    lines = [f"{'experiment':<24}{'trials':>10}{'estimated':>12}"]
    for name in study_plan.experiments:
        source, trials = study_plan.source(name), study_plan.trials(name)
        runs_of, estimated_s = source if source != name else None, round(study_plan.estimated_s(name), 1)
        rows.append({"id": name, "runs_of": runs_of, "trials": trials, "estimated_s": estimated_s})
        lines.append(f"{name:<24}{trials:>10}{estimated_s:>10} s" + (f"  (the runs of {source})" if runs_of else ""))
    total_s = sum(row["estimated_s"] for row in rows)
    lines.append(
        f"{'in all':<24}{sum(row['trials'] for row in rows):>10}{total_s:>10.1f} s, {total_s / 60:.0f} minutes, "
        f"on {study_plan.processors} hardware threads"
    )
    if first := study_plan.first:
        minutes = sum(study_plan.estimated_s(name) for name in first) / 60
        lines.append(f"Measured before all others: {', '.join(first)}; {minutes:.0f} minutes.")
    print_result(as_json, rows, lines)


def _plan_claims(
    scale: Scale | None, power: float | None, noise_point: float | None, noise_trials: float | None, as_json: bool
) -> None:
    """Print the rounds that decide each claim with this power. Raises BadInput for options that make no plan."""
    from tmflow.base.errors import BadInput
    from tmflow.claims import power_plan

    if power is None:
        raise BadInput("--noise-point and --noise-trials are for a plan of claims: give --power with them.")
    if not 0 < power < 1:  # also false for nan
        raise BadInput(f"--power is {power:g}, but must be above 0 and below 1, for example 0.8.")
    if scale == "quick":
        raise BadInput("--power plans claims, and quick runs decide none: give --scale full, or no --scale.")
    guess = _noise_guess(noise_point, noise_trials)
    result = power_plan.plan_here(make_plan("full"), database(), power, guess)
    document = {"power": power, "noise_guess": guess, "claims": [one.as_json() for one in result]}
    print_result(as_json, document, power_plan.as_text(result, power, guess))


def _noise_guess(point: float | None, trials: float | None) -> tuple[float, float] | None:
    """The guessed noise, or None without a guess. Raises BadInput for one of the two, or one that is no noise."""
    from tmflow.base.errors import BadInput

    if point is None and trials is None:
        return None
    if point is None or trials is None:
        raise BadInput("--noise-point and --noise-trials belong together: give both; 0.02 is 2 % of the time.")
    for name, value in (("--noise-point", point), ("--noise-trials", trials)):
        if not 0 <= value < 1:
            raise BadInput(f"{name} is {value:g}, but must be a share of the time, from 0 to below 1; 0.02 is 2 %.")
    return point, trials


@app.command()
def status(scale: ScaleOption = None, as_json: JsonOption = False) -> None:
    """Show the numbers of successful, failed and unsupported trials by campaign, and the time they took."""
    from tmflow.workflow.status import status as study_status

    state = study_status(make_plan(scale))
    lines = [
        f"scale {state['scale']}: {state['trials_ok']} of {state['trials_planned']} trials ok, "
        f"{state['trials_failed']} failed, {state['trials_unsupported']} unsupported."
    ]
    if missing := state["missing"]:
        of = ", ".join(f"{n} of {experiment}" for experiment, n in missing.items())
        lines.append(f"Not measured yet: {several(sum(missing.values()), 'trial')}; {of}.")
    for campaign in state["campaigns"]:
        trials = campaign["trials_ok"] + campaign["trials_failed"] + campaign["trials_unsupported"]
        in_all = f", of {state['wall_s']:.1f} s in all" if campaign["uid"] == state["campaign"] else ""
        lines.append(
            f"Campaign {campaign['uid'][:8]}, begun {campaign['created_at_utc'][:16]}: {several(trials, 'trial')}; "
            f"{campaign['timed_s']:.1f} s inside timed loops and {campaign['warm_up_s']:.1f} s warming up{in_all}."
        )
    print_result(as_json, state, lines)


@app.command()
def noise(
    platform: Annotated[
        str | None, typer.Option(metavar="NAME", help="The runs of this platform only, or of one contribution to it.")
    ] = None,
    scale: ScaleOption = "full",
    as_json: JsonOption = False,
) -> None:
    """Show how much times vary between rounds and between the trials of a round, and what repeats would gain.

    The last columns are the standard error of a paired ratio of one round with that many repeats.
    """
    from tmflow.analysis import variance
    from tmflow.base.errors import BadInput, unknown
    from tmflow.cli.options import reader
    from tmflow.store import queries
    from tmflow.store.run_filter import RunFilter

    source = reader()
    platforms = sorted(set(queries.counts(source)["platform"]))
    if platform is not None and platform not in platforms:
        raise unknown("platform", platform, platforms)
    only = RunFilter(
        scales=[scale or "full"], platforms=None if platform is None else [platform], newest_definitions=True
    )
    table = variance.by_experiment(queries.runs(source, only))
    if not (table or as_json):
        raise BadInput("the database has no measured point with two rounds or more, so nothing shows its noise.")
    print_result(as_json, [variance.as_json(key, of) for key, of in table.items()], variance.as_text(table))


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPERIMENT", help="Experiments of config.yaml; default: all."),
    ] = None,
    scale: ScaleOption = None,
    fresh: Annotated[bool, typer.Option(help="Measure everything again; existing run files are set aside.")] = False,
    hours: Annotated[
        float | None,
        typer.Option(help="After the planned rounds, add rounds for claims until about so many hours have passed."),
    ] = None,
) -> None:
    """Run the missing parts of the study or of some experiments: build, train, store, draw, report.

    Safe to interrupt and to repeat. Other options are passed to Snakemake, for example --dry-run.
    """
    from tmflow.workflow import run as pipeline

    if hours is not None:
        _check_hours(hours, scale)
    pipeline.run(make_plan(scale or "full"), arguments or [], fresh=fresh, hours=hours)


def _check_hours(hours: float, scale: Scale | None) -> None:
    from tmflow.base.errors import BadInput

    if not 0 < hours < math.inf:  # also false for nan
        raise BadInput(f"--hours is {hours:g}, but must be a number of hours above 0, for example 8.")
    if scale == "quick":
        raise BadInput("--hours adds rounds for claims, and quick runs decide none: give --scale full, or no --scale.")


@app.command()
def build() -> None:
    """Build the native strategies, if they are not built yet."""
    from tmflow.workflow import run as pipeline

    pipeline.build(make_plan("full"))


@app.command()
def lint() -> None:
    """Check the Snakemake workflow with Snakemake's own linter."""
    from tmflow.workflow import run as pipeline

    pipeline.lint(make_plan("full"))
