"""A failed write is reported in one sentence, and leaves no partial file."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.base.files import require_writable, whole_folder, write_text

KEPT = "what was written before is kept."


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in (
        (tmp_path / "file" / "below", "(Not a directory|File exists)"),
        (tmp_path, "Is a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(BadInput, match=f"^{path} cannot be written: {why}; {KEPT}$"):
            write_text(path, "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_looked_at_before_it_is_needed(tmp_path: Path) -> None:
    require_writable(tmp_path)
    require_writable(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file is not a folder, but must be one: move it away"):
        require_writable(tmp_path / "file")


def test_a_folder_is_there_with_all_that_belongs_in_it_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    (tmp_path / ".figures.new").mkdir()
    (tmp_path / ".figures.new" / "left by a kill").touch()
    with whole_folder(folder) as new:
        (new / "first").touch()
        assert not folder.exists()
    with suppress(RuntimeError), whole_folder(folder) as new:
        (new / "second").touch()
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["first"]
    with whole_folder(folder) as new:
        (new / "third").touch()
    assert [path.name for path in folder.iterdir()] == ["third"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_whose_replacement_was_killed_in_the_middle_is_still_there(tmp_path: Path) -> None:
    (tmp_path / ".figures.old").mkdir()
    (tmp_path / ".figures.old" / "first").touch()
    (tmp_path / ".figures.new").mkdir()
    folder = tmp_path / "figures"
    with suppress(RuntimeError), whole_folder(folder):
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["first"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_is_kept_if_the_new_one_cannot_take_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rename = tmp_path / "figures", Path.rename
    (folder / "first").mkdir(parents=True)

    def fails_for_the_new_one(path: Path, target: Path) -> Path:
        if path.name == ".figures.new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    with pytest.raises(BadInput, match="figures cannot be written: Input/output error"), whole_folder(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["first"]
    assert list(tmp_path.iterdir()) == [folder]
