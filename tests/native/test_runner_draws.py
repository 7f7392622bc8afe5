"""The static program draws the same random numbers as Python, to the bit, and classifies aborts alike."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import cast

import cpp
import numpy as np
import pytest
from runner import EMULATORS, FOREIGN, Ask, Program, asking

from tmflow.benchmark.plan import shuffled_turns
from tmflow.spec import abort_codes
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import batch_starts
from tmflow.training.models import load_network

pytestmark = pytest.mark.slow

IMAGES = 55_000
SEEDS = [0, 1, 2017, 2**31 - 1]


@pytest.fixture(scope="module", params=["here", *FOREIGN])
def ask(request: pytest.FixtureRequest, builds: cpp.Builds) -> Ask:
    return asking(
        Program(builds.built(request.param, "runner_draws") / "runner" / "runner_draws", EMULATORS[request.param])
    )


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_permutations_are_numpys(ask: Ask, stream: int) -> None:
    sizes = [1, 2, 3, 17, 549, IMAGES]
    for seed in SEEDS:
        questions = [{"seed": seed, "stream": stream, "n": n} for n in sizes]
        for n, found in zip(sizes, ask("permutation", *questions), strict=True):
            assert found == np.random.default_rng([seed, stream]).permutation(n).tolist(), (seed, n)


def test_batches_begin_where_pythons_do(ask: Ask) -> None:
    for seed in SEEDS:
        for batch, steps in ((1, 60_000), (10, 12_000), (100, 2_000), (IMAGES - 1, 5), (IMAGES, 5)):
            (found,) = ask("starts", {"seed": seed, "batch": batch, "steps": steps})
            assert found == batch_starts(seed, IMAGES, batch, steps).tolist(), (seed, batch)


def test_a_batch_that_does_not_fit_is_refused(ask: Ask) -> None:
    (refused,) = ask("starts", {"seed": 0, "batch": IMAGES + 1, "steps": 1})
    assert refused == {"error": "a batch of 55001 does not fit a training set of 55000 images"}


def test_initial_values_are_pythons(ask: Ask) -> None:
    for seed in (0, 2017):
        (found,) = ask("initial", {"seed": seed, "matrix": 784, "hidden": 128})
        spec = cast(TrialSpec, SimpleNamespace(matrix=784, hidden=128))
        for own, values in zip(load_network("mnist_mlp").initial_values(spec, seed), found, strict=True):
            assert (own.ravel() == np.array(values, np.float32)).all(), seed


def test_a_round_is_shuffled_as_python_shuffles_it(ask: Ask) -> None:
    for seed in (0, 1, 12345, 2**32 - 1):
        for n in (0, 1, 2, 15, 279, 5000):
            items = list(range(n))
            random.Random(seed).shuffle(items)
            assert ask("shuffled", {"seed": seed, "items": list(range(n))}) == [items]


def test_the_turns_of_a_benchmark_are_pythons(ask: Ask) -> None:
    cells = [[[cell, variant] for variant in range(3 + cell)] for cell in range(5)]
    for seed, number in ((0, 1), (0, 2), (2017, 12), (2**31 - 1, 1000)):
        expected = shuffled_turns(cells, seed, number)
        assert expected != [turn for cell in cells for turn in cell]
        assert ask("turns", {"cells": cells, "seed": seed, "number": number}) == [expected]


def test_aborts_are_of_the_families_that_python_gives_them(ask: Ask) -> None:
    """RTM: every pattern of bits with every code of XABORT. TEXASR: every pattern of the deciding bits; all codes;
    noise.
    """
    rtm = [bits | code << 24 for bits in range(1 << 6) for code in range(256)]
    deciding = [8, 9, 10, 11, 12, 13, 14, 15, 16, 31]  # numbered from the highest bit
    patterns = [sum(1 << 63 - bit for n, bit in enumerate(deciding) if pattern >> n & 1) for pattern in range(1 << 10)]
    by_instruction = [1 << 32 | code << 56 for code in range(256)]
    noise = np.random.default_rng(5).integers(0, 2**64, 5_000, dtype=np.uint64).tolist()
    statuses = {
        "rtm": rtm,
        "power": [*patterns, *(pattern | 30 << 56 for pattern in patterns), *by_instruction, *noise],
        **{mechanism: list(range(12)) for mechanism in ("stm", "itm", "tle")},
    }
    for mechanism, raw in statuses.items():
        (found,) = ask("families", {"mechanism": mechanism, "statuses": [f"{status:x}" for status in raw]})
        described = [abort_codes.classify(mechanism, status) for status in raw]
        assert found == [[one["raw_code"], one["family"]] for one in described]
