"""Labels of the software that measured a run: equal only for equal software."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.sample_runs import SOFTWARE
from tmflow.platform.software import CODE
from tmflow.store import software_labels as in_words
from tmflow.store.software_labels import measured_by

DOCS = {"a" * 40: "code 1", "b" * 40: "code 1", "c" * 40: "code 2"}  # b changed only docs


def words(*software: Mapping[str, Any], campaigns: tuple[str, ...] = ("one",)) -> list[str]:
    """The labels of runs that differ in this way, the last one in the last campaign."""
    its_campaigns = [campaigns[0]] * (len(software) - 1) + [campaigns[-1]]
    versions = pd.DataFrame(
        [SOFTWARE.model_dump() | changes for changes in software], index=range(10, 10 + len(software))
    )
    by = versions.assign(campaign_uid=its_campaigns)
    label = measured_by(by, lambda commit: DOCS.get(commit, commit))
    assert label.index.equals(by.index)
    return list(label)


def test_commits_with_the_same_code_are_one_software_and_named() -> None:
    first, docs, code = words(*({"git_commit": commit} for commit in DOCS))
    assert first == docs == "tmflow 0.1.0 at aaaaaaaaaa and bbbbbbbbbb (the same code)"
    assert code == "tmflow 0.1.0 at cccccccccc"


@pytest.mark.parametrize(
    ("field", "value", "label"),
    [
        ("tmflow", "0.2.0", "tmflow 0.2.0 at 0000000000"),
        ("tensorflow", None, "tmflow 0.1.0, tensorflow unknown at 0000000000"),
        ("numpy", "9", "tmflow 0.1.0, numpy 9 at 0000000000"),
        ("compiler", "clang 19", "tmflow 0.1.0, compiler clang 19 at 0000000000"),
        ("cflags", "-O0", "tmflow 0.1.0, cflags -O0 at 0000000000"),
        ("lock_sha256", "e" * 64, "tmflow 0.1.0, lock eeeeeeeeee at 0000000000"),
        ("git_commit", None, "tmflow 0.1.0"),
    ],
)
def test_every_version_tells_software_apart(field: str, value: str | None, label: str) -> None:
    usual, other = words({}, {field: value})
    assert other == label
    assert usual != other


def test_uncommitted_changes_are_those_of_their_campaign() -> None:
    changed = {"git_commit": "a" * 40, "git_dirty": True}
    label = "tmflow 0.1.0 at aaaaaaaaaa with uncommitted changes, in campaign one"
    assert words(changed, changed) == [label, label]
    assert words(changed, changed, campaigns=("one", "two")) == [label, label.replace("one", "two")]
    assert words(changed, changed | {"git_commit": "b" * 40})[1] == label.replace("a" * 10, "b" * 10)
    assert words({"git_commit": "a" * 40}, changed)[0] == "tmflow 0.1.0 at aaaaaaaaaa"


def test_commits_are_known_as_soon_as_the_checkout_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running portal receives runs of commits that its checkout gets only later."""

    def git(*arguments: str) -> str:
        own = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.invalid", *arguments]
        return subprocess.run(own, capture_output=True, text=True, check=True).stdout.strip()

    for part in CODE:
        (tmp_path / part).mkdir()
        (tmp_path / part / "file").write_text("the same")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("commit", "-q", "--allow-empty", "-m", "two")
    commits = git("rev-parse", "HEAD~", "HEAD").split()
    monkeypatch.setattr(in_words, "project_root", lambda: tmp_path)
    (tmp_path / ".git").rename(tmp_path / "elsewhere")
    assert [in_words._code_here(commit) for commit in commits] == commits
    (tmp_path / "elsewhere").rename(tmp_path / ".git")
    assert len({in_words._code_here(commit) for commit in commits}) == 1
