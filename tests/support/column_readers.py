"""Everything that reads a database: each reader of a database with arbitrary content gives an answer, or a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml
from sqlalchemy import Engine
from typer.testing import CliRunner

from tmflow.analysis import noise, regressions, trends
from tmflow.analysis.variants import panels
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.charts import explore, figures
from tmflow.charts.figures import DRAWINGS
from tmflow.charts.measure_charts import draw_noise
from tmflow.charts.trends import draw as draw_trend
from tmflow.claims.origins import verdicts
from tmflow.claims.render import as_text, heading
from tmflow.cli import app
from tmflow.contributions import importer
from tmflow.reports import html_report
from tmflow.store import campaign_queries, engine, platform_queries, queries, run_detail
from tmflow.store.run_filter import RESULTS, RunFilter

EXPERIMENTS = ("study", "full", "dist")
LONGEST = 5000  # characters of a sentence, which may quote a text of the database


def read_claims(source: Engine) -> None:
    for key in [None, *map(str, platform_queries.platforms(source)["platform"])]:
        judged = verdicts(source, None, key)
        as_text(judged, heading(source, key))
        json.dumps([verdict.as_json() for verdict in judged], allow_nan=False)


def read_figures(source: Engine) -> None:
    for name in EXPERIMENTS:
        records = queries.records(source, replace(RESULTS, experiments=[name], scales=["full"]))
        explore.MEASURES["raw_causes"](records)
        for kind, drawing in DRAWINGS.items():
            summary = drawing.summarise(records)
            for _, figure in figures.figures_of(kind, summary, "0", name):
                json.dumps(figure.drawn, allow_nan=False)
            list(figures.gaps_of(kind, summary))
        html_report.experiment_table(records.runs)


def read_runs(source: Engine) -> None:
    queries.rounds(source)
    queries.revision(source)
    importer.contributions(source)
    for order in ("started", "step_time", "accuracy", "threads"):
        queries.page(source, RunFilter(), order)
    queries.tally(source, RunFilter())
    for uid in queries.runs(source, RunFilter())["uid"][::20]:
        run_detail.run(source, str(uid))
        queries.neighbours(source, str(uid))


def read_platforms(source: Engine) -> None:
    for key in platform_queries.platforms(source)["platform"]:
        platform_queries.environments(source, key)
        platform_queries.newest_probe(source, key)
        found = noise.deviations(platform_queries.newest_runs(source, key), None)
        if len(found):
            noise.noise(found)
            draw_noise(noise.histogram(found)).to_dict()


def read_trends(source: Engine) -> None:
    campaign_queries.campaigns(source)
    campaign_queries.software_names(source)
    runs, full = campaign_queries.tracked_runs(source)
    tables = {measure: trends.values(runs, full, measure) for measure in trends.MEASURES}
    for measure in trends.MEASURES:
        table = trends.series(runs, full, measure)
        changes = [change for point in trends.points(table) for change in trends.change_points(point)]
        for label, panel in panels(table, ("threads",)) if len(table) else ():
            if panel["estimate"].notna().any():
                json.dumps(draw_trend(panel, [], "0", label).drawn, allow_nan=False)
        assert len(changes) <= len(table)
    for since in ("2000-01-01", "2026-01-02"):
        compared = regressions.pairs(tables, regressions.first_places(runs, since))
        regressed = regressions.worse(compared)
        json.dumps(regressions.document(since, compared, regressed), allow_nan=False)
        regressions.sentences(since, compared, regressed)


READERS: tuple[Callable[[Engine], None], ...] = (
    read_claims,
    read_figures,
    read_runs,
    read_platforms,
    read_trends,
)


def failures_of_readers(database: Path) -> Iterator[str]:
    """The failures of the functions behind pages, figures and claims, by name."""
    source = engine.open_reader(engine.sqlite_url(database))
    for reader in READERS:
        try:
            reader(source)
        except BadInput as error:
            yield from _no_sentence(reader.__name__, str(error))
        except Exception as error:  # any exception is a failure here
            yield f"{reader.__name__}: {type(error).__name__}: {error}"


def make_root(root: Path) -> None:
    """A checkout with a study of two of the experiments, whose campaign is measured."""
    root.mkdir()
    (root / "Snakefile").touch()
    for name in ("data", "docs", "native_ops"):
        (root / name).symlink_to(project_root() / name)
    defaults = {"model": "mnist_softmax", "learning_rate": 0.5, "threads": [1, 2], "batch": 100, "iterations": 100}
    config = {
        "dataset": "digits",
        "seed": 0,
        "rounds": 2,
        "quick": {"rounds": 1},
        "defaults": defaults,
        "experiments": {
            name: {"question": "Does it?", "factors": {"strategy": ["tf_lock", "tf_nolock"]}} for name in EXPERIMENTS
        },
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    campaign = {"uid": "study", "created_at_utc": "2026-01-01T00:00:00Z", "scale": "full", "platform_sha256": "0" * 64}
    (root / "results" / "runs" / "full").mkdir(parents=True)
    (root / "results" / "runs" / "full" / "campaign.json").write_text(json.dumps(campaign))
    (root / "results" / "platform.json").write_text(json.dumps({"display_name": "A box", "facts": {"cores": 4}}))


def failures_of_commands(keys: Iterable[str], site: Path) -> Iterator[str]:
    """The failures of the commands that show results; a sentence as an error is not a failure."""
    for name, error in errors_of_commands(keys, site).items():
        if isinstance(error, BadInput):
            yield from _no_sentence(name, str(error))
        elif error is not None:
            yield f"{name}: {type(error).__name__}: {error}"


def errors_of_commands(keys: Iterable[str], site: Path) -> dict[str, BaseException | None]:
    """The error of each command; None: it succeeded."""
    drawn = [["step", "figures", name] for name in EXPERIMENTS]
    errors = {" ".join(command): _error(command) for command in drawn}
    if not any(errors.values()):  # it is made from their output
        drawn.append(["step", "report"])
        errors["step report"] = _error(drawn[-1])
    for command in (*(["claims", "--platform", key] for key in keys), ["publish", str(site)]):
        errors[" ".join(command)] = _error(command)
    shutil.rmtree(site, ignore_errors=True)
    return errors


def _error(command: list[str]) -> BaseException | None:
    return CliRunner().invoke(app, command).exception


def _no_sentence(what: str, text: str) -> Iterator[str]:
    if not text.endswith(".") or len(text) > LONGEST:
        yield f"{what}: no sentence: {text[:200]!r}"
