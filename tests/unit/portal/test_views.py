"""Named views stay intact with concurrent writers, are bounded, and are refused in one sentence."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.portal import saved_views
from tmflow.portal.saved_views import View

VIEW = View(page="explore", choices={"experiment": ["fig-4.7"], "strategy": ["htm", "a&b=c #é"]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "not there yet" / "views.json"


def test_a_view_is_kept_under_its_name_until_it_is_deleted(file: Path) -> None:
    assert saved_views.load_views(file) == {}
    assert not file.parent.exists()  # reading creates nothing
    saved_views.save(file, "b", VIEW)
    saved_views.save(file, "A view 2.0", View(page="runs", choices={}))
    assert saved_views.load_views(file) == {"A view 2.0": View(page="runs", choices={}), "b": VIEW}
    saved_views.delete(file, "b")
    saved_views.delete(file, "never was")
    assert list(saved_views.load_views(file)) == ["A view 2.0"]


def test_the_query_gives_a_choice_of_several_values_several_times() -> None:
    assert VIEW.query == "experiment=fig-4.7&strategy=htm&strategy=a%26b%3Dc+%23%C3%A9"


def test_a_taken_name_keeps_its_view(file: Path) -> None:
    saved_views.save(file, "mine", VIEW)
    with pytest.raises(BadInput, match="already a view 'mine'"):
        saved_views.save(file, "mine", View(page="runs", choices={}))
    assert saved_views.load_views(file) == {"mine": VIEW}


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "<b>", "a\nb", "a\0", "../x", "x" * 61, "a/b", "a&b"])
def test_what_is_no_name_is_refused(name: str, file: Path) -> None:
    with pytest.raises(BadInput, match="name has 1 to 60"):
        saved_views.save(file, name, VIEW)
    assert not file.exists()


def test_number_and_size_are_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="at most 4000 are allowed"):
        saved_views.save(file, "long", View(page="runs", choices={"x": ["y" * saved_views.LONGEST]}))
    monkeypatch.setattr(saved_views, "MOST", 2)
    for name in "ab":
        saved_views.save(file, name, VIEW)
    with pytest.raises(BadInput, match="delete one first"):
        saved_views.save(file, "c", VIEW)


def test_where_it_cannot_be_written_it_says_so(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    file = in_the_way / "views.json"
    assert str(in_the_way) in str(saved_views.refusal(file))
    with pytest.raises(BadInput, match="cannot be written"):
        saved_views.save(file, "a", VIEW)
    assert saved_views.refusal(tmp_path / "views.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": {"page": "../x", "choices": {}}}', '{"a": 1}', "\xff"])
def test_another_file_in_its_place_is_told_and_kept(text: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(text, encoding="latin-1")
    for ask in (
        lambda: saved_views.load_views(file),
        lambda: saved_views.save(file, "a", VIEW),
        lambda: saved_views.delete(file, "a"),
    ):
        with pytest.raises(BadInput, match="no named views"):
            ask()
    assert file.read_text(encoding="latin-1") == text


def _save(file: Path, name: str) -> None:
    saved_views.save(file, name, VIEW)


def test_several_processes_save_at_once(file: Path) -> None:
    names = [f"view {n:02}" for n in range(24)]
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        list(pool.map(_save, [file] * len(names), names))
    assert list(saved_views.load_views(file)) == names
