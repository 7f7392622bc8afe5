"""The listed mutations still apply and name existing tests; their runner separates caught mutations from survivors."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.mutants import run
from tests.mutants.catching import End, Outcome
from tests.mutants.mutation import Catcher, Mutation, StaleMutation, read_mutations
from tests.mutants.run import Verdict
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root

ROOT = project_root()
NATIVE = ROOT / "native_ops"
MUTATIONS = read_mutations(ROOT / run.LISTS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_listed_mutation_applies(mutation: Mutation) -> None:
    mutant = mutation.mutant_of(ROOT)
    if mutation.file.endswith(".py"):
        ast.parse(mutant)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_the_tests_that_a_mutation_names_exist(mutation: Mutation) -> None:
    catcher = mutation.caught_by
    for node in catcher.pytest or ():
        file, *names = node.partition("[")[0].split("::")
        assert (ROOT / file).is_file(), node
        assert "::".join(names) in python_tests(ROOT / file) if names else True, node
    if catcher.ctest is not None:
        assert catcher.target in programs()
        known = [*googletests(), *ctests()]
        assert any(re.fullmatch(catcher.ctest, name) or re.fullmatch(name, catcher.ctest) for name in known), catcher


@cache
def python_tests(file: Path) -> set[str]:
    """The test functions and classes in a file, and their methods as Class::method."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


