"""What runs: versions of the software, without importing it, and the state of the checkout."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tmflow._version import __version__
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root

CODE = ("native_ops", "src", "workflow")  # what of a checkout can change a number


def software(compiler: str | None = None, cflags: str | None = None, lock: str = "requirements.txt") -> dict[str, Any]:
    """The software of this process: the fields of a `runfile.Software`.

    `compiler` and `cflags` are what the native strategies were built with, `lock` the file of envs/ that says what is
    installed.
    """
    try:
        root = project_root()
    except BadInput:  # an installed package: it has no commit and no lock
        root = None
    commit, dirty = git_state(root) if root else (None, None)
    return {
        "tmflow": __version__,
        "python": platform.python_version(),
        "tensorflow": _version("tensorflow", "tensorflow-cpu"),
        "numpy": _version("numpy"),
        "compiler": compiler,
        "cflags": cflags,
        "git_commit": commit,
        "git_dirty": dirty,
        "lock_sha256": _sha256(root / "envs" / lock) if root else None,
    }


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """The commit of the checkout at `root` (None before the first), and whether `CODE` has changes or new files.

    A bundle, a note or a change of the docs beside it makes no other software, as with two commits (`code_of`).

    (None, None) where `root` is no checkout of git or git is missing or refuses.
    """
    lines = _git(root, "status", "--porcelain=v2", "--branch", "--", *CODE)
    if lines is None:
        return None, None
    oid = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    return None if oid == "(initial)" else oid, any(not line.startswith("#") for line in lines)


def code_of(root: Path, commit: str) -> str:
    """What is the same for two commits that differ in nothing of `CODE`: in docs or tests, say.

    The commit itself where the checkout at `root` does not have it.
    """
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):  # it may come from anybody's run file
        return commit
    return " ".join(_git(root, "rev-parse", *(f"{commit}:{part}" for part in CODE)) or [commit])


def _git(root: Path, *arguments: str) -> list[str] | None:
    """The lines that git says of the checkout at `root`; None where that is none, or git is missing or refuses."""
    if not (root / ".git").exists():  # else git would answer for a repository that merely surrounds it
        return None
    # The checkout may be of another user, where the portal is a service: git fears its settings, but we run its code.
    trusted = ["-c", f"safe.directory={root.resolve()}"]
    command = ["git", "--no-optional-locks", *trusted, "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None


def _version(*distributions: str) -> str | None:
    """The version of the first of the distributions that is installed."""
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
