"""The plan of the study, which all rules use; the package makes it from config.yaml."""

import os
import re
import sys
from pathlib import Path
from shlex import quote

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.study.config import check_study
from tmflow.study.plan import Plan

SCALE = config.get("scale", "full")
RESULTS = Path(os.path.relpath(results_dir()))

# With `--sdm conda`, Snakemake activates envs/conda.yaml before each step. That environment has the dependencies but
# not tmflow, so its Python runs the package of this checkout. Otherwise the rules call the `tmflow` of the environment
# that Snakemake itself runs in, activated or not.
if DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method:
    FIND_TMFLOW = (
        f"export PYTHONPATH={quote(str(project_root() / 'src'))}; tmflow() {{{{ python -m tmflow \"$@\"; }}}}; "
    )
else:
    FIND_TMFLOW = f"export PATH={quote(str(Path(sys.executable).parent))}:$PATH; "
shell.prefix(f"set -euo pipefail; {FIND_TMFLOW}")

try:
    PLAN = Plan(check_study({key: value for key, value in config.items() if key != "scale"}), SCALE, RESULTS)
except BadInput as error:
    raise WorkflowError(str(error)) from error


wildcard_constraints:
    experiment="|".join(map(re.escape, PLAN.experiments)),
    definition="[0-9a-f]{12}",
    number=r"\d+",
    notebook=r"\w+",


def definition(experiment):
    return PLAN.definition_id(experiment)


def round_priority(wildcards):
    return PLAN.priority(wildcards.experiment, int(wildcards.number))


def ingested(wildcards):
    """The file that marks the runs as stored: those of the experiment, or of the experiment whose runs it uses."""
    source = PLAN.source(wildcards.experiment)
    return RESULTS / f"ingested/{SCALE}/{source}-{definition(source)}.json"


def shown(wildcards):
    """The selection that the figures and the table of an experiment show; if it changes, they are drawn again."""
    return PLAN.study.experiments[wildcards.experiment].shown()


def native_sources():
    """The sources of the native libraries, without their tests."""
    return sorted(path for path in Path("native_ops").rglob("*") if path.is_file() and "tests" not in path.parts)


def all_rounds():
    """All run files, by name: Snakemake does not restore a deleted one if the figures made from it exist."""
    return [path for experiment in PLAN.experiments for path in PLAN.run_files(experiment)]


def all_figures():
    return [RESULTS / f"figures/{experiment}" for experiment in PLAN.experiments]


def all_ingested():
    sources = dict.fromkeys(PLAN.source(experiment) for experiment in PLAN.experiments)
    return [RESULTS / f"ingested/{SCALE}/{source}-{definition(source)}.json" for source in sources]


def bundles():
    """The bundles of contributed runs that came with the checkout."""
    return sorted(Path("contrib").glob("*/*.zip"))


def contributed():
    """The file that marks the contributed runs as stored, if there are any."""
    return [RESULTS / "ingested/contributions.json"] if bundles() else []


def all_notebooks():
    return [RESULTS / path for path in sorted(Path("notebooks").glob("*.ipynb"))]


def all_tables():
    return [RESULTS / f"tables/{experiment}.html" for experiment in PLAN.experiments]
