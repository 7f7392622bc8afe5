"""A search finds all matches, in every order, page by page; each kind of query is one scan of its index."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, Engine, create_engine, event

from tests.support.sample_runs import EMULATED, SOFTWARE, sample_runs
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store import campaign_queries, engine, queries, schema
from tmflow.store.ingest import ingest
from tmflow.store.queries import Order
from tmflow.store.run_filter import RESULTS, RunFilter

HTM = {"strategy": "htm", "budget": 5}
ANOTHER_SOFTWARE = SOFTWARE.model_copy(update={"git_commit": "1" * 40, "git_dirty": True})
SOCKETS = {"sockets": 2}
RUNS = [
    *sample_runs(("a", "b"), ("lock", "nolock", HTM), (1, 2, 4), 3, unsupported=("htm",)),
    *sample_runs(("a",), (EMULATED,), (1, 2), 3, campaign="campaign-2", day=1, scale="quick"),
    *(
        run.model_copy(update={"software": SOFTWARE.model_copy(update={"git_commit": "1" * 40, "git_dirty": True})})
        for run in sample_runs(
            ("a",), ("lock",), (1,), 2, campaign="campaign-3", day=2, platform={"sockets": 2}, batch=7
        )
    ),
]
OTHER_SOFTWARE = "tmflow 0.1.0 at 1111111111 with uncommitted changes"
BY_UID = {run.uid: run for run in RUNS}


def stored(url: URL, folder: Path) -> Engine:
    """A reader of a database with `RUNS`."""
    record.write(folder / "runs.jsonl", RUNS)
    ingest(url, [folder / "runs.jsonl"])
    return engine.open_reader(url)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("search")
    return stored(engine.sqlite_url(folder / "study.db"), folder)


@pytest.fixture(scope="module")
def on_postgresql(postgresql_server: URL, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    name = f"search_{uuid.uuid4().hex}"  # a process that takes tests of another one sets this up again
    admin = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0")
    admin.dispose()
    return stored(postgresql_server.set(database=name), tmp_path_factory.mktemp("search"))


@pytest.fixture(params=["on_sqlite", "on_postgresql"])
def store(request: pytest.FixtureRequest) -> Engine:
    """A database with `RUNS`, for reading only."""
    return request.getfixturevalue(request.param)


def expected(holds: Callable[[Run], bool]) -> set[str]:
    found = {run.uid for run in RUNS if holds(run)}
    assert 0 < len(found) < len(RUNS)
    return found


A_RUN = RUNS[4]
NEW_DEFINITION = RUNS[-1].experiment.definition_sha256[:8]


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        (RunFilter(experiments=("b",)), lambda run: run.experiment.name == "b"),
        (RunFilter(experiments=("b", "nope")), lambda run: run.experiment.name == "b"),
        (RunFilter(scales=("quick",)), lambda run: run.experiment.scale == "quick"),
        (RunFilter(definitions=(NEW_DEFINITION,)), lambda run: run.spec.batch == 7),
        (RunFilter(evidences=("emulated",)), lambda run: run.evidence == "emulated"),
        (RunFilter(statuses=("unsupported", "failed")), lambda run: run.status == "unsupported"),
        (RunFilter(factors={"strategy": ("lock", "htm")}), lambda run: run.spec.strategy in ("lock", "htm")),
        (RunFilter(factors={"threads": (2, 4), "batch": (100,)}), lambda r: r.spec.threads > 1),
        (RunFilter(factors={"budget": (5,)}), lambda run: run.spec.budget == 5),
        (RunFilter(uids=[A_RUN.uid, "nowhere"]), lambda run: run.uid == A_RUN.uid),
        (
            RunFilter(settings=[("a", {"strategy": "lock", "threads": 2}), ("b", {})]),
            lambda run: run.experiment.name == "b" or (run.spec.strategy, run.spec.threads) == ("lock", 2),
        ),
        (RunFilter(campaigns=("campaign-2", "campaign-3")), lambda run: run.campaign.uid != "campaign-1"),
        (RunFilter(campaigns=("campaign-3",), scales=("full",)), lambda run: run.campaign.uid == "campaign-3"),
        (RunFilter(software=(OTHER_SOFTWARE, "nope")), lambda run: run.campaign.uid == "campaign-3"),
        (RunFilter(since="2026-01-02"), lambda run: run.campaign.uid != "campaign-1"),
        (RunFilter(since="2026-01-02", until="2026-01-03"), lambda run: run.campaign.uid == "campaign-2"),
        (RunFilter(text="HARDWARE that"), lambda run: run.status == "unsupported"),
        (RunFilter(text=A_RUN.uid), lambda run: run.uid == A_RUN.uid),
        (RunFilter(text=A_RUN.uid[:11].upper()), lambda run: run.uid.startswith(A_RUN.uid[:11])),
        (
            RunFilter(("a",), ("full",), evidences=("measured",), statuses=("ok",), factors={"threads": (1,)}),
            lambda r: r.experiment.name == "a" and r.status == "ok" and r.spec.threads == 1 and r.evidence == "measured"
            and r.experiment.scale == "full",
        ),
    ],
    # The text of a function would contain its address.
    ids=lambda parameter: str(parameter) if isinstance(parameter, RunFilter) else "holds",
)  # fmt: skip
def test_what_is_found_is_what_matches(store: Engine, asked: RunFilter, holds: Callable[[Run], bool]) -> None:
    uids = expected(holds)
    table = queries.page(store, asked, rows=1000)
    assert set(table["uid"]) == uids
    tally = queries.tally(store, asked)
    assert tally["n_runs"].sum() == len(uids)
    by_status = tally.groupby("status")["n_runs"].sum()
    assert by_status.to_dict() == table["status"].value_counts().to_dict()
    assert tally.groupby("threads")["n_runs"].sum().to_dict() == table["threads"].value_counts().to_dict()


@pytest.mark.parametrize(
    "asked",
    [
        RunFilter(campaigns=("campaign-3",)),
        RunFilter(software=(OTHER_SOFTWARE,)),
        RunFilter(since="2026-01-03"),
    ],
    ids=str,
)
def test_tables_of_runs_have_those_of_a_search(store: Engine, asked: RunFilter) -> None:
    """Also with one version and the newest definition, which are then those of the selected runs."""
    uids = expected(lambda run: run.campaign.uid == "campaign-3")
    assert set(queries.runs(store, asked)["uid"]) == uids
    assert set(queries.runs(store, replace(asked, newest_definitions=True, versions="one"))["uid"]) == uids


def test_campaigns_and_software_of_runs(store: Engine) -> None:
    table = campaign_queries.campaigns(store)
    n_runs = table.groupby("campaign_uid")["n_runs"].sum().to_dict()
    assert n_runs == {uid: sum(run.campaign.uid == uid for run in RUNS) for uid in n_runs}
    assert campaign_queries.software_names(store) == [OTHER_SOFTWARE, "tmflow 0.1.0 at 0000000000"]
    runs, _ = campaign_queries.tracked_runs(store)
    tracked = [run for run in RUNS if run.experiment.scale == "full" and run.evidence == "measured"]
    assert set(runs["uid"]) == {run.uid for run in tracked}
    commits = dict(zip(runs["uid"], runs["git_commit"], strict=True))
    assert commits == {run.uid: run.software.git_commit for run in tracked}
    assert runs.groupby("campaign_uid")["place"].unique().map(list).to_dict() == {"campaign-1": [0], "campaign-3": [0]}


@pytest.mark.parametrize("text", ["%", "_", "/", "1%", "' OR 1=1 --", "no such words", A_RUN.uid[:3], "deadbeefg"])
def test_a_text_means_nothing_but_itself(store: Engine, text: str) -> None:
    assert queries.page(store, RunFilter(text=text)).empty
    assert queries.tally(store, RunFilter(text=text)).empty


def test_on_a_platform(store: Engine) -> None:
    slugs = set(queries.page(store, RunFilter(factors={"batch": (7,)}))["platform"])
    assert len(slugs) == 1
    assert set(queries.page(store, RunFilter(platforms=tuple(slugs)))["batch"]) == {7}


def key(run: Run, order: Order) -> float | str | None:
    """The key by which runs are sorted, as in a run file."""
    if order == "step_time":
        return run.loop_s / run.spec.iterations if run.loop_s and run.evidence != "emulated" else None
    return {"started": run.started_at_utc, "accuracy": run.final_accuracy, "threads": run.spec.threads}[order]


@pytest.mark.parametrize("asked", [RunFilter(), RunFilter(scales=("full",))], ids=["all", "some"])
@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("order", ["started", "step_time", "accuracy", "threads"])
def test_pages_follow_the_order_without_gap_or_overlap(
    store: Engine, order: Order, down: bool, asked: RunFilter
) -> None:
    whole = queries.page(store, asked, order, down=down, rows=1000)
    keys = [key(BY_UID[uid], order) for uid in whole["uid"]]
    known = [value for value in keys if value is not None]
    assert keys == sorted(known, reverse=down) + [None] * (len(keys) - len(known))
    assert (None in keys) == (order in ("step_time", "accuracy"))
    pages = [queries.page(store, asked, order, down=down, rows=20, offset=start) for start in range(0, len(whole), 20)]
    assert [uid for page in pages for uid in page["uid"]] == whole["uid"].tolist()
    assert queries.page(store, asked, order, down=down, offset=1000).empty


def test_a_page_tells_of_each_run_what_the_table_of_runs_does(store: Engine) -> None:
    row = queries.page(store, RunFilter(text=A_RUN.uid)).iloc[0]
    found_values = (row["uid"], row["round"], row["strategy"], row["loop_s"])
    assert found_values == (A_RUN.uid, A_RUN.round, A_RUN.spec.strategy, A_RUN.loop_s)


def test_a_search_of_the_newest_results_is_the_table_of_runs(store: Engine) -> None:
    assert set(queries.page(store, RESULTS, rows=1000)["uid"]) == set(queries.runs(store)["uid"])


def test_nothing_is_found_in_an_empty_database(url: URL) -> None:
    schema.upgrade(url)
    reader = engine.open_reader(url)
    assert queries.tally(reader, RunFilter()).empty
    assert queries.page(reader, RunFilter()).empty


def test_the_rounds_before_and_after_are_of_the_same_point(store: Engine) -> None:
    same = [run for run in RUNS if (run.experiment, run.spec) == (A_RUN.experiment, A_RUN.spec)]
    first, second, third = (run.uid for run in sorted(same, key=lambda run: run.round))
    assert queries.neighbours(store, first) == (None, second)
    assert queries.neighbours(store, second) == (first, third)
    assert queries.neighbours(store, third) == (second, None)
    assert queries.neighbours(store, "nowhere") == (None, None)


WALK = "SEARCH run USING COVERING INDEX ix_run_search (spec_id=?)"
TEXT = {
    "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH run USING INDEX ix_run_status_started_at_utc (status=?)",
    "SEARCH run USING COVERING INDEX sqlite_autoindex_run_3 (uid>? AND uid<?)",
}
SOME = RunFilter(("a",), ("full",), ("01234567",), ("box",), ("measured",), ("ok",), {"strategy": ("lock",)})


@contextmanager
def plans(reader: Engine) -> Iterator[list[list[str]]]:
    """SQLite's plan for each statement that is executed meanwhile."""
    found: list[list[str]] = []

    def explain(connection: Connection, _: object, statement: str, parameters: tuple[object, ...], *__: object) -> None:
        if statement.startswith("SELECT"):
            rows = connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.append([row[3] for row in rows])

    event.listen(reader, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        event.remove(reader, "before_cursor_execute", explain)


@pytest.mark.parametrize(
    ("ask", "by"),
    [
        (lambda reader: queries.tally(reader, RunFilter()), {WALK}),
        (lambda reader: queries.tally(reader, SOME), {WALK}),
        (lambda reader: queries.tally(reader, RunFilter(text="abcd")), TEXT),
        (lambda reader: queries.page(reader, RunFilter()), {"SCAN run USING INDEX ix_run_started_at_utc"}),
        *(
            (lambda reader, asked=asked, order=order: queries.page(reader, asked, order), {WALK})
            for asked in (RunFilter(statuses=("failed",)), SOME)
            for order in ("started", "step_time", "accuracy", "threads")
        ),
        (lambda reader: queries.page(reader, RunFilter(), "step_time"), {WALK}),
        (lambda reader: queries.page(reader, replace(SOME, text="abcd")), TEXT),
    ],
)
def test_each_question_walks_over_its_index(on_sqlite: Engine, ask: Callable[[Engine], object], by: set[str]) -> None:
    with plans(on_sqlite) as found:
        ask(on_sqlite)
    of_runs = {step for step in found[0] if step.split()[1] == "run"}
    assert by <= of_runs
    # Apart from these, only the runs of the page are looked up, by their keys.
    assert of_runs - by <= {
        "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH run USING COVERING INDEX sqlite_autoindex_run_3 (uid=?)",
    }
