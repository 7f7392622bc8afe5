"""Databases as large as a portal may become: `python -m tests.speed.many_runs N FILE` creates one of N runs.

The experiments of config.yaml are ingested from run files, one round of each, at full and quick scale, as two machines
would run them: one of 4 hardware threads without transactions, one of 16 with them. (A small database has only the
experiments with the fewest points.) Then platforms are added until there are N runs: each repeats about half of its
model's experiments in a campaign of 6 to 8 rounds (quick: 3). A copied run has a new identity and new numbers: its
platform is faster or slower in general and at each point; commits, aborts and accuracy differ; some copies failed. All
platforms differ, and equal N give equal databases. All details are included for every N, but a worker has at most 8
stalenesses and 4 retries, copied unchanged. A copy has no line in a run file: its content hash is that of its uid.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sqlalchemy import select

from tests.speed.copies import SECONDS, Copy, add, copy_rounds, opened
from tests.support import command_line
from tests.support.sample_runs import ENVIRONMENT, EPOCH, PLATFORM, SOFTWARE, round_of, without_result
from tmflow.base.canonical_json import sha256_of
from tmflow.base.paths import project_root
from tmflow.runfile import record
from tmflow.runfile.record import ExperimentRef, Run
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, rows, writer
from tmflow.store.ingest import ingest
from tmflow.store.models import Campaign, Environment, Platform, Round, Software
from tmflow.study.config import Scale, load_study

DATASET = "mnist"
MACHINES: dict[str, dict[str, Any]] = {
    "small": {"threads_logical": 4, "cores_physical": 4, "tm_capability": "none"},
    "large": {"threads_logical": 16, "cores_physical": 16, "tm_capability": "rtm"},
}
COMMITS = ("a" * 40, "b" * 40)  # of the software, in addition to the seed's


class Sheet(NamedTuple):
    """An experiment as a machine runs it: the points of one round."""

    machine: str
    scale: Scale
    experiment: str
    points: Sequence[TrialSpec]


def sheets(at_most: int) -> list[Sheet]:
    """The experiments with the fewest points, up to this many points in all."""
    study = load_study(project_root() / "config.yaml")
    every = [
        Sheet(machine, scale, name, study.points(name, scale, DATASET, facts["threads_logical"]))
        for machine, facts in MACHINES.items()
        for scale in get_args(Scale)
        for name in study.at(scale)
        if study.source(name) == name
    ]
    chosen: list[Sheet] = []
    for sheet in sorted(every, key=lambda sheet: len(sheet.points)):
        at_most -= len(sheet.points)
        if at_most >= 0:
            chosen.append(sheet)
    return chosen


def seed_runs(sheet: Sheet) -> Iterator[Run]:
    definition = load_study(project_root() / "config.yaml").definition(sheet.experiment, sheet.scale, DATASET)
    experiment = ExperimentRef(
        name=sheet.experiment, scale=sheet.scale, definition_sha256=sha256_of(definition), definition=definition
    )
    facts = MACHINES[sheet.machine]
    its_round = round_of(
        sheet.experiment,
        1,
        sheet.points,
        scale=sheet.scale,
        campaign=f"{sheet.machine}-{sheet.scale}",
        platform=facts | {"cpu_model": f"Example {sheet.machine}"},
    )
    runnable = ("emulated", None, "rtm" if facts["tm_capability"] == "rtm" else None)
    for run in its_round:
        few = {
            "experiment": experiment,
            "environment": ENVIRONMENT | {"cpus_allowed": facts["threads_logical"]},
            "staleness": [row for row in run.staleness if row.staleness < 8],
            "retries": [row for row in run.retries if row.retries < 4],
        }
        kept = run.model_copy(update=few)
        provider = run.spec.provider
        says = f"{run.spec.strategy} with provider {provider} needs hardware that this machine lacks"
        yield kept if provider in runnable else without_result(kept, "unsupported", says)


class Template(NamedTuple):
    """A stored round that is copied."""

    round_id: int
    machine: str
    scale: str
    experiment_id: int
    n_runs: int


def templates(db: sqlite3.Connection) -> list[Template]:
    query = """
        SELECT round.id, substr(cpu_model, 9), scale, experiment_id, count(*)
        FROM run JOIN round ON round.id = round_id JOIN experiment ON experiment.id = experiment_id
        JOIN platform ON platform.id = platform_id GROUP BY 1, 2, 3, 4 ORDER BY 1
    """
    return [Template(*row) for row in db.execute(query)]


def plan(db: sqlite3.Connection, n: int) -> Iterator[Copy]:
    """Add platforms and campaigns, and plan the rounds to copy, until there are `n` runs."""
    luck = random.Random(n)
    kinds = templates(db)
    stored = sum(template.n_runs for template in kinds)
    softwares = [1, *(add(db, Software, rows.software_row(_software(commit))) for commit in COMMITS)]
    round_ids = count(len(kinds) + 1)
    for number in count(1):
        machine = luck.choices(list(MACHINES), (3, 1))[0]
        scales = luck.choices([("full",), ("full", "quick"), ("quick",)], (7, 2, 1))[0]
        chosen = [one for one in kinds if one.machine == machine and one.scale in scales and luck.random() < 0.5]
        if not chosen:
            continue
        facts, settings = _machine(machine, number, luck)
        platform = add(db, Platform, rows.platform_row(facts))
        environment = add(db, Environment, rows.environment_row(settings, facts) | {"platform_id": platform})
        pace, aborts, moved = luck.lognormvariate(0, 0.4), luck.randint(1, 6), luck.randint(0, 60)
        its_machine = (platform, environment, softwares[number % len(softwares)])
        for scale in sorted({template.scale for template in chosen}):
            began_s = EPOCH.timestamp() + 86_400 * luck.uniform(-600, 300)
            campaign = add(db, Campaign, _campaign(f"campaign-{number}-{scale}", began_s, platform))
            for template in (one for one in chosen if one.scale == scale):
                for pass_ in range(1, 1 + (3 if scale == "quick" else luck.randint(6, 8))):
                    n_runs = min(template.n_runs, n - stored)
                    if n_runs <= 0:
                        return
                    its_round = (next(round_ids), template.round_id, pass_, campaign, template.experiment_id)
                    yield Copy(*its_round, *its_machine, stored + 1, n_runs, began_s, pace, aborts, moved)
                    stored += n_runs
                    began_s += SECONDS * n_runs


def _machine(kind: str, number: int, luck: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and settings of a platform of that kind."""
    fewest = MACHINES[kind]["threads_logical"]
    threads = luck.choice([fewest, fewest + 2, 2 * fewest])
    vendor = luck.choice(["Example", "Sample", "Specimen"])
    facts = PLATFORM | MACHINES[kind] | {
        "cpu_model": f"{vendor} {1000 + number} at {luck.randint(18, 42) / 10} GHz",
        "threads_logical": threads,
        "sockets": luck.choice([1, 1, 2]),
        "memory_bytes": luck.choice([8, 16, 64, 256]) * 1024**3,
        "l2_bytes": luck.choice([512, 1024, 2048]) * 1024,
        "l3_bytes": luck.choice([None, 8, 32]),
    }  # fmt: skip
    settings = ENVIRONMENT | {
        "cpus_allowed": threads,
        "kernel": f"Linux 6.{luck.randint(0, 12)}.0",
        "governor": luck.choice(["performance", "powersave", None]),
    }
    return facts, settings


def _software(commit: str) -> record.Software:
    return SOFTWARE.model_copy(update={"git_commit": commit})


def _campaign(uid: str, began_s: float, platform: int) -> dict[str, Any]:
    began = datetime.fromtimestamp(began_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"uid": uid, "created_at_utc": began, "platform_id": platform}


def make(n: int, path: Path) -> None:
    """Write a database of `n` runs; the file appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        files = []
        for number, sheet in enumerate(sheets(n // 8)):
            files.append(Path(folder) / f"{sheet.experiment}-{sheet.machine}-{number}.jsonl")
            record.write(files[-1], seed_runs(sheet))
        made = Path(folder) / "study.db"
        url = engine.sqlite_url(made)
        ingest(url, files)
        with closing(opened(made)) as db, db:
            copy_rounds(db, list(plan(db, n)))
        with engine.open_writer(url).begin() as connection:
            writer.recount_rounds(connection, connection.scalars(select(Round.id)).all())
        made.rename(path)


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("n", type=command_line.count, help="runs")
    parser.add_argument("file", type=Path, help="the database to make")
    asked = parser.parse_args()
    make(asked.n, asked.file)
