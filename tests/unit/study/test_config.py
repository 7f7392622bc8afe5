"""config.yaml: a closed schema whose errors name the key, list what is valid and suggest the nearest."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tmflow.base.documents import read_yaml
from tmflow.base.errors import BadInput
from tmflow.spec.strategies import parameters_of
from tmflow.study.config import check_study, load_study

MINIMAL: dict[str, Any] = {
    "experiments": {
        "one": {
            "question": "Does it run?",
            "factors": {
                "model": "mnist_softmax",
                "strategy": ["lock", "nolock"],
                "threads": [1, 2],
                "batch": 10,
                "iterations": 100,
                "learning_rate": 0.5,
            },
        }
    }
}


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(MINIMAL)
    *parents, key = path.split("/")
    place = raw
    for parent in parents:
        place = place.setdefault(parent, {})
    place[key] = value
    return raw


def test_grid_is_the_product_of_the_factors() -> None:
    points = check_study(MINIMAL).points("one", "full", "digits")
    assert [(p.strategy, p.threads) for p in points] == [("lock", 1), ("lock", 2), ("nolock", 1), ("nolock", 2)]
    assert {point.dataset for point in points} == {"digits"}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("round", 3, r"unknown key 'round' \(did you mean 'rounds'\?\); valid: .*dataset.*trial_timeout_s"),
        ("quick/round", 3, r"unknown key 'quick.round' \(did you mean 'rounds'\?\)"),
        ("experiments/one/questoin", "?", r"'experiments.one.questoin' \(did you mean 'question'\?\)"),
        ("experiments/one/factors/thread", 2, r"experiments.one.factors: 'thread' \(did you mean 'threads'\?\)"),
        ("defaults/stragety", "lock", r"defaults: 'stragety' \(did you mean 'strategy'\?\)"),
        ("experiments/one/factors/strategy", "lok", r"'lok' \(did you mean '\w*lock'\?\); valid: .*lock, .*nolock"),
        ("experiments/one/factors/threads", 0, r"experiments.one: threads is 0, but .* greater than or equal to 1"),
        ("experiments/one/factors/batch", -1, r"batch is -1, but .* greater than or equal to 1"),
        ("experiments/one/factors/matrix", 785, r"matrix is 785, but .* less than or equal to 784"),
        ("experiments/one/factors/iterations", 1, r"iterations 1 is fewer than threads 2"),
        ("experiments/one/factors/threads", [], r"threads has no value"),
        ("experiments/one/factors/threads", [2, 2], r"lists the same value twice"),
        ("experiments/one/factors/threads", True, r"experiments.one: threads is True, but should be a valid integer"),
        ("experiments/one/factors/batch", "10", r"experiments.one: batch is '10', but should be a valid integer"),
        (
            "experiments/one/factors/pinning",
            "cores",
            r"experiments.one: pinning cores belongs to driver native; driver session allows none",
        ),
        ("experiments/one/factors/pinning", "core", r"pinning is 'core', but should be 'none' or 'cores'"),
        (
            "experiments/one/factors/intra_op_threads",
            [1, 0],
            r"experiments.one: intra_op_threads has the values 1, 0, but",
        ),
        ("defaults/inter_op_threads", [1, 2], r"inter_op_threads has .* use a separate experiment for each value"),
        ("experiments/one/quick", {"factors": {"inter_op_threads": [0, 1]}}, r"inter_op_threads has the values 0, 1"),
        ("experiments/one/quick", {"factors": {"threads": [0]}}, r"threads is 0"),
        ("dataset", "mnits", r"dataset is 'mnits', but should be 'auto', 'mnist' or 'digits'"),
        ("rounds", 0, r"rounds is 0"),
        ("rounds", True, r"rounds is True, but should be a valid integer"),
        ("repeats", 0, r"repeats is 0, but .* greater than or equal to 1"),
        ("repeats", 101, r"repeats is 101, but .* less than or equal to 100"),
        ("repeats", 2.0, r"repeats is 2.0, but should be a valid integer"),
        ("experiments/one/repeats", -3, r"experiments.one.repeats is -3, but .* greater than or equal to 1"),
        ("experiments/one/repeats", 10**30, r"experiments.one.repeats is 1000+, but .* less than or equal to 100"),
        ("experiments/one/repeats", "2", r"experiments.one.repeats is '2', but should be a valid integer"),
        ("trial_timeout_s", "600", r"trial_timeout_s is '600', but should be a valid number"),
        ("experiments", {}, r"experiments is \{\}, but"),
        ("threads", "some", r"threads is 'some', but should be 'all' or 'auto'"),
        ("experiments/one/quick", {"skip": "yes"}, r"one.quick.skip is 'yes', but should be a valid boolean"),
        ("experiments/one/also", {"batch": 2}, r"experiments.one.also is \{'batch': 2\}, but should be a valid list"),
        ("experiments/one/also", [{"bach": 2}], r"experiments.one.also: 'bach' \(did you mean 'batch'\?\)"),
        ("experiments/one/also", [{"batch": 10}], r"experiments.one: a factor lists the same value twice"),
        ("experiments/one/also", [{"batch": []}], r"also: batch has no value"),
        ("experiments/one/quick", {"also": [{"treads": 2}]}, r"quick.also: 'treads' \(did you mean 'threads'\?\)"),
        ("experiments/one/also", [{"intra_op_threads": 0}], r"intra_op_threads has the values 1, 0, but"),
        ("experiments/one/only", {"thread": 2}, r"experiments.one.only: 'thread' \(did you mean 'threads'\?\)"),
        ("experiments/one/only", {"threads": []}, r"only: threads has no value"),
        ("experiments/one/only", {"threads": [1, 3]}, r"experiments.one.only: no run has threads 3; valid: 1, 2\."),
        ("experiments/one/only", {"manager": "backoff"}, r"only: no run has manager backoff; valid: none\."),
        ("experiments/one/shows", ["speedp"], r"experiments.one.shows.0 is 'speedp', but should be 'speedup', 'speed"),
        ("experiments/one/shows", [], r"experiments.one.shows is \[\], but"),
        ("experiments/two", {"question": "?"}, r"experiments.two: it has neither factors, .* nor runs_of"),
        (
            "experiments/two",
            {"question": "?", "runs_of": "oen"},
            r"runs_of in experiment two: 'oen' \(did you mean 'one'\?\); valid: one",
        ),
        ("experiments/two", {"question": "?", "runs_of": "two"}, r"unknown runs_of in experiment two: 'two'"),
        *(
            (
                "experiments/two",
                {"question": "?", "runs_of": "one", **setting},
                rf"experiments.two: runs_of one means that it has no own runs, so it cannot have {next(iter(setting))}",
            )
            for setting in (
                {"factors": {"batch": 2}},
                {"also": []},
                {"rounds": 3},
                {"repeats": 2},
                {"quick": {"factors": {}}},
            )
        ),
        ("experiments/a b", MINIMAL["experiments"]["one"], r"experiment name 'a b' may hold only"),
    ],
)
def test_bad_config_is_one_sentence(path: str, value: Any, says: str) -> None:
    with pytest.raises(BadInput) as error:
        check_study(changed(path, value))
    sentence = str(error.value)
    assert re.search(says, sentence), sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def test_unreadable_config(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load_study(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("a: [1,\n")
    with pytest.raises(BadInput, match="is not YAML"):
        load_study(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("seed: 2026-02-30\n")
    with pytest.raises(BadInput, match=r"config\.yaml holds an impossible value: day is out of range for month"):
        load_study(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        load_study(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("- a\n- b\n")
    with pytest.raises(BadInput, match="must be a mapping"):
        load_study(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed: 1\nrounds: 2\nseed: 3\n", "config.yaml: key 'seed' is given twice, in lines 1 and 3."),
        ("experiments:\n  a: {}\n  'a': {}\n", "config.yaml: key 'a' is given twice, in lines 2 and 3."),
        ("quick: {rounds: 1, rounds: 2}\n", "config.yaml: key 'rounds' is given twice, in lines 1 and 1."),
    ],
)
def test_a_key_given_twice_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(BadInput, match=re.escape(says)):
        load_study(tmp_path / "config.yaml")


def test_the_same_key_in_two_mappings_and_a_merge_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("base: &base {x: 1, y: 2}\nmore: {<<: *base, y: 3}\n")
    assert read_yaml(path) == {"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}}


def with_htm(**parameters: Any) -> dict[str, Any]:
    factors = {**MINIMAL["experiments"]["one"]["factors"], "strategy": ["lock", "htm"], "threads": 1, **parameters}
    return changed("experiments/one/factors", factors)


def test_a_parameter_multiplies_only_the_strategies_that_have_it() -> None:
    points = check_study(with_htm(budget=[0, 5], chunk=[0, 64])).points("one", "full", "mnist")
    assert [(p.strategy, p.budget, p.chunk, p.spending) for p in points] == [
        ("lock", None, None, None),  # 0 is the whole update, so it is the lock without a chunk
        ("lock", None, 64, None),
        ("htm", 0, 0, "study_tsx"),
        ("htm", 0, 64, "study_tsx"),
        ("htm", 5, 0, "study_tsx"),
        ("htm", 5, 64, "study_tsx"),
    ]


def with_both_drivers(**factors: Any) -> dict[str, Any]:
    shared = {**MINIMAL["experiments"]["one"]["factors"], "strategy": "lock", "threads": 1}
    given = {"driver": ["session", "native"], **factors}
    return changed("experiments/one/factors", {**shared, **given})


def test_a_factor_of_the_session_multiplies_the_points_of_the_session_alone() -> None:
    raw = with_both_drivers(step_call=["run", "callable"], variables=["ref", "resource"])
    points = check_study(raw).points("one", "full", "mnist")
    assert [(p.driver, p.step_call, p.variables, p.inter_op_threads) for p in points] == [
        *(("session", call, variables, 0) for call in ("run", "callable") for variables in ("ref", "resource")),
        ("native", None, None, None),
    ]


def test_a_default_of_the_session_leaves_native_experiments_alone() -> None:
    defaults = {"step_call": "run", "intra_op_threads": 1, "pinning": "none", "variables": ["ref", "resource"]}
    raw = {**with_both_drivers(driver="native"), "defaults": defaults}
    study = check_study(raw)
    (grid,) = study.grids("one", "full")
    assert set(grid) & set(defaults) == {"pinning"}
    (point,) = study.points("one", "full", "mnist")
    assert (point.driver, point.step_call) == ("native", None)
    with pytest.raises(BadInput, match=r"experiments\.one: step_call run belongs to driver session, not to native"):
        check_study(with_both_drivers(driver="native", step_call="run"))


def test_factors_of_a_model_belong_to_its_points_alone() -> None:
    raw = with_both_drivers(model=["mnist_softmax", "mnist_mlp"], hidden=[16, 128], activation="relu")
    points = check_study(raw).points("one", "full", "mnist")
    assert sorted((p.driver, p.model, p.hidden, p.activation) for p in points if p.model == "mnist_mlp") == [
        (driver, "mnist_mlp", hidden, "relu") for driver in ("native", "session") for hidden in (16, 128)
    ]
    assert [(p.driver, p.hidden) for p in points if p.model == "mnist_softmax"] == [("session", None), ("native", None)]


def test_parameters_that_are_not_given_are_filled_in() -> None:
    for given in ({}, {"budget": None}):
        htm = check_study(with_htm(**given)).points("one", "full", "mnist")[1]
        assert htm.parameters() == parameters_of("htm")
    explicit = check_study(with_htm(**parameters_of("htm"))).points("one", "full", "mnist")[1]
    assert explicit.sha256 == htm.sha256


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (
            {"strategy": ["lock", "nolock"], "budget": 5},
            "experiments.one: budget belongs to htm, htm_if_fits, not to lock.",
        ),
        (
            {"strategy": [{"provider": "rtm"}]},
            "experiments.one: an entry of strategy is {'provider': 'rtm'}, but needs the key 'strategy'",
        ),
        (
            {"strategy": [{"strategy": "htm", "buget": 5}]},
            "unknown parameter of strategy 'htm' in config.yaml: experiments.one: 'buget' (did you mean 'budget'?)",
        ),
        (
            {"strategy": {"strategy": "lock", "budget": 5}},
            "unknown parameter of strategy 'lock' in config.yaml: experi",
        ),
        ({"strategy": {"strategy": "htm", "threads": 2}}, "'threads'; valid: "),
        ({"strategy": [{"strategy": "htm", "budget": [0, 5]}]}, "budget is [0, 5], but should be a valid integer."),
        ({"strategy": [{"strategy": ["htm"]}]}, "unknown strategy in config.yaml: experiments.one: '['htm']'"),
        ({"strategy": {"strategy": "htn", "budget": 5}}, "experiments.one: 'htn' (did you mean 'htm'?)"),
        (
            {"strategy": {"strategy": "tf_lock", "threads": 2}},
            "strategy 'tf_lock' in config.yaml: experiments.one: 'thr",
        ),
        ({"batch": {"strategy": "htm"}}, "batch is {'strategy': 'htm'}, but should be a valid integer."),
        (
            {"provider": "emulated", "profile": "intel-tsx"},
            "experiments.one: 'intel-tsx' (did you mean 'intel-tsx-study'?); valid: ibm-power8-s822, intel-s",
        ),
        (
            {"provider": "emulated"},
            "experiments.one: provider emulated needs a profile; valid: ibm-power8-s822, intel-",
        ),
        ({"provider": "rtm", "profile": "intel-tsx-study"}, "profile belongs to provider emulated"),
        ({"budget": [5, 5]}, "experiments.one: a factor lists the same value twice"),
        ({"budget": [5, None]}, "experiments.one: a factor lists the same value twice"),
        ({"budget": -1}, "budget is -1, but should be greater than or equal to 0."),
        ({"budget": True}, "budget is True, but should be a valid integer."),
        ({"provider": "tsx"}, "provider is 'tsx', but should be 'rtm', 'power' or 'emulated'."),
        ({"spending": "study-tsx"}, "spending is 'study-tsx', but should be 'study_tsx', 'study_power' or 'tuned'."),
        ({"chunk": 1.5}, "chunk is 1.5, but should be a valid integer."),
        (
            {"strategy": {"strategy": "itm", "library": "/no/such.so"}},
            "library /no/such.so of strategy 'itm' is not a ",
        ),
    ],
)
def test_a_bad_parameter_is_one_sentence(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as error:
        check_study(with_htm(**parameters))
    assert says in str(error.value)


EMULATED = {"strategy": "htm", "provider": "emulated", "profile": "intel-tsx-study"}


def test_an_entry_of_strategy_may_have_parameters_of_its_own() -> None:
    strategies = ["lock", "htm", EMULATED, {"strategy": "htm", "budget": 100, "chunk": 64}]
    points = check_study(with_htm(strategy=strategies, budget=[0, 5])).points("one", "full", "mnist")
    assert [(p.strategy, p.provider, p.profile, p.budget, p.chunk) for p in points] == [
        ("lock", None, None, None, None),
        ("htm", parameters_of("htm")["provider"], None, 0, 0),
        ("htm", parameters_of("htm")["provider"], None, 5, 0),
        ("htm", "emulated", "intel-tsx-study", 0, 0),
        ("htm", "emulated", "intel-tsx-study", 5, 0),
        ("htm", parameters_of("htm")["provider"], None, 100, 64),
    ]


def test_an_entry_alone_and_among_the_defaults() -> None:
    raw = with_htm(strategy=EMULATED)
    (alone,) = check_study(raw).points("one", "full", "mnist")
    del raw["experiments"]["one"]["factors"]["strategy"]
    (default,) = check_study({**raw, "defaults": {"strategy": [EMULATED]}}).points("one", "full", "mnist")
    assert alone == default
    assert alone.evidence == "emulated"


def test_a_budget_follows_the_way_of_spending_it() -> None:
    points = check_study(with_htm(strategy="htm", spending=["study_tsx", "study_power", "tuned"])).points(
        "one", "full", "mnist"
    )
    assert [point.budget for point in points] == [5, 100, 10]
    entry = {"strategy": "htm", "spending": "study_power"}
    assert check_study(with_htm(strategy=["htm", entry])).points("one", "full", "mnist")[1].budget == 100
    given = check_study(with_htm(strategy="htm", spending="study_power", budget=7)).points("one", "full", "mnist")
    assert [point.budget for point in given] == [7]


def test_a_name_and_a_mapping_of_the_name_are_the_same_point() -> None:
    with pytest.raises(BadInput, match="a factor lists the same value twice"):
        check_study(with_htm(strategy=["htm", {"strategy": "htm", "budget": 5}]))


# Taken before a strategy could be a mapping: these measurements stay valid.
def test_definitions_without_mappings_keep_their_identity() -> None:
    assert check_study(MINIMAL).definition_id("one", "full") == "d7f9b6eb3727"
    assert check_study(with_htm(budget=[0, 5])).definition_id("one", "full") == "f1a139453620"


def test_a_default_for_a_parameter_does_not_touch_experiments_without_it() -> None:
    plain, htm = check_study(MINIMAL), check_study(with_htm())
    with_default = check_study({**MINIMAL, "defaults": {"budget": 7}})
    assert with_default.definition_id("one", "full") == plain.definition_id("one", "full")
    assert check_study({**with_htm(), "defaults": {"budget": 7}}).points("one", "full", "mnist")[1].budget == 7
    assert htm.points("one", "full", "mnist")[1].budget == 5


def test_definition_changes_with_a_factor_but_not_with_words_or_rounds() -> None:
    before = check_study(MINIMAL).definition_id("one", "full")
    assert check_study(changed("experiments/one/question", "Why?")).definition_id("one", "full") == before
    assert check_study(changed("rounds", 9)).definition_id("one", "full") == before
    assert check_study(changed("repeats", 9)).definition_id("one", "full") == before
    assert check_study(changed("experiments/one/factors/batch", 11)).definition_id("one", "full") != before
    assert check_study(changed("seed", 1)).definition_id("one", "full") != before


def test_quick_changes_only_what_it_names() -> None:
    study = check_study(changed("experiments/one/quick", {"factors": {"iterations": 10}}))
    assert {point.iterations for point in study.points("one", "quick", "mnist")} == {10}
    assert {point.iterations for point in study.points("one", "full", "mnist")} == {100}
    assert study.rounds_of("one", "quick") == 3
    assert study.rounds_of("one", "full") == 6


def test_an_experiment_has_the_repeats_of_the_study_or_its_own_and_quick_has_none() -> None:
    study = check_study(changed("repeats", 3))
    assert (check_study(MINIMAL).repeats_of("one", "full"), study.repeats_of("one", "full")) == (1, 3)
    assert study.repeats_of("one", "quick") == 1
    assert check_study(changed("experiments/one/repeats", 2)).repeats_of("one", "full") == 2
