"""The quantiles of the normal distribution in NumPy alone, for machines that have nothing more.

The method and its coefficients are those of `ndtri` of S. L. Moshier's Cephes library, which SciPy has too; a test
holds the two together, to the bit of the 32-bit numbers that variables are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

# The share of a normal distribution that lies below -2 and below 2 standard deviations.
BELOW_MINUS_TWO, BELOW_TWO = 0.022750131948179195, 0.9772498680518208

_TAIL = 0.13533528323661269189  # exp(-2): the other method begins there
_SQRT_2PI = 2.50662827463100050242
# Numerator and denominator, the latter without its leading 1: near the centre, and in the tails.
_CENTRE = (
    (-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
     -1.23916583867381258016e0),
    (1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
     2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0),
)  # fmt: skip
_TAILS = (
    (4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
     1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
     -8.57456785154685413611e-4),
    (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
     2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4),
)  # fmt: skip


def quantiles(shares: Reals) -> Reals:
    """Below how many standard deviations these shares of the distribution lie, from within 6e-15 to 1 - 6e-15."""
    low = shares <= _TAIL
    high = shares > 1 - _TAIL
    found = np.empty_like(shares)
    centre = shares[~(low | high)] - 0.5
    square = centre * centre
    above, below = (_polynomial(square, coefficients) for coefficients in _CENTRE)
    found[~(low | high)] = _SQRT_2PI * (centre + centre * (square * above / below))
    found[low] = -_tail(shares[low])
    found[high] = _tail(1 - shares[high])
    return found


def _tail(shares: Reals) -> Reals:
    deviations = np.sqrt(-2 * np.log(shares))
    inverse = 1 / deviations
    above, below = (_polynomial(inverse, coefficients) for coefficients in _TAILS)
    found: Reals = deviations - np.log(deviations) / deviations - inverse * above / below
    return found


def _polynomial(at: Reals, coefficients: Sequence[float]) -> Reals:
    """From the coefficient of the highest power on."""
    value = np.full_like(at, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * at + coefficient
    return value
