"""Text of others is shown as it stands, and computed by no spreadsheet."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from tmflow.base.escaping import csv_cell, csv_frame


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])
def test_no_text_is_a_formula(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "lock", "a=1", " =1", "'=1", "1-2"])
def test_other_text_is_as_it_was(text: str) -> None:
    assert csv_cell(text) == text


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
