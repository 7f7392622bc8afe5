"""`snakemake --sdm conda`: each step runs in the conda environment, with the package of the checkout.

The tests do not need conda. A stand-in answers the few commands that Snakemake calls, and its environment has a Python
that records its arguments. Conda's solving and downloading are not tested.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, TINY, Checkout, environment

pytestmark = pytest.mark.slow

CONDA = """\
#!/bin/sh
case "$1 $2" in
  "--version "*) echo conda 25.1.0 ;;
  "info --json") echo '{info}' ;;
  "config --get") echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
  "clean -y") ;;
  "env create")
    while [ "$1" != --prefix ]; do shift; done
    mkdir -p "$2/bin" && cp {python} "$2/bin/python" ;;
  *) echo "the stand-in for conda does not know: $*" >&2; exit 1 ;;
esac
"""
PYTHON = """\
#!/bin/sh
echo "$PYTHONPATH $*" >> {calls}
exec {real} "$@"
"""


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    """The folder of programs of a stand-in for conda."""
    programs = tmp_path / "conda" / "bin"
    programs.mkdir(parents=True)
    info = json.dumps({"conda_prefix": str(programs.parent), "platform": "linux-64"})
    python = tmp_path / "python"
    python.write_text(PYTHON.format(calls=shlex.quote(str(tmp_path / "calls")), real=shlex.quote(sys.executable)))
    python.chmod(0o755)
    (programs / "conda").write_text(CONDA.format(info=info, python=shlex.quote(str(python))))
    (programs / "conda").chmod(0o755)
    (programs / "activate").write_text('export PATH="$1/bin:$PATH"\n')
    return programs


def snakemake(checkout: Checkout, conda: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(conda), os.environ["PATH"]])
    command = [sys.executable, "-m", "snakemake", *arguments, "--sdm", "conda"]
    variables = environment(**checkout.variables, PATH=path)
    return subprocess.run(
        command, cwd=checkout.root, env=variables, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("snakefile", ["Snakefile", "workflow/Snakefile"])
def test_a_dry_run_plans_every_rule_with_the_environment(
    tmp_path: Path, conda: Path, checkout_at: type[Checkout], snakefile: str
) -> None:
    done = snakemake(checkout_at(tmp_path / "checkout", TINY), conda, "--dry-run", "--snakefile", snakefile)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Conda environment envs/conda.yaml will be created." in done.stdout + done.stderr
    assert "rule report:" in done.stdout + done.stderr


def test_a_step_runs_with_the_python_of_the_environment_and_the_package_of_the_checkout(
    tmp_path: Path, conda: Path, checkout_at: type[Checkout]
) -> None:
    checkout = checkout_at(tmp_path / "check out", TINY)
    (checkout.root / "src").symlink_to(ROOT / "src")
    done = snakemake(checkout, conda, "results/platform.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (checkout.results / "platform.json").is_file()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert f"{checkout.root / 'src'} -m tmflow step probe results/platform.json" in calls


def test_the_catalog_names_the_deployment_that_the_rules_have() -> None:
    """Every rule that runs something has an environment, so the catalog may state that conda works."""
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["software-stack-deployment"] == {"conda": True, "apptainer": False, "apptainer+conda": False}
    rules = [
        rule for path in (ROOT / "workflow" / "rules").glob("*.smk") for rule in path.read_text().split("\nrule ")[1:]
    ]
    assert rules
    assert all('conda:\n        "../../envs/conda.yaml"' in rule for rule in rules)
