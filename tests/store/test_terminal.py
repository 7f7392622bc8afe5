"""Untrusted names in the output of commands: none of their characters moves the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.cli import app

ESCAPE = "\x1b]0;title\x07\x1b[2J"


@pytest.mark.parametrize(
    "command",
    [["bundle", "verify", "FILE"], ["bundle", "import", "FILE"], ["bundle", "list"]],
    ids=" ".join,
)
def test_no_escape_sequence_is_printed(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    runs = sample_runs(("fig-4.1",), ("tf_lock", "tf_nolock"), platform={"cpu_model": f"a {ESCAPE} machine"})
    path = sample_bundle(tmp_path / "made", runs, name=f"{ESCAPE.replace('/', '')}.zip", probe=None)
    run = CliRunner().invoke
    assert run(app, ["bundle", "import", str(path)]).exit_code == 0
    done = run(app, [word.replace("FILE", str(path)) for word in command])
    assert done.output.strip()
    assert "\x1b" not in done.output
    assert "\x07" not in done.output
