"""The settings of a platform, and the software on it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_machines import CPUS, HOST, POWER_CPUINFO, X86_CPUINFO, Tree, lay_out

from tmflow.base.canonical_json import canonical_json
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.platform.facts import environment_facts
from tmflow.platform.software import CODE, code_of, git_state, software


def test_the_settings_of_a_host(tmp_path: Path) -> None:
    facts = environment_facts(None, lay_out(tmp_path, HOST))
    expected = {
        "os": "Debian GNU/Linux 12 (bookworm)",
        "microcode": "0xb000040",
        "governor": "performance",
        "turbo": False,
        "smt": True,
        "thp": "madvise",
        "mitigations": {"mds": "Not affected", "tsx_async_abort": "Mitigation: TSX disabled"},
        "virtualisation": "none",
        "aslr": 2,
        "tm_enabled": None,
    }
    assert {key: facts[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({f"{CPUS}/cpufreq/policy1/scaling_governor": "powersave"}, "governor", "performance+powersave"),
        ({f"{CPUS}/smt/active": "0"}, "smt", False),
        ({"proc/self/personality": "00040000"}, "aslr", 0),
        ({"proc/cpuinfo": X86_CPUINFO.replace("rdseed", "hypervisor")}, "virtualisation", "vm"),
        ({".dockerenv": ""}, "virtualisation", "container"),
        ({"proc/cpuinfo": POWER_CPUINFO, "run/systemd/container": "lxc"}, "virtualisation", "vm+container"),
        ({"proc/cpuinfo": POWER_CPUINFO.replace("CHRP", "PowerNV")}, "virtualisation", "none"),
    ],
)
def test_each_setting_is_read(tmp_path: Path, change: Tree, key: str, value: object) -> None:
    assert environment_facts(None, lay_out(tmp_path, {**HOST, **change}))[key] == value


def test_turbo_of_other_drivers(tmp_path: Path) -> None:
    assert environment_facts(None, lay_out(tmp_path, {f"{CPUS}/cpufreq/boost": "1"}))["turbo"] is True


def test_a_machine_without_proc_and_sys_has_unknown_settings(tmp_path: Path) -> None:
    facts = environment_facts(None, lay_out(tmp_path, {}))
    readable_without = {"os", "kernel", "libc", "cpus_allowed"}
    assert {key for key, value in facts.items() if value is not None} <= readable_without
    assert facts["os"]


def test_the_probe_for_transactions_is_recorded() -> None:
    for committed, enabled in ((0, False), (99, True)):
        probe = {"reported": True, "tried": 100, "committed": committed, "statuses": {"8": 100 - committed}}
        assert environment_facts(probe)["tm_enabled"] is enabled


def test_the_settings_of_this_machine_are_json() -> None:
    facts = environment_facts(None)
    assert json.loads(canonical_json(facts)) == facts


# --- software --------------------------------------------------------------------------------------------------------


def test_the_software_is_read_without_importing_it() -> None:
    code = "import sys; from tmflow.platform.software import software; software(); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    ran = software("GCC 12.2", "-O3")
    assert ran["python"] == sys.version.split()[0]
    assert ran["numpy"] == np.__version__
    assert ran["tmflow"] == importlib.metadata.version("tmflow")
    assert (ran["compiler"], ran["cflags"]) == ("GCC 12.2", "-O3")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    (root / "envs").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "envs" / "requirements.txt").write_text("numpy==2\n")
    monkeypatch.setenv("TMFLOW_ROOT", str(root))
    return root


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_state_of_the_checkout(checkout: Path) -> None:
    assert git_state(checkout) == (None, None)  # not a repository yet
    git(checkout, "init")
    for path in (*(f"{part}/first" for part in CODE), "README.md"):
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).touch()
    assert git_state(checkout) == (None, True)  # no commit yet, and new files
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "first")
    commit = git(checkout, "rev-parse", "HEAD")
    assert git_state(checkout) == (commit, False)
    (checkout / "a bundle.zip").touch()
    (checkout / "README.md").write_text("changed")
    assert git_state(checkout) == (commit, False)  # neither can change a number
    for part in CODE:
        (checkout / part / "first").write_text("changed")
        assert git_state(checkout) == (commit, True)
        git(checkout, "restore", part)
        (checkout / part / "new").touch()
        assert git_state(checkout) == (commit, True)
        git(checkout, "clean", "-q", "--force", part)
        assert git_state(checkout) == (commit, False)
    (checkout / CODE[0] / "new").touch()
    ran = software()
    assert (ran["git_commit"], ran["git_dirty"]) == (commit, True)
    assert ran["lock_sha256"] == hashlib.sha256(b"numpy==2\n").hexdigest()


def test_commits_that_differ_in_docs_alone_have_the_same_code(checkout: Path) -> None:
    def committed(path: str) -> str:
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).write_text(path)
        git(checkout, "add", ".")
        git(checkout, "commit", "-m", path)
        return git(checkout, "rev-parse", "HEAD")

    git(checkout, "init")
    none = committed("Makefile")
    assert code_of(checkout, none) == none  # it has no code yet
    for part in CODE:
        first = committed(f"{part}/first")
    docs, code = committed("docs.md"), committed(f"{CODE[0]}/second")
    assert code_of(checkout, first) == code_of(checkout, docs) != first
    assert code_of(checkout, code) not in (code, code_of(checkout, docs))
    for unknown in ("f" * 40, "HEAD", "--help"):
        assert code_of(checkout, unknown) == unknown
    assert code_of(checkout.parent, docs) == docs  # no checkout


def test_the_checkout_may_be_of_another_user(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "init")
    git(checkout, "commit", "--allow-empty", "-m", "first")
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(subprocess.CalledProcessError):
        git(checkout, "status")  # git refuses it
    assert git_state(checkout)[0] == commit


def test_a_surrounding_repository_is_not_mistaken_for_the_checkout(checkout: Path) -> None:
    git(checkout.parent, "init")
    assert git_state(checkout) == (None, None)


def test_without_a_checkout_there_is_no_commit_and_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    ran = software()
    assert (ran["git_commit"], ran["git_dirty"], ran["lock_sha256"]) == (None, None, None)


# --- paths -----------------------------------------------------------------------------------------------------------


def test_the_root_and_the_results(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMFLOW_RESULTS_DIR", raising=False)
    assert results_dir() == checkout / "results"
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", "elsewhere")
    assert results_dir() == Path.cwd() / "elsewhere"
    monkeypatch.delenv("TMFLOW_ROOT")
    assert project_root() == Path(__file__).parents[3]


def test_without_a_checkout_the_results_need_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMFLOW_RESULTS_DIR", raising=False)
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    with pytest.raises(BadInput, match="of the checkout, or TMFLOW_RESULTS_DIR to a folder for results"):
        results_dir()


def test_no_checkout_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    with pytest.raises(BadInput, match=f"no checkout of tmflow at {tmp_path} .*set TMFLOW_ROOT"):
        project_root()
