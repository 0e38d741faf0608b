"""Fields that are documents: lists, dicts and structs, kept as jsonb."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from projectionist.core.errors import DefinitionError
from projectionist.projections.errors import BadValue, without_value
from projectionist.projections.tables import jsonb_text


def document(place: str, name: str, kind: Any) -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """Make the functions from a document of type `kind` to jsonb text and back; both may raise BadValue.

    A document is checked on the way back: its text is kept only once it has been read again.
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
        return jsonb_text.text(value)

    def thaw(text: str) -> Any:
        try:
            return read(text)
        except msgspec.MsgspecError as error:
            raise BadValue(f"does not fit {called(kind)}: {without_value(error)}", name) from error

    return canonical, thaw


def is_struct(kind: Any) -> bool:
    """Return True where `kind` is a msgspec.Struct, also a parametrised one."""
    inner = get_origin(kind) or kind
    return isinstance(inner, type) and issubclass(inner, msgspec.Struct)


def called(kind: Any) -> str:
    """Write a type as its user wrote it."""
    return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)


def outlined(kind: Any) -> Any:
    """Describe documents of a type as plain data, to be compared."""
    return _outlined(inspect.type_info(kind), ())


def _outlined(info: inspect.Type, outer: tuple[Any, ...]) -> Any:
    match info:
        case (
            inspect.StructType()
            | inspect.DataclassType()
            | inspect.TypedDictType()
            | inspect.NamedTupleType()
        ):
            if info.cls in outer:
                return f"the one {len(outer) - outer.index(info.cls)} above"
            fields = {f.encode_name: [f.required, _outlined(f.type, (*outer, info.cls))] for f in info.fields}
            if isinstance(info, inspect.StructType) and info.tag is not None:
                return {"fields": fields, "tag": [info.tag_field, info.tag]}
            return {"fields": fields}
        case inspect.DictType():
            return {"values": _outlined(info.value_type, outer)}
        case inspect.ListType():
            return {"items": _outlined(info.item_type, outer)}
        case inspect.UnionType():
            return {"any": sorted((_outlined(one, outer) for one in info.types), key=repr)}
        case inspect.EnumType():
            return {"of": sorted((member.value for member in info.cls), key=repr)}
        case inspect.LiteralType():
            return {"of": sorted(info.values, key=repr)}
    return type(info).__name__


def narrowed(old: Any, new: Any, place: str) -> str | None:
    """Return the reason why outline `new` cannot read and rewrite documents of outline `old`; None if it can."""
    if old == new:
        return None
    if isinstance(new, dict) and "any" in new:
        known = old["any"] if isinstance(old, dict) and "any" in old else [old]
        return None if all(one in new["any"] for one in known) else f"{place} holds other types"
    if not (isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys()):
        return f"{place} holds another type"
    if "of" in old:
        return None if all(one in new["of"] for one in old["of"]) else f"{place} has lost a value"
    for inner in ("items", "values"):
        if inner in old:
            return narrowed(old[inner], new[inner], f"{place}[]")
    if old.get("tag") != new.get("tag"):
        return f"{place} has another tag"
    return _narrowed_fields(old["fields"], new["fields"], place)


def _narrowed_fields(old: dict[str, Any], new: dict[str, Any], place: str) -> str | None:
    for name, (required, kind) in new.items():
        if required and not old.get(name, [False])[0]:
            return f"{place}.{name} has no default"
        if name in old and (complaint := narrowed(old[name][1], kind, f"{place}.{name}")):
            return complaint
    return next((f"{place}.{name} is gone" for name in old if name not in new), None)


def _complaint(info: inspect.Type, seen: set[Any]) -> tuple[str, str] | None:
    """Return the part of a type that would come back from jsonb changed, and a type to use instead."""
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
