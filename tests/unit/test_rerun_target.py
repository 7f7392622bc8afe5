"""A single experiment is asked for by a name that config.yaml has."""

from __future__ import annotations

import pytest

from tmflow.errors import BadInput
from tmflow.study.rerun import require_known

EXPERIMENTS = ("fig-4.1", "fig-4.10")


def test_an_experiment_that_is_not_planned_is_told() -> None:
    with pytest.raises(BadInput, match=r"unknown experiment 'fig-9\.9'.*; valid: fig-4\.1, fig-4\.10\."):
        require_known(["--dry-run", "results/figures/fig-9.9"], EXPERIMENTS)


def test_what_is_planned_and_options_of_snakemake_pass() -> None:
    require_known(["results/figures/fig-4.10/", "--dry-run", "results/report.html"], EXPERIMENTS)
