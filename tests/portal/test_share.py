"""Links and named views: a copied link opens exactly what is displayed."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pages import texts
from serving import APP
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tmflow.portal import saved_views
from tmflow.portal.links import DEFAULT_PAGE, page_of
from tmflow.portal.saved_views import View

ROUTER = """
import streamlit as st

st.navigation([st.Page("views/explore.py"), st.Page("views/runs.py")]).run()
"""
PAGE = """
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.filter_widgets import choose
from tmflow.portal.url_state import DATA
from tmflow.portal.links import share_bar

study = study_or_stop()
choose(DATA, study.counts)
share_bar()
"""
WHOLE = {"experiment": ["softmax-batch-1"], "scale": ["full"], "evidence": ["measured"]}


@pytest.fixture
def file(seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of named views; the database is the seeded one."""
    monkeypatch.setenv("TMFLOW_DB_URL", str(seeded))
    monkeypatch.setenv("TMFLOW_VIEWS", str(tmp_path / "views.json"))
    return tmp_path / "views.json"


def page(folder: Path, **query: str | list[str]) -> AppTest:
    """A page with filters and a share bar, in an app of two."""
    (folder / "views").mkdir(exist_ok=True)
    (folder / "app.py").write_text(ROUTER)
    for name in ("explore", "runs"):
        (folder / "views" / f"{name}.py").write_text(PAGE)
    app = AppTest.from_file(str(folder / "app.py"), default_timeout=60)
    app.query_params.update(query)
    app.context = {"url": "https://portal.example/base/"}
    app.switch_page("views/runs.py")
    app.run()
    assert not app.exception, app.exception
    return app


def of(link: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(link).query)


def test_the_link_holds_the_whole_view_and_nothing_else(file: Path, tmp_path: Path) -> None:
    app = page(tmp_path, experiment="softmax-batch-100", nonsense="x", strategy="y" * 1000, run="7")
    link = app.code[0].value
    assert link.startswith("https://portal.example/base/runs?")
    found = of(link)
    assert set(found) == {"experiment", "scale", "platform", "evidence", "run"}
    assert (found["experiment"], found["run"]) == (["softmax-batch-100"], ["7"])
    assert len(link) < 200
    again = page(tmp_path, **found).code[0].value
    assert of(again) == found


def test_a_view_is_saved_listed_and_deleted(file: Path, tmp_path: Path) -> None:
    app = page(tmp_path)
    app.text_input(key="name_of_view").input(" My view ")
    app.button[0].click().run()
    assert {**saved_views.load_views(file)["My view"].choices}.items() >= WHOLE.items()
    assert saved_views.load_views(file)["My view"].page == "runs"
    assert app.selectbox(key="saved_view").options == ["My view"]
    assert app.code[1].value == "https://portal.example/base/runs?view=My+view"
    app.text_input(key="name_of_view").input("My view")
    app.button[0].click().run()
    assert "already" in app.error[0].value
    app.button(key="delete_view").click().run()
    assert saved_views.load_views(file) == {}
    assert "saved_view" not in {box.key for box in app.selectbox}


def test_where_nothing_can_be_saved_only_the_link_is_offered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("")
    monkeypatch.setenv("TMFLOW_VIEWS", str(file / "views.json"))
    app = page(file.parent)
    assert len(app.code) == 1
    assert "cannot be read" in app.error[0].value
    assert not app.text_input


def test_a_broken_file_of_views_stops_no_page(file: Path) -> None:
    file.write_text("{")
    app = page(file.parent, view="any")
    assert "holds no named views" in app.warning[0].value
    assert len(app.code) == 1
    assert "holds no named views" in app.error[0].value


def test_a_saved_view_of_a_page_that_has_gone_stops_no_page(file: Path) -> None:
    saved_views.save(file, "old", View(page="speedup", choices={}))
    assert "page 'speedup' no longer exists" in texts(page(file.parent))


@pytest.mark.parametrize("name", ["nope", "<b>", "x" * 10_000, "\0"])
def test_a_view_that_is_not_saved_is_told(name: str, file: Path) -> None:
    app = page(file.parent, view=name)
    assert "is not saved here" in app.warning[0].value
    assert len(app.warning[0].value) < 500
    assert len(app.selectbox) == 4


@pytest.mark.parametrize("start", ["runs", "method"])
def test_a_named_view_opens_from_any_page(start: str, file: Path) -> None:
    saved_views.save(
        file, "mine", View(page="explore", choices={"experiment": ["softmax-batch-100"], "metric": ["accuracy"]})
    )
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params["view"] = "mine"
    app.switch_page(f"views/{start}.py").run()
    assert not app.exception, app.exception
    assert app.title[0].value == "Explore"
    assert dict(app.query_params) == {"experiment": "softmax-batch-100", "metric": "accuracy"}
    assert app.selectbox(key="experiment").value == "softmax-batch-100"


def test_a_view_that_names_itself_does_not_go_in_circles(file: Path) -> None:
    saved_views.save(file, "round", View(page="explore", choices={"view": ["round"], "metric": ["accuracy"]}))
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params["view"] = "round"
    app.switch_page("views/runs.py").run()
    assert not app.exception, app.exception
    assert dict(app.query_params) == {"metric": "accuracy"}


def test_a_named_view_of_a_page_that_has_gone_is_told(file: Path) -> None:
    saved_views.save(file, "old", View(page="speedup", choices={}))
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params["view"] = "old"
    app.switch_page("views/explore.py").run()
    assert not app.exception, app.exception
    assert "whose page does not exist" in texts(app)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://a.example/explore", "explore"),
        ("https://a.example/x/runs", "runs"),
        ("https://a.example", DEFAULT_PAGE),
        ("https://a.example/tmflow", DEFAULT_PAGE),
        ("", DEFAULT_PAGE),
    ],
)
def test_the_page_is_that_of_the_address(address: str, name: str) -> None:
    assert page_of(address) == name
