"""A curve as one number a round, for claims of what is so on average."""

from __future__ import annotations

import numpy as np

from tmflow.claims.statements import Curve, Values


def over_threads(curve: Curve) -> Values:
    """The geometric mean over all numbers of workers, for each round."""
    means: Values = np.exp(np.log(curve.values).mean(axis=0))
    return means
