"""`tmflow study`: plan, run and watch the study of config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.base.paths import project_root, results_dir
from tmflow.base.text import several
from tmflow.cli.options import JsonOption, print_result
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
    native: Annotated[Path | None, typer.Option(hidden=True, help="Write the static program's plan there.")] = None,
) -> None:
    """List the experiments, their trials, and their estimated durations, from similar past runs if there are any."""
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

    database = reader()
    platforms = sorted(set(queries.counts(database)["platform"]))
    if platform is not None and platform not in platforms:
        raise unknown("platform", platform, platforms)
    only = RunFilter(
        scales=[scale or "full"], platforms=None if platform is None else [platform], newest_definitions=True
    )
    table = variance.by_experiment(queries.runs(database, only))
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
) -> None:
    """Run the missing parts of the study or of some experiments: build, train, store, draw, report.

    Safe to interrupt and to repeat. Other options are passed to Snakemake, for example --dry-run.
    """
    from tmflow.workflow import run as pipeline

    pipeline.run(make_plan(scale or "full"), arguments or [], fresh=fresh)


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
