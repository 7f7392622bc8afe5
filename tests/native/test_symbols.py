"""The linker cannot confuse objects that are compiled with different flags."""

from __future__ import annotations

from collections import defaultdict

import cpp
import pytest

from tmflow.native import loader

# Compiled several times: cmake/kernels.cmake, itm.cmake, stm.cmake, train.cmake.
APART = ("kernels_", "itm_O", "stm_O", "dense_math_")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_weak_function_of_an_object_with_other_flags_is_defined_in_another_object(builds: cpp.Builds) -> None:
    archive = builds.built("here", "tmflow_core") / "libtmflow_core.a"
    objects: dict[str, set[str]] = defaultdict(set)
    for line in cpp.called("nm", "--print-file-name", "--defined-only", archive).splitlines():
        place, _, symbol = line.rpartition(": ") if ": " in line else line.rpartition(":")
        *_, kind, name = symbol.split()
        if kind == "W" or (kind == "n" and name.startswith("_Z")):  # n: a group, as of the variants of a constructor
            objects[name].add(place.split(":")[1])
    apart = {name: members for name, members in objects.items() if any(map(is_apart, members))}
    assert {"kernels_O0.o", "stm_O0.o"} <= set().union(*apart.values())
    assert not {name: members for name, members in apart.items() if len(members) > 1}
    # No program or library that links the archive can define one of these names, either.
    assert not [name for name, (member,) in apart.items() if not name.endswith(f".{member.removesuffix('.o')}")]


@pytest.mark.parametrize("sanitizer", [None, "address"])
@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_every_function_of_the_operations_has_a_definition(builds: cpp.Builds, sanitizer: str | None) -> None:
    """A weak function that the linker dropped from one object and renamed in the other would be called at address 0."""
    pytest.importorskip("tensorflow")
    built = builds.sanitised(sanitizer, "tmflow_ops") if sanitizer else builds.built("here", "tmflow_ops")
    undefined = cpp.called("nm", "-D", "--undefined-only", built / "lib" / loader.OPS_LIBRARY).splitlines()
    assert not [line for line in undefined if line.split()[0] in "wv" and " _ZN" in line]


def is_apart(member: str) -> bool:
    return member.startswith(APART)
