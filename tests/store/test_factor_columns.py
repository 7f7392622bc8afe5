"""Factors in the JSON document of a spec are read with their types on each kind of database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, select, update

from tests.support.forged import local_runs, store
from tmflow.base.errors import BadInput
from tmflow.store import engine, factor_columns, models, run_detail, schema


@pytest.mark.parametrize(
    ("name", "document", "value"),
    [
        ("hidden", '{"hidden":7}', 7),
        ("learning_rate", '{"learning_rate":0.25}', 0.25),
        ("learning_rate", '{"learning_rate":1.0}', 1.0),
        ("strategy", '{"strategy":"l\\"ock"}', 'l"ock'),
        ("layout", '{"layout":"joined"}', "joined"),
        ("hidden", "{}", None),
        ("layout", '{"hidden":7}', None),
    ],
)
def test_a_factor_of_the_document_has_its_type(url: URL, tmp_path: Path, name: str, document: str, value: Any) -> None:
    store(url, tmp_path / "local", local_runs(rounds=1))
    with engine.open_writer(url).begin() as connection:
        connection.execute(update(models.Spec).values(later_factors_json=document))
        answers = set(connection.scalars(select(factor_columns._FactorInDocument(name))))
    assert answers == {value}
    assert [type(answer) for answer in answers] == [type(value)]


def test_a_document_that_is_none_is_one_sentence(sqlite: URL, tmp_path: Path) -> None:
    runs = local_runs(rounds=1)
    store(sqlite, tmp_path / "local", runs)
    with engine.open_writer(sqlite).begin() as connection:
        connection.execute(update(models.Spec).values(later_factors_json="{nothing"))
        assert set(connection.scalars(select(factor_columns._FactorInDocument("hidden")))) == {None}
    with pytest.raises(BadInput, match=r"the later factors of spec [0-9a-f]{64} is not JSON in the database"):
        run_detail.run(engine.open_reader(sqlite), runs[0].uid)
    assert not schema.check(sqlite).ok
