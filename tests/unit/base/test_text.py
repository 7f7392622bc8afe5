"""Imported text is shown as it is: no spreadsheet computes it, and it has no effect in Markdown. Numbers in sentences.

tests/portal/test_safety.py checks the Markdown in a browser.
"""

from __future__ import annotations

import html
import io

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from tmflow.base.text import JOINER, csv_cell, csv_frame, interval, markdown


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])
def test_no_text_is_a_formula(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "lock", "a=1", " =1", "'=1", "1-2"])
def test_other_text_is_as_it_was(text: str) -> None:
    assert csv_cell(text) == text


def test_texts_in_categories_and_under_any_column_are_escaped() -> None:
    table = pd.DataFrame({"kind": pd.Categorical(["=1", "lock"]), 0: ["=1", None]})
    assert csv_frame(table).to_csv(index=False).splitlines()[1:] == ["'=1,'=1", "lock,"]


def test_a_frame_keeps_its_numbers_and_what_is_missing() -> None:
    table = pd.DataFrame(
        {
            "reason": pd.Series(["=cmd()", None, "signal 11"], dtype="str"),
            "mixed": [-1, "-1", None],
            "number": [-0.5, float("nan"), 1.0],
            "count": pd.Series([-1, None, 2], dtype="Int64"),
        }
    )
    written = csv_frame(table).to_csv(index=False)
    assert written.splitlines() == ["reason,mixed,number,count", "'=cmd(),-1,-0.5,-1", ",'-1,,", "signal 11,,1.0,2"]
    assert table["reason"].iloc[0] == "=cmd()"
    assert pd.read_csv(io.StringIO(written))["number"].iloc[0] == -0.5


TEXTS = [
    "plain words, 50 % of them; \"quoted\" 'so' (here)?", "fig-4.1 softmax-batch-100", "_em_ __b__ *em* **b** ~~s~~",
    "<b>x</b><script>alert(1)</script><img src=x onerror=alert(1)>", "[a](http://x.org) ![i](http://x.org/i.png)",
    "http://x.org/a www.x.org me@x.org", ":red[x] :material/home: :streamlit: :smile: :blue-badge[y]", "$x^2$ $$y$$",
    "# head", "- item", "+ item", "1. one", "1) one", "> q", "`code`", "| a | b |", "---", "===",
    "a -> b -- c <= d ~= e", "&amp; &lt; &#58; &#x3c;", r"\*a\* \\", "[^1] [ ] task", "naïve µ ✓ 日本", "",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_words_stay_and_nothing_is_markup(text: str) -> None:
    shown = markdown(text)
    assert html.unescape(shown).replace(JOINER, "") == text
    rendered = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(shown)
    assert html.unescape(rendered.removeprefix("<p>").removesuffix("</p>\n")).replace(JOINER, "") == text
    assert rendered.count("<") <= 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\n\n    b\tc", "a b c"), ("a\0b\x07c", "a\ufffdb\ufffdc"), ("a\u202eb\u200bc\ud800", "a\ufffdb\ufffdc\ufffd"),
     (12.5, "12.5"), (None, "None")],
)  # fmt: skip
def test_what_has_no_shape_is_replaced_and_lines_are_joined(text: object, shown: str) -> None:
    assert html.unescape(markdown(text)) == shown


def test_names_and_sentences_stay_readable() -> None:
    told = "The link asks for scale 'x', which is not here"
    assert markdown(told) == told
    assert markdown("fig-4.7") == "fig-4.7"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1.15, 1.1, 1.21), "1.15 [1.10, 1.21]"),
        ((1.01, 0.998, 1.02), "1.010 [0.998, 1.020]"),
        ((0.5, 0.0123, 1.21), "0.500 [0.012, 1.210]"),
        ((0, 0, 0.0123), "0.0000 [0.0000, 0.0123]"),
        ((12345, 12000, 12900), "12345 [12000, 12900]"),
        ((1e8, 1, 1e300), "1e+08 [1, 1e+300]"),
        ((0, 0, 0), "0 [0, 0]"),
        ((1.5, None, None), "1.5"),
        ((0.3, -0.004, 12), "0.3 [-0.004, 12]"),  # two decimals would turn the lower end into 0
        ((2.45, 2.79e-05, 2.15e5), "2.45 [2.79e-05, 2.15e+05]"),
        ((1.0, float("nan"), 3.0), "1 [nan, 3]"),
    ],
)
def test_the_numbers_of_an_interval_have_the_same_number_of_decimals(
    values: tuple[float, float | None, float | None], text: str
) -> None:
    assert interval(*values) == text
