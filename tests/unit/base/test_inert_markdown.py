"""Text from imported data means nothing to Markdown; what a browser makes of it, tests/portal/test_safety.py shows."""

from __future__ import annotations

import html

import pytest
from markdown_it import MarkdownIt

from tmflow.base.escaping import JOINER, markdown

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
