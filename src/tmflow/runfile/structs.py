"""Structs into which msgspec reads JSON as a closed model of pydantic does, many times as fast.

They are derived from the models, so nothing is said twice. What a struct takes, its model takes, with the same values.
It takes less: no true for 1, no 1.0 for a whole number, nothing left out but what came later. Where it refuses, the
model is to be asked, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from msgspec import NODEFAULT, Meta, Struct, defstruct, field
from pydantic import BaseModel, FailFast
from pydantic.fields import FieldInfo

Rule = Callable[[Any], Any]

# What is not among these, a struct would not ask for.
_CONFIG = {"extra": "forbid", "frozen": True, "allow_inf_nan": False}  # JSON has neither of these numbers
_CONSTRAINTS = {Ge: "ge", Gt: "gt", Le: "le", MinLen: "min_length"}


@cache
def struct_of(model: type[BaseModel], words: tuple[str, ...] = ()) -> type[Struct]:
    """The struct of a model, its fields in alphabetical order; raises TypeError if it could not ask for all it has to.

    Its `FLOATS` are the fields that may hold one. `words` are fields in whose place a text stands: then the `rules_of`
    the model are not asked, as they may need them.
    """
    rules = rules_of(model)
    if model.model_config != _CONFIG:
        raise TypeError(f"{model.__name__} is configured in a way that no struct is: {model.model_config}")
    fields = [
        (name, str if name in words else _of_field(field), _default(model, name, field))
        for name, field in sorted(model.model_fields.items())
    ]

    floats = tuple(name for name, field in sorted(model.model_fields.items()) if _may_be_float(field))

    def ask(itself: Any) -> None:
        for rule in rules:
            rule(itself)

    return defstruct(
        model.__name__,
        fields,
        namespace={"FLOATS": floats} | ({"__post_init__": ask} if rules and not words else {}),
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=True,  # as the hash of a run does with what came later
        gc=False,
    )


def rules_of(model: type[BaseModel]) -> list[Rule]:
    """The rules of a model on all its fields together, which raise ValueError; it may have no other ones."""
    decorators = model.__pydantic_decorators__
    rules = decorators.model_validators.values()
    others = decorators.validators, decorators.field_validators, decorators.root_validators
    if any(others) or any(rule.info.mode != "after" for rule in rules):
        raise TypeError(f"{model.__name__} has rules that are asked before there are values; no struct can")
    return [rule.func for rule in rules]


def _may_be_float(field: FieldInfo) -> bool:
    return float in (field.annotation, *get_args(field.annotation))


def _default(model: Any, name: str, of: FieldInfo) -> Any:
    """Only what came later may be left out, so that what a struct has is what was said."""
    if name not in getattr(model, "LATER", ()):
        return NODEFAULT
    return field(default_factory=list) if of.default == [] else of.default


def _of_field(field: FieldInfo) -> Any:
    """`FailFast` asks for nothing."""
    constraints = {}
    for one in field.metadata:
        if type(one) in _CONSTRAINTS:
            name = _CONSTRAINTS[type(one)]
            constraints[name] = getattr(one, name)
        elif type(one) is not FailFast:
            raise TypeError(f"a struct cannot ask for {one}")
    return _of_type(field.annotation, constraints)


def _of_type(wanted: Any, constraints: dict[str, Any]) -> Any:
    args = get_args(wanted)
    if get_origin(wanted) in (Union, UnionType):
        return Union[tuple(_of_type(one, constraints) for one in args)]  # noqa: UP007  # `|` takes no tuple
    if wanted is NoneType:
        return None
    if wanted in (int, float, str):
        return Annotated[wanted, Meta(**constraints)] if constraints else wanted
    if not constraints:
        if wanted is bool or get_origin(wanted) is Literal:
            return wanted
        if get_origin(wanted) is list:
            return list[_of_type(args[0], {})]  # type: ignore[misc]  # a type that is made here
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            return struct_of(wanted)
    raise TypeError(f"a struct cannot have a {wanted} of {constraints}")
