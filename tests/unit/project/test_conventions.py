"""Files that repository hosts and editors read refer only to what exists."""

from __future__ import annotations

import argparse
import json
import re
from itertools import chain
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, of_share, read_share

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def ci_steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps: list[dict[str, Any]] = workflow["jobs"]["ci"]["steps"]
    return steps


def test_the_hosted_ci_runs_the_script_and_nothing_else() -> None:
    assert [step["run"] for step in ci_steps() if "run" in step] == ["bash .ci/run"]
    actions = [step["uses"] for step in ci_steps() if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", action) for action in actions)


def test_a_cache_is_only_of_downloads_and_has_the_hash_of_what_checks_them() -> None:
    caches = {
        step["with"]["path"]: step["with"]["key"] for step in ci_steps() if "actions/cache" in step.get("uses", "")
    }
    assert set(caches) == {"~/.cache/uv", "data/mnist"}
    for key in caches.values():
        (hashed,) = re.findall(r"hashFiles\('(.+?)'\)", key)
        assert (ROOT / hashed).is_file(), "a key without a file is always the same"


def test_the_container_for_developers_calls_a_target_that_there_is() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_for_issues_is_one_that_the_host_accepts(form: Any) -> None:
    """GitHub hides a form that lacks one of these, and reports it only in the settings of the repository."""
    fields = yaml.safe_load(form.read_text())
    assert set(fields) == {"name", "description", "labels", "body"}
    names = [field["id"] for field in fields["body"] if field["type"] != "markdown"]
    assert len(set(names)) == len(names) > 0
    for field in fields["body"]:
        assert field["type"] in {"markdown", "textarea", "input", "checkboxes"}
        assert field["attributes"].get("label") or field["attributes"].get("value")


def test_the_shares_of_the_tests_are_all_tests_each_once() -> None:
    tests = list(range(100))
    shares = [of_share(tests, read_share(f"{share}/3")) for share in (1, 2, 3)]
    assert [len(share) for share in shares] == [34, 33, 33]
    assert sorted(chain(*shares)) == tests


def test_the_tests_of_a_foreign_machine_are_in_one_share() -> None:
    machines = ("here", "ppc64le", "aarch64")
    tests = [f"test_text[{machine}-{number}]" for number in range(9) for machine in machines]
    shares = [of_share(tests, read_share(f"{share}/4")) for share in (1, 2, 3, 4)]
    assert sorted(chain(*shares)) == sorted(tests) == sorted(of_share(tests, read_share("1/1")))
    for machine in machines[1:]:
        assert sum(any(machine in test for test in share) for share in shares) == 1
    assert all(any("here" in test for test in share) for share in shares)


@pytest.mark.parametrize("share", ["0/3", "4/3", "1/0", "third"])
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no share: give one from 1/3 to 3/3"):
        read_share(share)
