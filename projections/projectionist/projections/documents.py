"""Fields that are documents: lists, dicts and structs, kept as jsonb."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from projectionist.core.errors import DefinitionError
from projectionist.projections import jsonb
from projectionist.projections.errors import BadValue, without_value


def document(place: str, name: str, kind: Any) -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """The ways of a document of type `kind` into jsonb text and back; both may raise BadValue.

    What goes in is checked on the way back: a text is kept only once its document has been read again.
    """
    try:
        complaint = _complaint(inspect.type_info(kind), set())
        read = msgspec.json.Decoder(kind).decode
    except (TypeError, NameError) as error:
        raise DefinitionError(f"{place} cannot be kept as a document: {error}") from error
    if complaint:
        raise DefinitionError(f"{place} {complaint[0]}", remedy=complaint[1])

    def canonical(value: Any) -> str:
        if value is None:
            raise BadValue(f"is None and not optional: declare it `{called(kind)} | None`", name)
        return jsonb.text(value)

    def thaw(text: str) -> Any:
        try:
            return read(text)
        except msgspec.MsgspecError as error:
            raise BadValue(f"does not fit {called(kind)}: {without_value(error)}", name) from error

    return canonical, thaw


def is_struct(kind: Any) -> bool:
    """Whether `kind` is a msgspec.Struct, also a parametrised one."""
    inner = get_origin(kind) or kind
    return isinstance(inner, type) and issubclass(inner, msgspec.Struct)


def called(kind: Any) -> str:
    """A type as its user wrote it."""
    return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)


def _complaint(info: inspect.Type, seen: set[Any]) -> tuple[str, str] | None:
    """What in a document's type would not come back from jsonb as it went in, and what to use instead."""
    match info:
        case inspect.SetType() | inspect.FrozenSetType():
            return "holds a set, which has no order", "Use a sorted list"
        case inspect.TupleType() | inspect.VarTupleType():
            return "holds a tuple, which comes back as a list", "Use list[…] or a msgspec.Struct"
        case inspect.CustomType() | inspect.RawType() | inspect.ExtType():
            return (
                "holds a type that has no form in JSON",
                "Use str, int, float, bool, list, dict or a Struct",
            )
        case inspect.DictType() if not isinstance(info.key_type, inspect.StrType | inspect.AnyType):
            return "holds a dict with keys that are not str", "Use dict[str, …]: keys of a document are texts"
    return next(filter(None, (_complaint(inner, seen) for inner in _inside(info, seen))), None)


def _inside(info: inspect.Type, seen: set[Any]) -> Iterable[inspect.Type]:
    match info:
        case inspect.DictType():
            return (info.value_type,)
        case inspect.ListType():
            return (info.item_type,)
        case inspect.UnionType():
            return info.types
        case inspect.StructType() if info.cls not in seen:
            seen.add(info.cls)
            return tuple(field.type for field in info.fields)
    return ()
