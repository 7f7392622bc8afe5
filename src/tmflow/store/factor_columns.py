"""The factors of a spec in the database: columns for the first factors, a JSON document for later ones.

A new factor therefore needs no migration. Specs are few, some thousands for a million runs, so a query can afford to
parse the document of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from sqlalchemy import ColumnElement, Label, Text, func, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from tmflow.base.canonical_json import canonical_json
from tmflow.base.documents import parse_object
from tmflow.spec.factors import VALUES_BEFORE
from tmflow.spec.trial import TrialSpec
from tmflow.store.models import Spec
from tmflow.store.models.base import Count, Real

_COLUMNS = Spec.__table__.columns
_TYPES: dict[type, TypeEngine[Any]] = {int: Count(), float: Real(), str: Text()}


class _FactorInDocument(FunctionElement[Any]):
    """A factor from the document, with the factor's type; NULL if the document lacks it."""

    inherit_cache = True

    def __init__(self, name: str) -> None:
        super().__init__(Spec.later_factors_json, literal_column(f"'{name}'"))
        self.type = _TYPES[_type_of(name)]


@compiles(_FactorInDocument, "sqlite")
def _of_sqlite(element: _FactorInDocument, compiler: SQLCompiler, **options: Any) -> str:
    document, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CASE WHEN json_valid({document}) THEN json_extract({document}, '$.' || {name}) END"


@compiles(_FactorInDocument, "postgresql")
def _of_postgresql(element: _FactorInDocument, compiler: SQLCompiler, **options: Any) -> str:
    document, name = (compiler.process(clause, **options) for clause in element.clauses)
    return (
        f"CAST(CAST({document} AS jsonb) ->> {name} AS {compiler.dialect.type_compiler_instance.process(element.type)})"
    )


def _type_of(name: str) -> type:
    """The type of the values of a factor: int, float or str."""
    annotation = TrialSpec.model_fields[name].annotation
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    kind = kinds[0]
    if get_origin(annotation) is Literal or get_origin(kind) is Literal:
        return str
    assert isinstance(kind, type), f"factor {name} has a type that the database does not hold"
    return kind


def factor(name: str) -> ColumnElement[Any]:
    """An expression for a factor of a spec; a spec older than the factor has the value in `VALUES_BEFORE`."""
    if name in _COLUMNS:
        return _COLUMNS[name]
    value = _FactorInDocument(name)
    return func.coalesce(value, VALUES_BEFORE[name], type_=value.type) if name in VALUES_BEFORE else value


FACTORS: list[ColumnElement[Any]] = [
    factor(name) if name in _COLUMNS else Label(name, factor(name)) for name in TrialSpec.model_fields
]
"""Every factor, under its name, in the order of `TrialSpec`."""


def columns_of(spec: TrialSpec) -> dict[str, Any]:
    """Convert the factors of a spec to the columns of its row."""
    factors = spec.model_dump()
    columns = {name: value for name, value in factors.items() if name in _COLUMNS}
    # As in the hash of the spec, which leaves out what does not apply and what every earlier trial had.
    later = {name: value for name, value in spec.identity().items() if name not in _COLUMNS}
    return columns | {"later_factors_json": canonical_json(later)}


def factors_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row to the factors of its spec. Raises BadInput if its document is not a JSON object."""
    later = parse_object(row["later_factors_json"], f"the later factors of spec {row['spec_sha256']}")
    return {
        name: row[name] if name in _COLUMNS else later.get(name, VALUES_BEFORE.get(name))
        for name in TrialSpec.model_fields
    }
