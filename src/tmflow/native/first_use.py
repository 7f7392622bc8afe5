"""The native libraries of an installed package: compiled for this machine by their first use, and then kept.

They are in a folder of the user's cache, named by all that they depend on, so that another TensorFlow, another Python,
another compiler or other flags have a folder of their own. In a checkout `make build` builds them, and this module does
nothing.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from tmflow._version import __version__
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.locks import locked
from tmflow.base.paths import cache_dir, native_sources
from tmflow.native.build import NotConfigured, build
from tmflow.native.tools import compiler_variables, compiler_version, find_compiler, require_python, tool
from tmflow.platform.software import tensorflow_version

# Not what belongs to the study: executors and transports, and the benchmark's comparison with the system's absl::Mutex,
# whose library may be exchanged later.
OPTIONS = ("-DTMFLOW_BUILD_RUNTIME=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_absl=ON")


def folder() -> Path:
    """The folder of the libraries for this environment; it exists once they are compiled.

    Without a compiler it is one that was compiled earlier for this environment, if there is any.
    """
    return _folder(cache_dir())


@cache
def _folder(parent: Path) -> Path:
    environment = _environment()
    try:
        compiler = _short_hash(repr((compiler_version(), compiler_variables())))
    except BadInput:
        earlier = sorted(parent.glob(f"{environment}-????????"), key=lambda path: path.stat().st_mtime)
        return earlier[-1] if earlier else parent / f"{environment}-00000000"
    return parent / f"{environment}-{compiler}"


def compile_once(into: Path) -> None:
    """Compile the libraries into the folder `into`, unless they are there; wait for a process or thread that does so.

    The folder appears when they are complete. What a process that was killed had compiled is used by the next one of
    the same Python environment; another environment compiles elsewhere, because CMake keeps the paths of the first.
    Raises BadInput, in one sentence, if a tool is missing or the build fails, whose output is then kept.
    """
    if into.is_dir():
        return
    work, log = into.with_name(f"{into.name}.{_short_hash(sys.prefix)}.build"), into.with_name(f"{into.name}.log")
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"the folder of what is compiled, {into.parent}, cannot be made: {error.strerror}; set XDG_CACHE_HOME to a "
            "folder that this user can write."
        ) from error
    waiting = "somebody else compiles the strategies; waiting for that to end"
    with locked(into.with_name(f"{into.name}.lock"), "the lock of the compilation", waiting) as lock:
        if into.is_dir():
            return
        _require_tools()
        print(
            "tmflow: compiling the strategies for this machine, once; this takes one to two minutes on two idle cores.",
            file=sys.stderr,
            flush=True,
        )
        if not (work / "build.ninja").is_file():  # CMake writes it last
            shutil.rmtree(work, ignore_errors=True)
        with writing(into):
            output = log.open("w", encoding="utf-8")
        with output:
            # The tools inherit the lock: if this process is killed, nothing else builds here until they have ended.
            try:
                build(work, work / "lib", output, OPTIONS, inherited=(lock,))
            except NotConfigured:  # what CMake found earlier may be gone
                shutil.rmtree(work, ignore_errors=True)
                raise
        with writing(into):
            (work / "lib").rename(into)
        for needless in into.parent.glob(f"{into.name}.*.build"):  # also of processes that were killed
            shutil.rmtree(needless, ignore_errors=True)
        log.unlink()


def _require_tools() -> None:
    find_compiler()
    require_python()
    for name in ("cmake", "ninja"):
        tool(name)


def _environment() -> str:
    """A hash of all that the libraries depend on but the compiler."""
    digest = hashlib.sha256()
    sources = native_sources()
    for source in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"{source.relative_to(sources)}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    system = (sysconfig.get_config_var("SOABI"), *platform.libc_ver())
    return _short_hash(repr((__version__, digest.hexdigest(), tensorflow_version(), system)))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
