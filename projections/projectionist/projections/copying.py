"""Finds events that a handler could change, and copies them, so that each handler has its own."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

import msgspec
from msgspec import inspect

from projectionist.core.pydantic_models import is_model

_FIXED = (
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.BytesType,
    inspect.DecimalType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.EnumType,
    inspect.LiteralType,
)


_ATOMS = (str, bytes, int, float, bool, type(None), Decimal, datetime, date, time, timedelta, UUID, Enum)


def is_mutable(cls: type) -> bool:
    """Return True where an instance of this class of events can be changed, or hold a list, a dict or the like."""
    return not _is_fixed(inspect.type_info(cls), set())


def copied(value: Any) -> Any:
    """Copy `value` with fresh lists, dicts, sets, structs, dataclasses and models all the way down."""
    kind: Any = type(value)
    way = _way(kind)
    return value if way is None else way(value)


@lru_cache(1024)
def _way(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of this type are copied; None where they cannot change. deepcopy takes five times as long."""
    if issubclass(kind, _ATOMS):
        return None
    if issubclass(kind, msgspec.Struct):
        return _copied_struct
    if kind in (list, tuple, set, frozenset):
        return lambda value: kind(map(copied, value))
    if kind is dict:
        return lambda value: {key: copied(inner) for key, inner in value.items()}
    if is_model(kind):
        return _copied_model
    if is_dataclass(kind) and kind.__new__ is object.__new__:
        return partial(_copied_dataclass, tuple(field.name for field in fields(kind)))
    return deepcopy


def _copied_struct(value: Any) -> Any:
    return msgspec.structs.replace(value, **{f: copied(getattr(value, f)) for f in value.__struct_fields__})


def _copied_dataclass(names: tuple[str, ...], value: Any) -> Any:
    made = object.__new__(type(value))
    beside = getattr(value, "__dict__", None)
    if beside is not None:  # with what __post_init__ has put there
        made.__dict__.update({name: copied(inner) for name, inner in beside.items()})
    for name in names:
        if beside is None or name not in beside:
            object.__setattr__(made, name, copied(getattr(value, name)))
    return made


def _copied_model(value: Any) -> Any:
    made = copy(value)
    inside = vars(made)
    for name, inner in inside.items():
        inside[name] = copied(inner)
    for beside in ("__pydantic_extra__", "__pydantic_private__"):
        if (inner := getattr(made, beside)) is not None:
            object.__setattr__(made, beside, copied(inner))
    return made


def _is_fixed(info: inspect.Type, seen: set[Any]) -> bool:
    match info:
        case inspect.StructType():
            if info.cls in seen:
                return True
            seen.add(info.cls)
            return info.cls.__struct_config__.frozen and all(_is_fixed(f.type, seen) for f in info.fields)
        case inspect.DataclassType():
            if info.cls in seen:
                return True
            seen.add(info.cls)
            frozen = is_dataclass(info.cls) and vars(info.cls)["__dataclass_params__"].frozen
            return frozen and all(_is_fixed(f.type, seen) for f in info.fields)
        case inspect.CustomType() if is_model(info.cls):
            return _is_fixed_model(info.cls, seen)
        case inspect.UnionType():
            return all(_is_fixed(inner, seen) for inner in info.types)
        case inspect.TupleType():
            return all(_is_fixed(inner, seen) for inner in info.item_types)
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return _is_fixed(info.item_type, seen)
    return isinstance(info, _FIXED)


def _is_fixed_model(cls: Any, seen: set[Any]) -> bool:
    if cls in seen:
        return True
    seen.add(cls)
    config = cls.model_config
    if not config.get("frozen") or config.get("extra") == "allow" or cls.__private_attributes__:
        return False
    try:
        return all(
            _is_fixed(inspect.type_info(field.annotation), seen) for field in cls.model_fields.values()
        )
    except TypeError:  # a type that Pydantic knows and msgspec does not
        return False
