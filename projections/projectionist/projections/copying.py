"""Finds events that a handler could change, and copies them, so that each handler has its own."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

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


def is_mutable(cls: type[msgspec.Struct]) -> bool:
    """Return True where an instance of this frozen struct can hold a list, a dict or another mutable value."""
    return not _is_fixed(inspect.type_info(cls), set())


def copied(value: Any) -> Any:
    """Copy `value` with fresh lists, dicts, sets and structs all the way down."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(
            value, **{f: copied(getattr(value, f)) for f in value.__struct_fields__}
        )
    if isinstance(value, list | tuple | set | frozenset) and type(value) in (list, tuple, set, frozenset):
        return type(value)(map(copied, value))
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if is_dataclass(value) or is_model(type(value)):
        return deepcopy(value)
    return value


def _is_fixed(info: inspect.Type, seen: set[Any]) -> bool:
    match info:
        case inspect.StructType():
            if info.cls in seen:
                return True
            seen.add(info.cls)
            return info.cls.__struct_config__.frozen and all(_is_fixed(f.type, seen) for f in info.fields)
        case inspect.UnionType():
            return all(_is_fixed(inner, seen) for inner in info.types)
        case inspect.TupleType():
            return all(_is_fixed(inner, seen) for inner in info.item_types)
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return _is_fixed(info.item_type, seen)
    return isinstance(info, _FIXED)