@cache
def googletests() -> list[str]:
    """Patterns for the names of all GoogleTest tests; parametrised ones have a prefix and a suffix."""
    found = []
    for file in NATIVE.rglob("*.cc"):
        for macro, suite, name in re.findall(
            r"^\s*((?:TYPED_)?TEST(?:_[FP])?)\(\s*(\w+),\s*(\w+)\)", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            plain = macro in ("TEST", "TEST_F")
            found.append(rf"{suite}\.{name}" if plain else rf"(.*/)?{suite}(/.*)?\.{name}(/.*)?")
    return [*found, *(name.replace(r"\.", ".") for name in found)]


@cache
def cmake_texts() -> str:
    files = [*NATIVE.rglob("CMakeLists.txt"), *NATIVE.rglob("*.cmake")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@cache
def ctests() -> list[str]:
    """Patterns for the names of all tests of CTest."""
    names = [*re.findall(r"add_test\(\s*NAME\s+(\S+)", cmake_texts()), "stress_${variant}"]
    return [re.sub(r"\$\{\w+\}", r"\\w+", name) for name in names]


@cache
def programs() -> set[str]:
    return set(re.findall(r"(?:add_executable|tmflow_add_test_program)\(\s*(\w+)", cmake_texts()))


def mutation(**changes: Any) -> Mutation:
    entry = {
        "id": "sum-is-a-difference",
        "file": "toy.py",
        "old": "return a + b\n",
        "new": "return a - b\n",
        "caught_by": Catcher(pytest=["test_toy.py"]),
        "why": "A sum that is none.",
        "topic": "toys",
    }
    return Mutation(**{**entry, **changes})


class TestReplacing:
    TEXT = "def f(a, b):\n    if a:\n        return a + b\n    return 2 * (a + b)\n"

    def test_a_line_keeps_its_indentation(self) -> None:
        assert mutation(new="c = a\nreturn c\n").apply(self.TEXT) == self.TEXT.replace(
            "        return a + b\n", "        c = a\n        return c\n"
        )

    def test_lines_are_found_at_any_common_indentation(self) -> None:
        given = mutation(old="if a:\n    return a + b\n", new="")
        assert given.apply(self.TEXT) == "def f(a, b):\n    return 2 * (a + b)\n"

    def test_a_part_of_a_line_is_found_too(self) -> None:
        assert "return 3 * (a + b)" in mutation(old="2 * (", new="3 * (").apply(self.TEXT)

    @pytest.mark.parametrize(("old", "count"), [("a + b", 2), ("nowhere", 0), ("return c\n", 0)])
    def test_what_does_not_occur_once_is_stale(self, old: str, count: int) -> None:
        with pytest.raises(StaleMutation, match=rf"toy\.py has its old text {count} times, not once"):
            mutation(old=old).apply(self.TEXT)

    def test_a_mutation_that_changes_nothing_is_stale(self, tmp_path: Path) -> None:
        (tmp_path / "toy.py").write_text(self.TEXT)
        with pytest.raises(StaleMutation, match="old and new are the same"):
            mutation(new="return a + b").mutant_of(tmp_path)


ENTRY: dict[str, Any] = {
    "id": "x",
    "file": "toy.py",
    "old": "1",
    "new": "2",
    "caught_by": {"pytest": ["test_toy.py"]},
    "why": "One is not two.",
}


class TestLists:
    def read(self, folder: Path, *entries: Any) -> list[Mutation]:
        (folder / "toys.yaml").write_text(yaml.safe_dump(list(entries)))
        return read_mutations(folder)

    def test_a_list_is_read(self, tmp_path: Path) -> None:
        (read,) = self.read(tmp_path, ENTRY)
        assert (read.topic, read.caught_by.by) == ("toys", "failure")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"note": "x"}, r"toys\.yaml, mutation x: unknown key 'note'; valid: caught_by, .*"),
            ({"topic": "x"}, "unknown key 'topic'"),
            ({"id": "X y"}, "mutation X y: id is 'X y', but"),
            ({"why": ""}, "why is ''"),
            ({"caught_by": {}}, "caught_by: give either pytest or ctest"),
            ({"caught_by": {"pytest": ["x"], "ctest": "X", "target": "y"}}, "caught_by: give either pytest or ctest"),
            ({"caught_by": {"ctest": "X.y"}}, "ctest needs target"),
            ({"caught_by": {"ctest": "X(", "target": "y"}}, "is not a regular expression"),
            ({"caught_by": {"pytest": ["x"], "by": "luck"}}, "caught_by.by is 'luck'"),
        ],
    )
    def test_what_is_wrong_in_a_list_is_said(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        with pytest.raises(BadInput, match=message):
            self.read(tmp_path, {**ENTRY, **change})

    def test_an_id_is_given_once(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"mutation x: the id is taken, in toys\.yaml"):
            self.read(tmp_path, ENTRY, ENTRY)


TOY = """
def add(a: int, b: int) -> int:
    return a + b


def wait(n: int) -> int:
    while n > 0:
        n -= 1
    return n
"""
TEST_TOY = """
import subprocess
from pathlib import Path

import pytest

from toy import add, wait


def test_add():
    assert add(1, 2) == 3


def test_weak():
    assert add(1, 0) == 1


def test_wait():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("child").write_text(str(child.pid))
    assert wait(3) == 0
    child.kill()


def test_wrong():
    assert add(1, 2) == 4


@pytest.mark.skip
def test_skipped():
    assert add(1, 2) == 3
"""
TOY_CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(toy CXX)
enable_testing()
add_executable(toy_tests toy.cc)
add_test(NAME toy COMMAND toy_tests)
"""


@pytest.mark.parametrize(
    ("by", "end", "verdict"),
    [
        ("failure", End.FAILED, Verdict.CAUGHT),
        ("failure", End.PASSED, Verdict.SURVIVED),
        ("failure", End.SKIPPED, Verdict.SURVIVED),
        ("failure", End.TIMED_OUT, Verdict.NO_ANSWER),
        ("failure", End.CRASHED, Verdict.NO_ANSWER),
        ("failure", End.NOT_BUILT, Verdict.NOT_BUILT),
        ("failure", End.NOT_RUN, Verdict.NO_ANSWER),
        ("timeout", End.FAILED, Verdict.NO_ANSWER),
        ("timeout", End.PASSED, Verdict.SURVIVED),
        ("timeout", End.TIMED_OUT, Verdict.CAUGHT),
        ("crash", End.FAILED, Verdict.NO_ANSWER),
        ("crash", End.CRASHED, Verdict.CAUGHT),
    ],
)
def test_only_the_declared_end_catches_a_mutant(by: Any, end: End, verdict: Verdict) -> None:
    catcher = Catcher(pytest=["test_toy.py"], by=by)
    assert run.compare(Outcome(End.PASSED), Outcome(end), catcher)[0] is verdict


@pytest.mark.slow
class TestRunning:
    """The runner on a project of two files."""

    @pytest.fixture
    def judge(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[tuple[str, str]]]]:
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        (tmp_path / ".gitignore").write_text("/build/\n")
        (tmp_path / "toy.py").write_text(TOY)
        (tmp_path / "test_toy.py").write_text(TEST_TOY)
        (tmp_path / "pyproject.toml").write_text("")
        monkeypatch.setattr(run, "library_dir", lambda: tmp_path)
        before = {file: file.read_bytes() for file in tmp_path.glob("*.[pt]*")}

        def judged(*mutations: Mutation) -> list[tuple[Verdict, str]]:
            return [(result.verdict, result.note) for result in run.judged(tmp_path, mutations)]

        yield judged
        assert {file: file.read_bytes() for file in tmp_path.glob("*.[pt]*")} == before
        if (copy := tmp_path / run.COPY / "tree" / "toy.py").exists():
            assert copy.read_text() == TOY

    @staticmethod
    def caught_by(name: str, **more: str) -> Catcher:
        return Catcher(pytest=[f"test_toy.py::{name}"], **more)

    def test_each_verdict(self, judge: Callable[..., Any]) -> None:
        results = judge(
            mutation(caught_by=self.caught_by("test_add")),
            mutation(caught_by=self.caught_by("test_weak")),
            mutation(caught_by=self.caught_by("test_wrong")),
            mutation(caught_by=self.caught_by("test_nowhere")),
            mutation(caught_by=self.caught_by("test_skipped")),
            mutation(caught_by=self.caught_by("test_add"), new="return (a\n"),
            mutation(caught_by=self.caught_by("test_add"), old="def add(a", new="def sub(a"),
            mutation(caught_by=self.caught_by("test_add"), old="nowhere"),
        )
        assert [verdict for verdict, _ in results] == [
            Verdict.CAUGHT,
            Verdict.SURVIVED,
            Verdict.NO_ANSWER,
            Verdict.NO_ANSWER,
            Verdict.SKIPPED,
            Verdict.NOT_BUILT,
            Verdict.NO_ANSWER,  # its test cannot be imported
            Verdict.STALE,
        ]
        assert results[2][1].startswith("failed without it: ")
        assert results[3][1].startswith("did not run without it: ")
        assert results[5][1] == "'(' was never closed (toy.py, line 3)"

    def test_what_does_not_end_is_ended_with_all_that_it_started(
        self, judge: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run, "SECONDS_MORE", 1)
        monkeypatch.setattr(run, "TIMES_LONGER", 1)
        catcher = self.caught_by("test_wait", by="timeout")
        assert judge(mutation(old="n -= 1", new="n += 0", caught_by=catcher)) == [(Verdict.CAUGHT, "")]
        child = int((tmp_path / run.COPY / "tree" / "child").read_text())
        assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE

    def test_a_crash_catches_a_mutant_that_declares_it(self, judge: Callable[..., Any]) -> None:
        crash = {"old": "return a + b", "new": "import os; os.abort()"}
        by = [self.caught_by("test_add", by="crash"), self.caught_by("test_add")]
        assert judge(*(mutation(caught_by=catcher, **crash) for catcher in by)) == [
            (Verdict.CAUGHT, ""),
            (Verdict.NO_ANSWER, "ended by signal 6, which caught_by does not declare"),
        ]

    def test_cpp_is_built_and_its_tests_run(self, judge: Callable[..., Any], tmp_path: Path) -> None:
        native = tmp_path / "native_ops"
        native.mkdir()
        (native / "CMakeLists.txt").write_text(TOY_CMAKE)
        (native / "toy.cc").write_text(
            "int add(int a, int b) {\n  return a + b;\n}\nint main() { return add(1, -1); }\n"
        )
        by = {
            "file": "native_ops/toy.cc",
            "old": "return a + b;\n",
            "caught_by": Catcher(ctest="toy", target="toy_tests"),
        }
        results = judge(
            mutation(**by, new="return a - b;\n"),
            mutation(**by, new="return b + a;\n"),
            mutation(**by, new="return a\n"),
        )
        assert [verdict for verdict, _ in results] == [Verdict.CAUGHT, Verdict.SURVIVED, Verdict.NOT_BUILT]

    def test_what_was_left_in_the_copy_is_mended(self, judge: Callable[..., Any], tmp_path: Path) -> None:
        given = mutation(caught_by=self.caught_by("test_add"))
        judge(given)
        tree = tmp_path / run.COPY / "tree"
        (tree / "toy.py").write_text(given.apply(TOY))  # as a kill leaves it
        (tmp_path / "more.py").touch()
        assert judge(given) == [(Verdict.CAUGHT, "")]
        assert (tree / "more.py").exists()
        (tmp_path / "more.py").unlink()
        judge(given)
        assert not (tree / "more.py").exists()


@pytest.mark.slow
class TestCommand:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        (tmp_path / "tests" / "mutants").mkdir(parents=True)
        (tmp_path / ".gitignore").write_text("/build/\n")
        (tmp_path / "toy.py").write_text(TOY)
        (tmp_path / "test_toy.py").write_text(TEST_TOY)
        (tmp_path / "pyproject.toml").write_text("")
        entries = [
            {
                **ENTRY,
                "id": name,
                "old": "a + b",
                "new": "a - b",
                "caught_by": {"pytest": [f"test_toy.py::{test}"]},
            }
            for name, test in (("caught", "test_add"), ("survivor", "test_weak"))
        ]
        (tmp_path / "tests" / "mutants" / "toys.yaml").write_text(yaml.safe_dump(entries))

    def test_a_survivor_is_a_failure_and_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main([]) == 1
        said = capsys.readouterr().out
        assert "1 caught, 1 survived" in said
        assert said.endswith("SURVIVED: survivor (test_toy.py::test_weak): One is not two.\n")

    def test_no_survivor_is_a_success(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main(["--only", "caught", "--topic", "toys"]) == 0
        assert capsys.readouterr().out.endswith("\n1 caught\n")

    def test_a_name_that_is_not_listed_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main(["--only", "cought"]) == 2
        assert capsys.readouterr().err == textwrap.dedent("""\
            Error: 'cought' is no mutation or topic in tests/mutants (did you mean 'caught'?).
        """)

    def test_the_list_says_what_there_is(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main(["--list"]) == 0
        assert capsys.readouterr().out.splitlines()[0] == "toys/caught  toy.py  test_toy.py::test_add"
