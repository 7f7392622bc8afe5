"""Ratings in a CSV file, such as MovieLens' ratings.csv: who rated what, and how, one rating in each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

# The names that the columns may have, MovieLens' first. Other columns are ignored.
COLUMNS = {
    "user": ("userId", "user_id", "user"),
    "item": ("movieId", "item_id", "itemId", "item"),
    "rating": ("rating",),
}
LIKED = 4.0  # a rating from here on means that the user likes the item
LEAST = 100


@dataclass(frozen=True)
class Ratings:
    """n ratings: the numbers of their users and items, from 0 [n], and whether the item is liked [n]."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    liked: NDArray[np.bool_]


def read_ratings(path: Path) -> Ratings:
    """Read a file. Raises BadInput, with the number of the line, for one that has other columns or a bad rating."""
    import pandas as pd  # it takes half a second, which no other training has to wait for

    table = _read(path)
    columns = {meaning: _column(path, table, meaning) for meaning in COLUMNS}
    for meaning, column in columns.items():
        if (missing := table[column].isna() | (table[column].str.strip() == "")).any():
            raise BadInput(f"{path}, line {_line(missing)}: it has no {meaning} ({column}).")
    stars = pd.to_numeric(table[columns["rating"]], errors="coerce")
    if (wrong := ~np.isfinite(stars)).any():
        text = table[columns["rating"]][wrong].iloc[0]
        raise BadInput(f"{path}, line {_line(wrong)}: rating is {text!r}, but should be a number.")
    if len(table) < LEAST:
        raise BadInput(f"{path} has {len(table)} ratings, but should have at least {LEAST}.")
    users, items = (pd.factorize(table[columns[meaning]])[0].astype(np.int64) for meaning in ("user", "item"))
    for meaning, numbers in (("user", users), ("item", items)):
        if numbers.max() == 0:
            raise BadInput(f"{path} has only one {meaning}, but should have at least 2.")
    return Ratings(users, items, stars.to_numpy() >= LIKED)


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path, dtype=str, skipinitialspace=True, skip_blank_lines=False)
    except (OSError, UnicodeDecodeError, pd.errors.EmptyDataError) as error:
        raise BadInput(f"{path} cannot be read as a CSV file: {error}") from error
    except pd.errors.ParserError as error:  # it names the line
        why = str(error).strip().removeprefix("Error tokenizing data. ")
        raise BadInput(f"{path} is not a CSV file: {why}") from error


def _column(path: Path, table: pd.DataFrame, meaning: str) -> str:
    names = [name for name in COLUMNS[meaning] if name in table.columns]
    if not names:
        raise BadInput(
            f"{path}, line 1: there is no column for the {meaning}; it should be called "
            f"{' or '.join(COLUMNS[meaning])}. The columns are {', '.join(map(str, table.columns))}."
        )
    return names[0]


def _line(rows: pd.Series) -> int:
    """The line of the first row that is true; the header is line 1."""
    return int(rows.to_numpy().argmax()) + 2
