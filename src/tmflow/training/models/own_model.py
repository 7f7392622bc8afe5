"""A model of the user: only the shapes of its variables are known. `tmflow advise` trains it, and nothing here can."""

from __future__ import annotations

from tmflow.spec.shapes import parse_shapes, variable_name
from tmflow.spec.trial import TrialSpec
from tmflow.training.network import Network, Variable


def variables(spec: TrialSpec) -> list[Variable]:
    assert spec.shapes is not None, "a spec of this model has it"
    return [
        Variable(variable_name(number), shape.dimensions)
        for number, shape in enumerate(parse_shapes(spec.shapes), start=1)
    ]


NETWORK = Network(variables=variables)
