"""Parameters of strategies: the tables of the project and of the library agree, and wrong parameters are named."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
from annotated_types import Ge, Le
from graphs import session_of, tf, tf1

from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import loader, ops, registry
from tmflow.spec.strategies import FITTING_BLOCKS, KEEPING_ELSEWHERE, PARAMETERS, STRATEGY_PARAMETERS
from tmflow.spec.trial import TrialSpec

# A spec names a machine, the library gets its numbers.
NATIVE_NAMES = {"profile": "machine"}
# What the library takes for a parameter that a spec does not have.
WITHOUT = {"chunk": "0"}
# Known only to the process that the strategy runs in; not parameters of the native library.
OF_THE_PROCESS = frozenset({"library"})
OPERATIONS = ["tmflow_apply_gradient_descent", "tmflow_resource_apply_gradient_descent"]
WRONG = [
    ("lock", "budget=5", "strategy 'lock' has no parameter 'budget'; it has: chunk, kernel, optimisation"),
    ("htm", "buget=5", "strategy 'htm' has no parameter 'buget'; it has: provider, machine, budget, spending"),
    ("htm", "budget", "parameter 'budget' is not of the form name=value"),
    ("htm", "budget=-1", "budget of strategy 'htm' is '-1'; allowed: 0 to 1000000"),
    ("htm", "budget=five", "budget of strategy 'htm' is 'five'; allowed: 0 to 1000000"),
    ("htm", "provider=tsx", "provider of strategy 'htm' is 'tsx'; allowed: rtm, power, emulated"),
    ("htm", "machine=x", "the emulated machine: 'x' is not of the form name=value"),
    ("htm", "provider=emulated", "provider emulated of strategy 'htm' needs a machine"),
    ("htm_if_fits", "fits=-1", "fits of strategy 'htm_if_fits' is '-1'; allowed: 0 to 1000000000"),
    ("htm_if_fits", "provider=emulated", "provider emulated of strategy 'htm_if_fits' needs a machine"),
    ("htm", "subscription=theirs", "subscription of strategy 'htm' is 'theirs'; allowed: variable, slots, ours"),
    ("itm", "method=ml_tw", "method of strategy 'itm' is 'ml_tw'; allowed: gl_wt, ml_wt, serialirr, serialirr_onwrite"),
    ("itm", "kernel=plain", "strategy 'itm' has no parameter 'kernel'; it has: method, optimisation"),
    ("tle", "tunables=none", "tunables of strategy 'tle' is 'none'; allowed: default, custom"),
    ("stm", "design=wbetl", "design of strategy 'stm' is 'wbetl'; allowed: wb_etl, wb_ctl, wt"),
    ("stm", "kernel=plain", "'kernel'; it has: design, manager, instrumentation, chunk, optimisation"),
    ("htm", "spending=", "spending of strategy 'htm' is ''; allowed: study_tsx, study_power, tuned"),
]


def test_the_table_is_the_library_s() -> None:
    library = {row["name"]: {p["name"]: p["fallback"] for p in row["parameters"]} for row in loader.core().strategies()}
    table = {
        name: {
            NATIVE_NAMES.get(p, p): WITHOUT.get(p, "") if value is None else str(value)
            for p, value in own.items()
            if p not in OF_THE_PROCESS
        }
        for name, own in STRATEGY_PARAMETERS.items()
    }
    assert {name: own for name, own in library.items() if own} == table


def allowed_by_spec(name: str) -> str:
    """The values that a spec allows, in the library's notation."""
    field = TrialSpec.model_fields[name]
    words = [word for kind in get_args(field.annotation) for word in get_args(kind)]
    if words:
        return ", ".join(words)
    (low,) = (bound.ge for bound in field.metadata if isinstance(bound, Ge))
    (high,) = (bound.le for bound in field.metadata if isinstance(bound, Le))
    return f"{low} to {high}"


def test_a_spec_allows_what_the_library_allows() -> None:
    library: dict[str, set[str]] = {}
    for variant in registry.variants():
        for parameter in variant.parameters:
            library.setdefault(parameter.name, set()).add(parameter.allowed)
    shared = [name for name in PARAMETERS if name not in {*NATIVE_NAMES, *OF_THE_PROCESS}]
    by_spec = {name: {allowed_by_spec(name)} for name in shared}
    by_spec["block"].add("1 to 1000000000")  # a spec refuses block 0 for strategies whose blocks have one length
    assert {name: library.get(name) for name in shared} == by_spec


def test_the_lists_of_strategies_are_those_of_the_library() -> None:
    rows = {row.name: row for row in registry.variants()}
    allowed = {(row.name, p.name): p.allowed for row in rows.values() for p in row.parameters}
    assert set(FITTING_BLOCKS) == {name for (name, p), values in allowed.items() if p == "block" and values[0] == "0"}
    assert set(KEEPING_ELSEWHERE) == {name for name, row in rows.items() if row.keeps_elsewhere}


@pytest.mark.parametrize("strategy", ["lock", "nolock", "htm", "itm", "stm", "tle"])
def test_fallbacks_and_values_that_are_allowed_pass(strategy: str) -> None:
    core = loader.core()
    core.check_parameters(strategy, [])
    for parameter in registry.require(strategy).parameters:
        if parameter.name in NATIVE_NAMES.values():  # it has no value
            continue
        core.check_parameters(strategy, [f"{parameter.name}={parameter.fallback}"])


@pytest.mark.parametrize(("strategy", "parameter", "says"), WRONG)
def test_a_wrong_parameter_is_named(strategy: str, parameter: str, says: str) -> None:
    core = loader.core()
    region = core.Region(np.zeros(4))
    with pytest.raises(ValueError, match=re.escape(says)):
        core.check_parameters(strategy, [parameter])
    with pytest.raises(ValueError, match=re.escape(says)):
        region.apply(strategy, 1.0, np.ones(4), parameters=[parameter])
    with pytest.raises(ValueError, match=re.escape(says)):
        core.audit(strategy, 1, 1, 4, parameters=[parameter])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("strategy", "parameter", "says"), WRONG)
def test_a_wrong_parameter_fails_at_graph_construction(
    operation: str, strategy: str, parameter: str, says: str
) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(np.zeros(3, np.float32), use_resource="resource" in operation)
        tracker = ops.Tracker(1, ["w"])
        arguments = (variable.op.outputs[0], 1.0, tf.zeros([3]), tracker.handle, 0)
        with pytest.raises(ValueError, match=re.escape(says)):
            getattr(loader.ops(), operation)(*arguments, strategy=strategy, parameters=[parameter], variable=0)


def test_the_stock_pair_has_no_parameters() -> None:
    refused = pytest.raises(BadInput, match="strategy 'tf_lock' has no parameter 'budget'")
    with refused, session_of(np.zeros(3, np.float32), "ref", "tf_lock", parameters={"budget": 5}):
        pass


def test_helpers_hand_parameters_to_the_operation() -> None:
    refused = pytest.raises(ValueError, match="strategy 'lock' has no parameter 'budget'")
    with refused, session_of(np.zeros(3, np.float32), "ref", "lock", parameters={"budget": 5}):
        pass


def test_a_processor_s_transactions_run_on_that_processor_only() -> None:
    other = {"rtm": "power", "power": "rtm"}[str(STRATEGY_PARAMETERS["htm"]["provider"])]
    refused = pytest.raises(Unsupported, match="strategy 'htm' cannot run here")
    with refused, session_of(np.zeros(3, np.float32), "ref", "htm", parameters={"provider": other}):
        pass
