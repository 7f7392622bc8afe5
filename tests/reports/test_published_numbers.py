"""The pages of this checkout have the numbers that `make results` computes from the bundles of contrib/."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.speed.cost_model_error import published_cases, report
from tmflow.base.errors import BadInput
from tmflow.benchmark.page_numbers import filled_page
from tmflow.reports.pages.bundle_runs import published_machines
from tmflow.reports.pages.fill import fill_texts, filled_pages
from tmflow.reports.pages.schema import load_pages
from tmflow.store import engine


@pytest.mark.slow
def test_the_pages_have_the_numbers_of_the_published_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.VARIABLE, "sqlite:////nowhere/study.db")  # the local study takes no part
    for path, text in filled_pages(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)} differs: call `make results`"


@pytest.mark.slow
def test_docs_speed_has_the_numbers_of_the_saved_benchmarks() -> None:
    for path, text in filled_page(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)} differs: call `make results`"


@pytest.mark.slow
def test_the_page_of_the_cost_model_has_the_errors_of_the_published_runs() -> None:
    page = ROOT / "docs" / "speed" / "cost-model.md"
    assert page.read_text(encoding="utf-8") == report(published_cases()), "call python -m tests.speed.cost_model_error"


@pytest.mark.slow
def test_a_changed_number_is_replaced_and_an_entry_that_no_page_shows_is_refused() -> None:
    every = load_pages()
    pages = every.model_copy(update={"tables": {}, "values": {"htm-elements": every.values["htm-elements"]}})
    page = ROOT / "page.md"
    with published_machines(ROOT / "contrib", pages.machines) as published:
        texts = fill_texts({page: "It is <!-- value: htm-elements -->50 %<!-- end -->.\n"}, pages, published)
        number = r"\d+\.\d\d \[\d+\.\d\d, \d+\.\d\d\] %"
        assert re.fullmatch(f"It is <!-- value: htm-elements -->{number}<!-- end -->\\.\n", texts[page])
        with pytest.raises(BadInput, match="no page shows 'htm-elements'"):
            fill_texts({page: "Nothing.\n"}, pages, published)
