"""With one thread every variant computes the same bits as the plain loop, for all kinds of numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from variants import STRATEGIES, variants_of

from tmflow.native import loader

BITS = {np.float32: np.uint32, np.float64: np.uint64}
ALPHAS = [0.3, -1.0, 0.0, -0.0, 1e-30, 3e38]


def special(dtype: Any) -> NDArray[Any]:
    """Zeros, ones, the limits of the range, denormals and infinities of both signs, and NaNs with several payloads."""
    facts, bits = np.finfo(dtype), BITS[dtype]
    sign, exponent = bits(1) << bits(8 * facts.dtype.itemsize - 1), np.array(np.inf, dtype).view(bits)
    quiet = exponent | (bits(1) << bits(facts.nmant - 1))
    nans = np.array([quiet, quiet | bits(5), quiet | sign | bits(77), exponent | bits(1)], bits).view(dtype)
    sizes = [0.0, 1.0, 1 / 3, facts.max, facts.tiny, facts.smallest_subnormal, 5 * facts.smallest_subnormal, np.inf]
    return np.concatenate([np.array(sizes, dtype), -np.array(sizes, dtype), nans])


def numbers(dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Variable and gradient: all pairs of special numbers, then random numbers, up to an odd length."""
    pairs = np.array(list(itertools.product(special(dtype), repeat=2)), dtype)
    random = np.random.default_rng(3).normal(size=(1003 - len(pairs), 2)).astype(dtype)
    variable, delta = np.concatenate([pairs, random]).T
    return np.ascontiguousarray(variable), np.ascontiguousarray(delta)


def plain_loop(variable: NDArray[Any], alpha: Any, delta: NDArray[Any]) -> NDArray[Any]:
    """One element after another; the product is rounded before the subtraction."""
    with np.errstate(all="ignore"):
        return np.array([v - alpha * d for v, d in zip(variable, delta, strict=True)], variable.dtype)


def skipping_loop(variable: NDArray[Any], alpha: Any, delta: NDArray[Any]) -> NDArray[Any]:
    """The same, but an element whose product is zero is not written: -0 stays -0."""
    with np.errstate(all="ignore"):
        return np.where(alpha * delta == 0, variable, plain_loop(variable, alpha, delta))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_thread_computes_the_bits_of_the_plain_loop(strategy: str, dtype: Any) -> None:
    before, delta = numbers(dtype)
    loops = (plain_loop, skipping_loop)
    expected = [(alpha, *(loop(before, dtype(alpha), delta) for loop in loops)) for alpha in ALPHAS]
    for variant, (alpha, of_plain, of_skipping) in itertools.product(variants_of(strategy), expected):
        values = of_skipping if "kernel=skip_zero" in variant.parameters else of_plain
        array = before.copy()
        region = loader.core().Region(array)
        region.apply(strategy, alpha, delta, parameters=variant.parameters)
        region.settle()
        bits = BITS[dtype]
        wrong = np.flatnonzero(array.view(bits) != values.view(bits))
        examples = [(before[i], delta[i], array[i], values[i]) for i in wrong[:3]]
        assert wrong.size == 0, f"{variant}, alpha {alpha}: (variable, delta, result, expected) {examples}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_nan_or_an_infinity_in_the_gradient_stays_where_it_is(strategy: str) -> None:
    for variant in variants_of(strategy):
        array, delta = np.ones(100, np.float32), np.ones(100, np.float32)
        delta[[3, 50, 99]] = np.nan, np.inf, -np.inf
        region = loader.core().Region(array)
        region.apply(strategy, 1, delta, parameters=variant.parameters)
        region.settle()
        assert np.isnan(array[3]), str(variant)
        assert (array[50], array[99]) == (-np.inf, np.inf), str(variant)
        assert not np.delete(array, [3, 50, 99]).any(), str(variant)
