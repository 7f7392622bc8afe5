"""The quantiles of the normal distribution are SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from tmflow.spec.models import truncated_normal
from tmflow.training import normal


@pytest.mark.parametrize("seed", range(3))
def test_variables_have_the_bits_that_scipy_gives_them(seed: int) -> None:
    """Of 3 million elements, as those of mnist_deep: their runs have been compared with those since the first."""
    shape = (3136, 1024)
    drawn = np.random.default_rng(seed).uniform(ndtr(-2), ndtr(2), shape)
    ours = truncated_normal(shape, np.random.default_rng(seed))
    np.testing.assert_array_equal(ours.astype(np.float32), (0.1 * ndtri(drawn)).astype(np.float32))


def test_the_whole_distribution() -> None:
    shares = np.concatenate([np.linspace(1e-14, 1 - 1e-14, 100_001), np.geomspace(1e-14, 0.5, 10_001)])
    np.testing.assert_allclose(normal.quantiles(shares), ndtri(shares), rtol=2e-13, atol=1e-15)
