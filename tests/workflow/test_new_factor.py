"""A factor is one field, and is then available everywhere: the field of docs/add-a-factor.md, in a separate checkout.

The database already has older runs without the factor, and is not upgraded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, TINY, Checkout, Tmflow

pytestmark = pytest.mark.slow

FIRST = '    strategy: str = Field(description="how concurrent updates are kept apart; see variants.json")\n'
SMALL = ("--driver", "native", "--dataset", "digits", "--iterations", "50", "--batch", "5", "--threads", "2", "--json")

# Run with the package of the checkout: how store, portal and charts show the factor.
ASKING = """
import json, sys
from sqlalchemy import make_url
from streamlit.testing.v1 import AppTest
from tmflow.charts.captions import workload
from tmflow.store import engine, queries, run_detail
from tmflow.store.run_filter import RunFilter

reader = engine.open_reader(make_url(sys.argv[1]))
runs = queries.runs(reader, RunFilter()).set_index("uid")
chosen = queries.runs(reader, RunFilter(factors={"schedule": ["decay"]}))
found = queries.page(reader, RunFilter(factors={"schedule": ["constant"]}))
counts = queries.tally(reader, RunFilter()).groupby("schedule")["n_runs"].sum()
page = AppTest.from_file(sys.argv[2], default_timeout=120)
page.query_params["schedule"] = "decay"
page.switch_page("views/runs.py").run()
assert not page.exception, page.exception
(filtered,) = (box for box in page.multiselect if box.label == "Schedule")
print(json.dumps({
    "schedule": runs["schedule"].to_dict(),
    "chosen": list(chosen["uid"]),
    "found": list(found["uid"]),
    "counts": counts.to_dict(),
    "stored": {uid: run_detail.run(reader, uid)["spec"]["schedule"] for uid in runs.index},
    "options": filtered.options,
    "captions": {uid: workload(run) for uid, run in runs.iterrows()},
}, default=int))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory, checkout_at: type[Checkout]) -> Checkout:
    """A checkout with the field of the docs."""
    checkout = checkout_at(tmp_path_factory.mktemp("factor") / "checkout", _with_schedules("constant", "decay"))
    shutil.copytree(ROOT / "src", checkout.root / "src")
    (field,) = re.findall("```python\n(.*?)```", (ROOT / "docs" / "add-a-factor.md").read_text(), re.DOTALL)
    declarations = checkout.root / "src" / "tmflow" / "spec" / "factors.py"
    text = declarations.read_text(encoding="utf-8")
    assert text.count(FIRST) == 1
    declarations.write_text(text.replace(FIRST, FIRST + field), encoding="utf-8")
    return checkout


@pytest.fixture(scope="module")
def variables(extended: Checkout) -> dict[str, Any]:
    return {**extended.variables, "PYTHONPATH": extended.root / "src"}


def test_help_errors_and_the_plan_know_it(tmflow: Tmflow, variables: dict[str, Any]) -> None:
    text = " ".join(tmflow("train", "--help", **variables).stdout.split())
    assert "--schedule <str> Of the learning rate (constant, decay); if not given, constant." in text
    refused = tmflow("train", "--schedule", "cosine", **variables)
    assert refused.returncode == 2
    assert "schedule is 'cosine', but should be 'constant' or 'decay'." in refused.stderr
    planned = tmflow("study", "plan", "--json", **variables)
    assert planned.returncode == 0, planned.stderr
    (row,) = json.loads(planned.stdout)
    assert row["trials"] % 2 == 0


def test_it_is_stored_beside_runs_of_before_it_was_a_factor(
    extended: Checkout, tmflow: Tmflow, variables: dict[str, Any], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    before = {**extended.variables, "TMFLOW_DB_URL": url}
    after = {**variables, "TMFLOW_DB_URL": url}
    uids = {}
    for name, environment, options in (
        ("old", before, ()),
        ("constant", after, ("--schedule", "constant")),
        ("decay", after, ("--schedule", "decay")),
    ):
        file = tmp_path / f"{name}.jsonl"
        done = tmflow("train", *SMALL, *options, "--save-file", file, **environment)
        assert done.returncode == 0, done.stderr
        stored = tmflow("ingest", file, **environment)
        assert stored.returncode == 0, stored.stderr
        uids[name] = json.loads(file.read_text())["uid"]
    checked = tmflow("db", "check", **after)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    command = [sys.executable, "-P", "-c", ASKING, url, ROOT / "portal" / "app.py"]
    environment = {name: str(value) for name, value in {**os.environ, **after}.items() if value is not None}
    asked = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout.splitlines()[-1])
    assert answer["schedule"] == {uids["old"]: "constant", uids["constant"]: "constant", uids["decay"]: "decay"}
    assert answer["stored"] == answer["schedule"]
    assert answer["chosen"] == [uids["decay"]]
    assert sorted(answer["found"]) == sorted([uids["old"], uids["constant"]])
    assert answer["counts"] == {"constant": 2, "decay": 1}
    assert answer["options"] == ["constant (2)", "decay (1)"]
    assert "schedule decay" in answer["captions"][uids["decay"]]
    assert "schedule" not in answer["captions"][uids["old"]]


def _with_schedules(*names: str) -> dict[str, Any]:
    factors = TINY["experiments"]["tiny"]["factors"] | {"schedule": list(names)}
    return TINY | {"experiments": {"tiny": TINY["experiments"]["tiny"] | {"factors": factors}}}
