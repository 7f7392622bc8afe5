"""The plan that all rules draw on: made from config.yaml by the package."""

import os
import sys
from pathlib import Path
from shlex import quote

from snakemake.exceptions import WorkflowError

from tmflow.errors import BadInput
from tmflow.paths import results_dir
from tmflow.study.config import check_study
from tmflow.study.plan import Plan

SCALE = config.get("scale", "full")
RESULTS = Path(os.path.relpath(results_dir()))

# The rules call the `tmflow` of the environment that Snakemake itself runs in, activated or not.
shell.prefix(f"set -euo pipefail; export PATH={quote(str(Path(sys.executable).parent))}:$PATH; ")

try:
    PLAN = Plan(check_study({key: value for key, value in config.items() if key != "scale"}), SCALE, RESULTS)
except BadInput as error:
    raise WorkflowError(str(error)) from error


wildcard_constraints:
    experiment="|".join(PLAN.experiments),
    definition="[0-9a-f]{12}",
    number=r"\d+",


def definition(experiment):
    return PLAN.study.definition_id(experiment, SCALE)


def ingested(wildcards):
    return RESULTS / f"ingested/{SCALE}/{wildcards.experiment}-{definition(wildcards.experiment)}.json"


def all_figures():
    return [RESULTS / f"figures/{experiment}" for experiment in PLAN.experiments]


def all_tables():
    return [RESULTS / f"tables/{experiment}.html" for experiment in PLAN.experiments]
