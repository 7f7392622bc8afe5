"""Profiles of machines: the committed ones, and messages about invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.workflow.doctor import _attempt, _profiles

CACHED, ENTRIES = "intel-tsx-study", "ibm-power8-s822"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without files; returns its folder of profiles."""
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    (tmp_path / "Snakefile").touch()
    (tmp_path / "data" / "platforms").mkdir(parents=True)
    return tmp_path / "data" / "platforms"


def raw(name: str = CACHED) -> dict[str, Any]:
    path = project_root() / "data" / "platforms" / f"{name}.yaml"
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


RAW = {name: raw(name) for name in (CACHED, ENTRIES)}


def changed(path: str, value: object, name: str = CACHED) -> dict[str, Any]:
    """A profile with the field at `path` set, or removed if the value is None."""
    document = yaml.safe_load(yaml.safe_dump(RAW[name]))
    *parents, leaf = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[leaf] = value
    if value is None:
        del inner[leaf]
    return document


def test_every_profile_loads_and_has_an_identity_of_its_own() -> None:
    assert profile_names() == ["ibm-power8-s822", "intel-sapphire-rapids", "intel-tsx-study"]
    profiles = [load_profile(name) for name in profile_names()]
    assert [profile.name for profile in profiles] == profile_names()
    assert len({profile.sha256 for profile in profiles}) == len(profiles)
    assert all(profile.as_dict()["siblings"]["source"] for profile in profiles)


def test_the_native_side_gets_the_numbers_alone() -> None:
    assert load_profile(CACHED).machine_text() == (
        "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=2;asynchronous=8.4e-08"
    )
    assert load_profile(ENTRIES).machine_text() == (
        "provider=power;line_bytes=128;entries=64;siblings=8;asynchronous=6.7e-10"
    )


def test_capacities_are_those_of_the_design() -> None:
    tsx, today = load_profile("intel-tsx-study").cache, load_profile("intel-sapphire-rapids").cache
    assert tsx is not None
    assert today is not None
    assert tsx.sets.value * tsx.ways.value * 64 == 32 * 1024
    assert today.sets.value * today.ways.value * 64 == 48 * 1024


def test_another_source_is_another_profile(checkout: Path) -> None:
    before = yaml.safe_dump(RAW[CACHED])
    (checkout / f"{CACHED}.yaml").write_text(before)
    identity = load_profile(CACHED).sha256
    (checkout / f"{CACHED}.yaml").write_text(before.replace("estimate:", "estimate, second try:"))
    assert load_profile(CACHED).sha256 != identity


def test_an_unknown_profile_is_answered_with_the_valid_ones() -> None:
    with pytest.raises(
        BadInput,
        match=r"unknown profile 'intel-tsx' \(did you mean 'intel-tsx-study'\?\); valid: ibm-power8-s822, intel-",
    ):
        load_profile("intel-tsx")
    with pytest.raises(BadInput, match=r"unknown profile '\.\./platforms/intel-tsx-study'"):
        load_profile("../platforms/intel-tsx-study")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (changed("cache.ways.value", 0), "cache.ways.value is 0, but should be greater than or equal to 1"),
        (changed("cache.ways.value", True), "cache.ways.value is True, but should be a valid integer"),
        (changed("cache.sets.value", 2**18), "cache: sets x ways is 2097152 lines, but should be at most 1048576"),
        (changed("cache.sets.value", 48), "cache.sets.value: 48 is not a power of two"),
        (changed("cache.reads_fill.value", 1), "cache.reads_fill.value is 1, but should be a valid boolean"),
        (changed("line.value", 96), "line.value: 96 is not a power of two"),
        (changed("line.value", 4), "line.value is 4, but should be greater than or equal to 8"),
        (changed("line.unit", "KB"), "line.unit is 'KB', but should be 'byte'"),
        (changed("line.source", "me"), "line.source is 'me', but should have at least 10 characters"),
        (changed("line.source", None), "'line.source' is missing"),
        (changed("siblings.value", 0), "siblings.value is 0, but should be greater than or equal to 1"),
        (changed("asynchronous.value", 1.5), "asynchronous.value is 1.5, but should be less than or equal to 1"),
        (changed("asynchronous.value", float("nan")), "asynchronous.value is nan, but should be"),
        (changed("entries.value", 0, ENTRIES), "entries.value is 0, but should be greater than or equal to 1"),
        (changed("provider", "z13"), "provider is 'z13', but should be 'rtm' or 'power'"),
        (changed("colour", "blue"), "unknown key 'colour'"),
        (changed("cache", None), "a machine has either a cache or entries"),
        (changed("entries", RAW[ENTRIES]["entries"]), "a machine has either a cache or entries"),
        (changed("name", "other"), "name is 'other', but should be that of the file, 'broken'"),
        (changed("line", 64), "line is 64, but should be a mapping."),
        (changed("cache.way", 8), "unknown key 'cache.way' (did you mean 'ways'?); valid: reads_fill, sets, ways."),
        (changed("line.bytes", 64), "unknown key 'line.bytes'; valid: source, unit, value."),
        ([1], " must be a mapping, not list."),
        (None, " must be a mapping, not NoneType."),
    ],
)
def test_an_impossible_number_is_named(checkout: Path, document: Any, says: str) -> None:
    if isinstance(document, dict) and document["name"] != "other":
        document["name"] = "broken"
    (checkout / "broken.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(BadInput) as caught:
        load_profile("broken")
    assert str(caught.value).startswith("data/platforms/broken.yaml")
    assert says in str(caught.value)


def test_doctor_names_the_profiles_and_a_wrong_one(checkout: Path) -> None:
    (checkout / f"{ENTRIES}.yaml").write_text(yaml.safe_dump(RAW[ENTRIES]))
    found = _attempt("emulated TM", _profiles)
    assert (found.state, found.text.endswith(f"; profiles: {ENTRIES}")) == ("ok", True)
    (checkout / "broken.yaml").write_text("[]")
    found = _attempt("emulated TM", _profiles)
    assert (found.state, found.text[:27]) == ("missing", "data/platforms/broken.yaml ")
