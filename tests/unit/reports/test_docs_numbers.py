"""The numbers of the docs pages: the schema of pages.yaml, the marked regions, and the text of a number."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended, grid, records, run
from tmflow.analysis.run_table import Loaded
from tmflow.base.documents import read_yaml
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.benchmark.page_numbers import SpeedPage, load_page
from tmflow.reports import docs_index
from tmflow.reports.pages.bundle_runs import Published, published_runs
from tmflow.reports.pages.cells import Numbers
from tmflow.reports.pages.fill import REGION, fill_regions
from tmflow.reports.pages.schema import Pages, Query, Table, check_pages, load_pages
from tmflow.reports.pages.tables import runs_text, table_text
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import Evidence

RAW = read_yaml(project_root() / "data" / "pages.yaml")


class Synthetic(Published):
    """Published runs that are in memory."""

    def __init__(self, runs: pd.DataFrame, **details: pd.DataFrame) -> None:
        self._all = records(runs, **details)

    def tables(self, experiment: str, evidence: Evidence) -> Loaded:
        return self._all


def query(measure: str, **given: Any) -> Query:
    return Query.model_validate({"experiment": "fig_4_1", "measure": measure, **given})


def text(runs: pd.DataFrame, asked_for: Query, **details: pd.DataFrame) -> str:
    return numbers_of(runs, **details).cell(asked_for, "here")


def numbers_of(runs: pd.DataFrame, **details: pd.DataFrame) -> Numbers:
    return Numbers({"a-machine": Synthetic(runs, **details)}, "a-machine")


NOLOCK = {"strategy": "tf_nolock", "threads": 4}


@pytest.mark.parametrize(
    ("asked_for", "expected"),
    [
        (query("time", where=NOLOCK, base={"strategy": "tf_lock"}, digits=2), "1.10"),
        (query("speed", where=NOLOCK, base={"strategy": "tf_lock"}, digits=3), "0.909"),
        (query("time", where=NOLOCK, base={"threads": 1}, digits=2), "0.25"),
        (query("speedup", where=NOLOCK), "4"),
        (query("speedup", where=NOLOCK, base={"strategy": "tf_lock"}, digits=2), "1.00"),
        (query("speedup_vs_tf_lock", where=NOLOCK, digits=2), "3.64"),
        (query("accuracy", where=NOLOCK), "0.903 [0.902, 0.905]"),
        (query("accuracy", where=NOLOCK, unit="%", digits=1), "90.3 [90.2, 90.5] %"),
        (query("accuracy", where={"strategy": "striped", "threads": 4}), ""),
    ],
)
def test_a_number_has_the_runs_of_its_factors_and_its_interval(asked_for: Query, expected: str) -> None:
    assert text(grid(), asked_for) == expected


def test_a_speedup_over_another_is_against_one_worker_of_each() -> None:
    runs = grid(("tf_lock", "tf_nolock"), (1, 4))
    slow_alone = (runs["strategy"] == "tf_lock") & (runs["threads"] == 1)
    runs.loc[slow_alone, "loop_s"] *= 2
    of_lock = query("speedup", where={"strategy": "tf_lock", "threads": 4}, base={"strategy": "tf_nolock"}, digits=2)
    assert text(runs, of_lock) == "2.00"
    ended(runs, slow_alone & (runs["round"] > 4), "failed", "it crashed")
    assert text(runs, of_lock) == "2.00, 4 of 6 rounds"
    ended(runs, slow_alone, "failed", "it crashed")
    assert text(runs, of_lock) == ""


def test_without_a_lost_update_the_rounds_are_counted() -> None:
    runs = grid(("lock",), (4,), measures="full")
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.0, "torn_fraction": [0.0, 0, 0, 0, 0, 0.03]})
    of_lock = {"where": {"strategy": "lock", "threads": 4}, "unit": "%", "digits": 1}
    assert text(runs, query("lost", **of_lock), full=full) == "none in 6 rounds"
    assert text(runs, query("torn", **of_lock), full=full) == "0.5 [0.0, 1.8] %"


def test_aborts_are_of_one_cause_and_times_to_one_accuracy() -> None:
    runs = grid(("htm",), (4,), **parameters_of("htm"), curve_points=2)
    transactions = pd.DataFrame({"uid": runs["uid"], "commits": 50, "fallbacks": 10, "attempts": 100})
    abort = {"mechanism": "rtm", "family": "capacity", "raw_code": "0x00000008", "n": 40}
    aborts = pd.DataFrame([{"uid": uid, **abort} for uid in runs["uid"]])
    of_htm = {"where": {"strategy": "htm", "threads": 4}}
    capacity = query("aborted", **of_htm, cause="capacity", unit="%", digits=0)
    assert text(runs, capacity, transactions=transactions, aborts=aborts) == "40 %"
    curves = pd.DataFrame(
        [(uid, step, step / 10, step / 20) for uid in runs["uid"] for step in (10, 20)],
        columns=["uid", "iteration", "elapsed_s", "accuracy"],
    )
    assert text(runs, query("time_to_accuracy", **of_htm, target=0.9, digits=1), curves=curves) == "1.8"


def test_the_step_of_a_cluster_has_phases_and_transfers() -> None:
    runs = grid(("lock",), (2,), driver="cluster")
    rows = [(uid, *row) for uid in runs["uid"] for row in (("send", 250.0, 2, 4000), ("apply", 40.0, None, None))]
    phases = pd.DataFrame(rows, columns=["uid", "phase", "phase_us", "transfers", "bytes"])
    of_lock = {"where": {"strategy": "lock", "threads": 2}, "digits": 0}
    assert text(runs, query("phases", **of_lock, phase="apply"), phases=phases) == "40"
    assert text(runs, query("step_transfers", **of_lock), phases=phases) == "2"
    assert text(runs, query("step_bytes", **of_lock), phases=phases) == "4,000"


def test_a_query_may_name_another_machine() -> None:
    machines: dict[str, Published] = {"one": Synthetic(grid()), "two": Synthetic(grid(("striped",)))}
    numbers = Numbers(machines, "one")
    of_striped = query("speedup", machine="two", where={"strategy": "striped", "threads": 4})
    assert numbers.cell(of_striped, "here") == "4"
    assert numbers.cell(of_striped.model_copy(update={"machine": None}), "here") == ""
    assert numbers.rounds(of_striped) == "fig_4_1 (6 rounds), measured on two"
    assert "two" in check_pages(change("values/x", {"claims": "measured", "machine": "two"})()).machines


def test_rounds_without_a_result_are_counted() -> None:
    runs = grid()
    of_nolock = (runs["strategy"] == "tf_nolock") & (runs["threads"] == 4)
    ended(runs, of_nolock & (runs["round"] > 4), "failed", "Diverged: not finite")
    where = query("accuracy", where=NOLOCK, digits=3)
    assert text(runs, where) == "0.902 [0.900, 0.905], 4 of 6 rounds"
    ended(runs, of_nolock, "failed", "Diverged: not finite")
    assert text(runs, where) == "0 of 6 rounds"


def test_the_base_of_another_strategy_needs_none_of_its_parameters() -> None:
    backoff = {**parameters_of("stm"), "manager": "backoff"}
    slow = grid(("stm",), (4,), **backoff).assign(loop_s=lambda runs: 3 * runs["loop_s"])
    where = {"strategy": "stm", "manager": "backoff", "threads": 4}
    runs = pd.concat([grid(("tf_lock",), (4,)), slow], ignore_index=True)
    assert text(runs, query("time", where=where, base={"strategy": "tf_lock"}, digits=2)) == "3.00"


def test_a_base_may_differ_in_several_factors_and_is_one_point() -> None:
    runs = pd.concat([grid(("lock", "striped"), (1, 4)), grid(("lock",), (1,), kernel="fused")], ignore_index=True)
    of_striped = query("time", where={"strategy": "striped", "threads": 4}, base={"strategy": "lock"}, digits=2)
    assert text(runs, of_striped) == "1.10"
    alone = of_striped.model_copy(update={"base": {"strategy": "lock", "threads": 1, "kernel": "fused"}})
    assert text(runs, alone) == "0.28"
    both = of_striped.model_copy(update={"base": {"strategy": "lock", "threads": 1}})
    with pytest.raises(BadInput, match=r"here, base: the runs differ in kernel; 'where' must name their values\."):
        text(runs, both)


def test_a_number_of_several_points_is_refused() -> None:
    with pytest.raises(BadInput, match=r"here: the runs differ in threads; 'where' must name their values\."):
        text(grid(), query("accuracy", where={"strategy": "tf_lock"}))


def test_elements_and_sizes_are_of_all_variables_or_of_one() -> None:
    runs = pd.DataFrame([run(strategy="htm", **parameters_of("htm"), matrix=100, round=r) for r in (1, 2)])
    counts = pd.DataFrame(
        [(uid, *row) for uid in runs["uid"] for row in (("W", 10, 0, 10), ("b", 10, 10, 0))],
        columns=["uid", "variable", "updates", "commits", "fallbacks"],
    )
    of_b = query("elements", where={"strategy": "htm"}, variable="b", unit="%")
    assert text(runs, of_b, variables=counts) == "100 %"
    together = query("elements", where={"strategy": "htm"}, unit="%", digits=2)
    assert text(runs, together, variables=counts) == "0.99 %"
    assert text(runs, query("size", where={"strategy": "htm"})) == "1,010"
    with pytest.raises(BadInput, match="here: the model has no variable 'V'"):
        text(runs, query("size", where={"strategy": "htm"}, variable="V"))


def test_a_table_names_its_rows_columns_and_rounds() -> None:
    table = Table.model_validate(
        {
            "corner": "workers",
            "query": {"experiment": "fig_4_1", "measure": "speedup", "digits": 1},
            "rows": {"two": {"where": {"threads": 2}}, "four": {"where": {"threads": 4}}},
            "columns": {"Lock": {"where": {"strategy": "tf_lock"}}},
        }
    )
    lines = ["| workers | Lock |", "| --- | --- |", "| two | 2.0 |", "| four | 4.0 |"]
    numbers = numbers_of(grid())
    source = "Runs: fig_4_1 (6 rounds), measured on a-machine."
    assert table_text(table, numbers, "t") == "\n".join([*lines, "", source])
    absent = table.model_copy(update={"columns": {"HTM": Query(where={"strategy": "htm"})}})
    with pytest.raises(BadInput, match="t: the row 'two' has no number"):
        table_text(absent, numbers, "t")


def test_the_table_of_runs_counts_what_has_no_result() -> None:
    runs = grid(("tf_lock",), (1,))
    ended(runs, runs["round"] == 2, "failed", "it crashed")
    assert "| fig_4_1 | measured | 6 | 6 | 5 | 1 failed | 0 | 2026-01-06 |" in runs_text(runs)


def change(path: str, value: Any) -> Callable[[], dict[str, Any]]:
    def changed() -> dict[str, Any]:
        raw = copy.deepcopy(RAW)
        *parents, last = path.split("/")
        at = raw
        for name in parents:
            at = at[name]
        at[last] = value
        return raw

    return changed


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (change("values/x", {"experiment": "e"}), "pages.yaml: values.x: 'measure' is missing"),
        (change("values/x", {"measure": "lost"}), "pages.yaml: values.x: 'experiment' is missing"),
        (change("values/x", {"experiment": "e", "measure": "time"}), "the measure 'time' needs 'base'"),
        (
            change("values/x", {"experiment": "e", "measure": "lost", "base": {"threads": 1}}),
            "the measure 'lost' has no 'base'",
        ),
        (
            change("values/x", {"experiment": "e", "measure": "time", "base": {}}),
            "'base' is empty, but should have the factors in which the base differs",
        ),
        (change("values/x", {"experiment": "e", "measure": "lost", "variable": "W"}), "has no 'variable'"),
        (change("values/x", {"experiment": "e", "measure": "lost", "where": {"thread": 1}}), "did you mean 'threads'"),
        (change("values/x", {"experiment": "e", "measure": "lost", "where": {"strategy": "lok"}}), "mean 'lock'"),
        (change("values/x", {"experiment": "e", "mesure": "lost"}), "unknown key"),
        (change("values/x", {"experiment": "e", "measure": "lost", "cause": "any"}), "'lost' has no 'cause'"),
        (change("values/x", {"experiment": "e", "measure": "aborted"}), "the measure 'aborted' needs 'cause'"),
        (change("values/x", {"experiment": "e", "measure": "aborted", "cause": "capcity"}), "did you mean 'capacity'"),
        (change("values/x", {"experiment": "e", "measure": "time_to_accuracy"}), "needs 'target'"),
        (change("values/x", {"experiment": "e", "measure": "phases"}), "needs 'phase'"),
        (change("values/x", {"experiment": "e", "measure": "phases", "phase": "sned"}), "did you mean 'send'"),
        (
            change("values/x", {"experiment": "e", "measure": "time_to_accuracy", "target": 0.8}),
            "'target' is 0.8; allowed: 0.9, 0.97",
        ),
        (change("values/claims", {"claims": "measured"}), "'claims' names a table and a value"),
        (change("tables/X", {"runs": "all"}), "tables.X"),
    ],
)
def test_a_fault_of_the_declarations_is_one_sentence(raw: Callable[[], dict[str, Any]], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_pages(raw())
    assert message in str(refused.value)


TABLES = {"one": lambda: "| a |\n| --- |"}
VALUES = {"pi": lambda: "3.1"}


def test_regions_are_filled_and_filling_again_changes_nothing() -> None:
    page = "Text.\n\n<!-- results: one -->\n\n<!-- end -->\n\nIt is <!-- value: pi -->old\nnumber<!-- end --> here.\n"
    filled = fill_regions(page, "page.md", TABLES, VALUES)
    assert "<!-- results: one -->\n\n| a |\n| --- |\n\n<!-- end -->" in filled
    assert "It is <!-- value: pi -->3.1<!-- end --> here." in filled
    assert fill_regions(filled, "page.md", TABLES, VALUES) == filled


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("x\n<!-- results: on -->\n<!-- end -->\n", "unknown table in page.md, line 2: 'on'"),
        ("It is <!-- value: one --><!-- end -->.\n", "unknown value in page.md, line 1: 'one'"),
        ("x\n<!-- value: pi --><!-- end --> it is.\n", "page.md, line 2: the marker of 'pi' begins a line"),
        ("<!-- results: one -->\n\ntext\n", "page.md, line 1: '<!-- results: one -->' has no other half"),
        ("text <!-- value: pi -->3\n", "'<!-- value: pi -->' has no other half"),
        ("text <!-- end -->\n", "'<!-- end -->' has no other half"),
        (
            "<!-- results: one -->\n<!-- results: one -->\n<!-- end -->\n",
            "line 1: '<!-- results: one -->' has no other",
        ),
    ],
)
def test_a_wrong_marker_is_refused_with_its_line(page: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        fill_regions(page, "page.md", TABLES, VALUES)
    assert message in str(refused.value)


def test_every_marker_of_the_docs_is_on_a_declared_page_with_a_declared_name() -> None:
    """The slow test of tests/reports compares the numbers; this one finds a misspelt name at once."""
    pages, root = load_pages(), project_root()
    declared: dict[str, Pages | SpeedPage] = dict.fromkeys(pages.pages, pages)
    declared["docs/speed.md"] = load_page(root)
    for path in [root / "README.md", *docs_index.docs_dir().rglob("*.md")]:
        if regions := list(REGION.finditer(path.read_text(encoding="utf-8"))):
            names = declared[path.relative_to(root).as_posix()]
            assert {match["table"] for match in regions} - {None} <= set(names.tables)
            assert {match["value"] for match in regions} - {None} <= set(names.values)


def test_a_table_that_times_htm_also_shows_how_much_its_transactions_updated() -> None:
    for name, table in load_pages().tables.items():
        if isinstance(table, Table):
            of_htm = [asked_for for _, _, asked_for in table.cells() if asked_for.where.get("strategy") == "htm"]
            if any(asked_for.measure in ("time", "speed", "speedup", "speedup_vs_tf_lock") for asked_for in of_htm):
                assert any(asked_for.measure == "elements" for asked_for in of_htm), name


def test_the_portal_does_not_show_markers() -> None:
    assert docs_index.without_comments("It is <!-- value: pi -->3<!-- end -->, `<!-- end -->`.") == (
        "It is 3, `<!-- end -->`."
    )
    for page in docs_index.pages().values():
        assert not any("<!-- value" in section.text for section in page.sections)


def test_a_folder_without_bundles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no bundle"), published_runs(tmp_path):
        pass
