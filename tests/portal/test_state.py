"""Cached results of a page depend on the runs that they use."""

import pandas as pd
from sqlalchemy import make_url

from tmflow.charts.captions import Caption
from tmflow.portal.study_data import Study


def study(n_runs: int, identity: tuple[object, ...] = ("here", 1, "then")) -> Study:
    """Two platforms, the second with this many runs."""
    counts = pd.DataFrame({"platform": ["p", "q"], "experiment": ["e", "e"], "n_runs": [5, n_runs]})
    states = pd.util.hash_pandas_object(counts, index=False)
    return Study(make_url("sqlite:///here.db"), identity, "abc", counts, states)


def test_runs_of_others_change_nothing() -> None:
    before, after = study(6), study(7, ("here", 1, "now"))
    assert before.state(platform="p") == after.state(platform="p")
    assert before.state(platform="q") != after.state(platform="q")
    assert before.state(experiment="e") != after.state(experiment="e")


def test_another_file_is_another_database() -> None:
    assert study(6).state(platform="p") != study(6, ("here", 2, "then")).state(platform="p")


def test_a_caption_names_the_revision_that_it_is_shown_at() -> None:
    caption = Caption("A title", ["A line.", "Newest run 2026-11-21; database revision 01234567."])
    assert caption.at("89abcdef").lines == ["A line.", "Newest run 2026-11-21; database revision 89abcdef."]
