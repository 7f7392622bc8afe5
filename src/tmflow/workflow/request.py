"""The request of a call of `tmflow study run`: experiments by name, other targets, options of Snakemake."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root
from tmflow.study.plan import Plan

# Rules of the workflow without wildcards: Snakemake accepts their names as targets.
RULES = ("all", "build", "contributions", "data", "probe_platform", "report")
# Files and folders that the workflow writes to the results folder.
OUTPUTS = ("build", "data", "figures", "ingested", "notebooks", "platform.json", "report.html", "runs", "tables")
DRY_RUN = ("-n", "-np", "--dry-run", "--dryrun")


@dataclass(frozen=True)
class Request:
    """The experiments and targets to make; the whole study if both are empty."""

    experiments: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def is_dry_run(self) -> bool:
        return not set(DRY_RUN).isdisjoint(self.options)

    @property
    def is_whole_study(self) -> bool:
        return not (self.experiments or self.targets)

    @property
    def is_by_name(self) -> bool:
        """Whether the request names only experiments."""
        return bool(self.experiments) and not self.targets

    def sources(self, plan: Plan) -> list[str]:
        """The experiments whose runs the request needs: the sources of the named experiments, or all."""
        if not self.is_by_name:
            return plan.experiments
        return list(dict.fromkeys(map(plan.source, self.experiments)))

    def arguments(self, plan: Plan) -> list[str]:
        """The arguments for Snakemake. Targets come first, so that no option can take them as its values.

        Run files are targets, too: Snakemake does not restore a missing one if its figures exist.
        """
        sources = dict.fromkeys(map(plan.source, self.experiments))
        run_files = [path.relative_to(plan.results) for name in sources for path in plan.run_files(name)]
        figures = [PurePath("figures", name) for name in self.experiments]
        return [*(_target(plan, path) for path in (*run_files, *figures)), *self.targets, *self.options]


def parse_request(plan: Plan, arguments: Sequence[str]) -> Request:
    """Parse the words of a command line to a request.

    A path in the results folder is a target before the first option, after `--option=value` and after `--dry-run`;
    elsewhere it is the value of an option. The name of an experiment is always a target. Raises BadInput for an
    experiment that the plan does not have, and for a file that the workflow does not make.
    """
    experiments: list[str] = []
    targets: list[str] = []
    options: list[str] = []
    is_target = True
    for word in arguments:
        if word.startswith("-"):
            options.append(word)
            is_target = word in DRY_RUN or "=" in word
        elif not is_target and word not in plan.experiments:
            options.append(word)
        elif (name := _experiment(plan, word)) in plan.experiments:
            experiments.append(str(name))
        else:
            targets.append(_other_target(plan, word, name))
    return Request(tuple(dict.fromkeys(experiments)), tuple(dict.fromkeys(targets)), tuple(options))


def _experiment(plan: Plan, word: str) -> str | None:
    """The experiment that a word names, directly or by a path of its figures or table; it may not exist."""
    if "/" not in word:
        return word if word in plan.study.experiments else None
    match _inside(plan, word):
        case PurePath(parts=("figures", name, *_)):
            return str(name)
        case PurePath(parts=("tables", name)):
            return str(name).removesuffix(".html")
    return None


def _other_target(plan: Plan, word: str, name: str | None) -> str:
    """The target of Snakemake for a word that names no experiment of this scale. Raises BadInput if there is none."""
    if name in plan.study.experiments:
        raise BadInput(f"config.yaml leaves out experiment '{name}' at scale {plan.scale}: run it at scale full.")
    if name is None and word in RULES:
        return word
    if name is not None or "/" not in word:
        raise unknown("experiment", name or word, plan.experiments)
    path = _inside(plan, word)
    if path is None or not path.parts or path.parts[0] not in OUTPUTS:
        raise BadInput(
            f"'{word}' is nothing that the study makes; name an experiment ({', '.join(plan.experiments)}) or a file "
            f"of the results, such as results/report.html."
        )
    return _target(plan, path)


def _inside(plan: Plan, word: str) -> PurePath | None:
    """The path relative to the results folder, or None if it is outside; `results/` always means that folder."""
    path = PurePath(word)
    if path.parts[0] == "results":
        return path.relative_to("results")
    inside = os.path.relpath(Path(word).absolute(), plan.results.absolute())
    return None if inside.startswith("..") else PurePath(inside)


def _target(plan: Plan, path: PurePath) -> str:
    """The target as in the Snakefile: relative to the project's folder, where Snakemake runs."""
    return os.path.relpath(plan.results / path, project_root())
