"""Names are nouns and verbs of the field, not pronouns, participles or adverbs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tmflow.base.paths import project_root

PACKAGE = project_root() / "src" / "tmflow"

# Names that say nothing about their content. They are banned as complete names, in any case, with or without
# underscores around them: `found` and `_FOUND`, but not `n_found`.
BANNED = frozenset(
    {
        "alike", "alone", "anew", "apart", "aside", "asked", "beside", "fellow", "fellows", "found", "its", "known",
        "laid", "lest", "ours", "own", "said", "spoken", "theirs", "told", "whole",
    }
)  # fmt: skip

# (module, name): the reason for the exception.
EXCEPTIONS: dict[tuple[str, str], str] = {}

# Modules named by a participle, an adverb or a preposition, by path: the reason for the exception.
MODULE_EXCEPTIONS: dict[str, str] = {}
ADVERBS_AND_PREPOSITIONS = frozenset(
    {
        "about", "above", "after", "again", "against", "alone", "along", "among", "anew", "apart", "around", "aside",
        "before", "behind", "below", "beside", "between", "beyond", "by", "for", "from", "here", "in", "inside", "into",
        "of", "on", "once", "out", "over", "possible", "through", "to", "under", "with", "within", "without",
    }
)  # fmt: skip
PARTICIPLES = ("known", "told", "shown", "given", "taken", "laid", "held", "kept", "found", "said", "drawn", "stored")
NOUNS_IN_ED_OR_ING = frozenset({"heading", "locking", "staging", "training"})


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module defines: functions, classes, parameters, variables, attributes, import aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, 0


def is_banned(name: str) -> bool:
    return name.strip("_").lower() in BANNED


def banned_names(path: Path) -> list[str]:
    module = path.relative_to(PACKAGE).as_posix()
    return [
        f"{module}:{line}: {name}"
        for name, line in bound_names(ast.parse(path.read_text()))
        if is_banned(name) and (module, name) not in EXCEPTIONS
    ]


def packages() -> list[str]:
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("package", packages())
def test_names_are_nouns_and_verbs(package: str) -> None:
    wrong = [name for path in sorted((PACKAGE / package).rglob("*.py")) for name in banned_names(path)]
    assert not wrong, "give these a noun or a verb of the field: " + ", ".join(wrong)


def test_modules_at_the_root_have_no_banned_name() -> None:
    assert not [name for path in sorted(PACKAGE.glob("*.py")) for name in banned_names(path)]


def test_lists_name_what_there_is() -> None:
    for module, name in EXCEPTIONS:
        assert name in dict(bound_names(ast.parse((PACKAGE / module).read_text()))), (module, name)
        assert is_banned(name), name
    for module in MODULE_EXCEPTIONS:
        assert (PACKAGE / module).is_file(), module
        assert is_no_noun(Path(module).stem), module


def is_no_noun(stem: str) -> bool:
    """Whether a module's name looks like a participle, an adverb or a preposition."""
    if stem in NOUNS_IN_ED_OR_ING:
        return False
    return stem in ADVERBS_AND_PREPOSITIONS or stem in PARTICIPLES or stem.endswith(("ed", "ing"))


def test_modules_are_called_by_nouns_and_verbs() -> None:
    modules = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
    wrong = [module for module in modules if is_no_noun(Path(module).stem) and module not in MODULE_EXCEPTIONS]
    assert not wrong, f"give these modules a noun: {wrong}"


@pytest.mark.parametrize("name", ["told", "_found", "ASKED", "its_", "Laid"])
def test_banned_names_are_noticed_whatever_their_case(name: str) -> None:
    assert is_banned(name)
    assert not is_banned(f"n_{name}")


def test_every_kind_of_binding_is_noticed() -> None:
    text = "import x as a\ndef b(c):\n    d = 1\n    self.e = [f for f in c]\nclass G:\n    h: int = 0\nlambda i: i\n"
    assert {name for name, _ in bound_names(ast.parse(text))} == {*"abcdefGhi"}
