"""`tmflow step`: the steps of the DAG, as Snakemake calls them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.paths import results_dir
from tmflow.cli.options import reader, require_writable, resolve_dataset
from tmflow.cli.study import make_plan
from tmflow.study.config import Scale

app = typer.Typer(help="The steps of the study, as Snakemake calls them.", rich_markup_mode=None)


@app.callback()
def _at_work() -> None:
    from tmflow.workflow.locking import hold_for_step

    hold_for_step(results_dir())


@app.command()
def probe(output: Path) -> None:
    """Write the facts of this machine."""
    from tmflow.platform.facts import write_platform

    write_platform(output)


@app.command()
def build(output: Path) -> None:
    """Build the native strategies next to `output`, and write which are built and run here to `output`."""
    from tmflow.native import registry
    from tmflow.native.build import build as build_native

    require_writable(output, "output")
    build_native(output.parent / "cmake", output.parent / "lib", None)
    registry.write_variants(output)


@app.command(name="data")
def get_data(dataset: str, output: Path) -> None:
    """Find or download the dataset, verify it, and write its name and hash."""
    from tmflow import datasets
    from tmflow.base.files import write_json

    resolved = resolve_dataset(dataset)
    write_json(
        output, {"name": resolved.name, "sha256": datasets.load(resolved.name).sha256, "warning": resolved.warning}
    )


@app.command(name="round")
def one_round(experiment: str, definition: str, number: int, scale: Annotated[Scale, typer.Option()] = "full") -> None:
    """Run one round of an experiment in a fresh process, after storing the rounds that are complete."""
    from tmflow.base.errors import BadInput
    from tmflow.runner.supervisor import run_round
    from tmflow.study.campaign import current, load
    from tmflow.workflow.stored_rounds import store_complete_rounds

    plan = make_plan(scale)
    if plan.definition_id(experiment) != definition:
        raise BadInput(f"config.yaml changed '{experiment}' while the study was running; run the study again.")
    # A repeated request for a measured round must not begin a campaign.
    campaign = (plan.is_measured() and load(plan.results, scale)) or current(plan.results, scale)
    store_complete_rounds(plan)
    run_round(plan.job(experiment, number, campaign.ref))


@app.command(name="figures")
def draw(experiment: str, scale: Annotated[Scale, typer.Option()] = "full") -> None:
    """Draw the figures of an experiment and write its table; in one step, because start-up dominates."""
    from tmflow.analysis.run_table import shown_of
    from tmflow.base.errors import unknown
    from tmflow.charts import figures
    from tmflow.claims.originals import load_originals
    from tmflow.reports.html_report import write_table
    from tmflow.store import queries
    from tmflow.store.run_filter import RESULTS

    plan = make_plan(scale)
    if experiment not in plan.study.experiments:
        raise unknown("experiment", experiment, plan.study.experiments)
    definition = plan.study.experiments[experiment]
    shown = definition.shown()
    database = reader()
    records = queries.records(database, replace(RESULTS, experiments=[plan.source(experiment)], scales=[scale]))
    runs = shown_of(records.runs, shown["only"])
    figures.draw_experiment(
        records._replace(runs=runs),
        experiment,
        results_dir() / "figures" / experiment,
        queries.revision(database),
        shown["shows"],
        load_originals().published_by(experiment),
        plan.study.titles,
    )
    write_table(runs, experiment, definition.question, scale, results_dir() / "tables" / f"{experiment}.html")


@app.command()
def report(scale: Annotated[Scale, typer.Option()] = "full") -> None:
    """Write the report: the summary of the study, then its figures and tables."""
    from tmflow.claims.origins import verdicts
    from tmflow.claims.render import heading
    from tmflow.claims.render import section as verdicts_section
    from tmflow.reports import study_summary
    from tmflow.reports.html_report import write_report

    plan, database = make_plan(scale), reader()
    first = [study_summary.section(study_summary.summarise_study(plan, database))]
    platform = study_summary.measured_platform(plan, database)
    if scale == "full" and platform is not None:  # quick runs decide nothing
        first.append(verdicts_section(verdicts(database, platform=platform), heading(database, platform)))
    questions = {name: plan.study.experiments[name].question for name in plan.experiments}
    write_report(plan.results, questions, scale, plan.results / "report.html", first)


@app.command()
def notebook(source: Path, output: Path) -> None:
    """Execute a notebook on the database, and write it with its output."""
    from tmflow.workflow.notebooks import execute

    execute(source, output)
