"""Versions of the installed software, read without importing it, and the state of the checkout."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

from tmflow._version import __version__
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root

CODE = ("native_ops", "src", "workflow")  # the folders of a checkout that can change a measurement


def software(compiler: str | None = None, cflags: str | None = None, lock: str = "requirements.txt") -> dict[str, Any]:
    """The software of this process: the fields of a `runfile.Software`.

    compiler, cflags: those of the build of the native strategies. lock: the file of envs/ that pins what is installed.
    """
    try:
        root = project_root()
    except BadInput:  # an installed package: it has no commit and no lock
        root = None
    commit, dirty = git_state(root) if root else (None, None)
    return {
        "tmflow": __version__,
        "python": platform.python_version(),
        "tensorflow": tensorflow_version(),
        "numpy": installed_version("numpy"),
        "compiler": compiler,
        "cflags": cflags,
        "git_commit": commit,
        "git_dirty": dirty,
        "lock_sha256": _sha256(root / "envs" / lock) if root else None,
    }


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """The commit of the checkout at `root` (None before the first), and whether `CODE` has changes or new files.

    Other changes, for example to a bundle or the docs, do not make it different software; `code_of` ignores them too.

    Returns (None, None) if `root` is no git checkout, or git is missing or fails.
    """
    lines = _git(root, "status", "--porcelain=v2", "--branch", "--", *CODE)
    if lines is None:
        return None, None
    oid = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    return None if oid == "(initial)" else oid, any(not line.startswith("#") for line in lines)


def code_of(root: Path, commit: str) -> str:
    """An identity of the code of a commit: equal for commits with the same `CODE`, whatever their docs and tests.

    Returns the commit if the checkout at `root` lacks it.
    """
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):  # it may come from an untrusted run file
        return commit
    return " ".join(_git(root, "rev-parse", *(f"{commit}:{part}" for part in CODE)) or [commit])


def _git(root: Path, *arguments: str) -> list[str] | None:
    """The output lines of git for the checkout at `root`; None if there is none, or git is missing or fails."""
    if not (root / ".git").exists():  # otherwise git would report on a surrounding repository
        return None
    # The checkout may belong to another user if the portal is a service; its code runs, so its settings are trusted.
    trusted = ["-c", f"safe.directory={root.resolve()}"]
    command = ["git", "--no-optional-locks", *trusted, "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None


def installed_version(*names: str) -> str | None:
    """The version of the first installed distribution."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def tensorflow_version() -> str | None:
    """The version of the installed TensorFlow, which is not imported; None without TensorFlow.

    It is that of the distribution which provides the package `tensorflow`: tensorflow-cpu, tf-nightly or another one.
    If several do, whose files lie over each other, it is all of their versions.
    """
    if importlib.util.find_spec("tensorflow") is None:
        return None
    # packages_distributions() would read the metadata of everything that is installed, which takes far longer.
    providers = (each for each in distributions() if "tensorflow" in (each.read_text("top_level.txt") or "").split())
    return ", ".join(sorted({each.version for each in providers})) or None


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
