"""Bounds of Decimals: `Annotated[Decimal, Bounds(ge=0)]`, checked whenever a body is read. msgspec has none of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from decimal import Decimal
from types import UnionType
from typing import (
    Annotated,
    Any,
    NoReturn,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from projectionist.core.errors import DefinitionError

Check = Callable[[Any, str], None]
"""Takes a value and its place in the body. Raises msgspec.ValidationError, as a bound of an int does."""

_UNIONS = (Union, UnionType)
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a Decimal field of an event: `price: Annotated[Decimal, Bounds(ge=0, lt=1000)]`."""

    ge: Decimal | int | None = None
    gt: Decimal | int | None = None
    le: Decimal | int | None = None
    lt: Decimal | int | None = None

    def __post_init__(self) -> None:
        given = {word: bound for word in _SIGNS if (bound := getattr(self, word)) is not None}
        for word, bound in given.items():
            if (
                isinstance(bound, bool)
                or not isinstance(bound, Decimal | int)
                or not Decimal(bound).is_finite()
            ):
                raise DefinitionError(
                    f"Bounds({word}={bound!r})", remedy=f'Write a whole number, or {word}=Decimal("0.01")'
                )
        if not given:
            raise DefinitionError("Bounds() bounds nothing", remedy="Write Bounds(ge=0), or leave it out")

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> NoReturn:
        """Refuse the field of a Pydantic model, which would ignore these bounds."""
        raise DefinitionError(
            "Bounds does not bound a field of a Pydantic model",
            remedy="Write Annotated[Decimal, Field(ge=0)]",
        )

    def checks(self) -> list[tuple[Callable[[Any, Any], bool], Decimal, str]]:
        """Return each bound: the comparison that has to hold, with what, and its sign."""
        return [
            (getattr(operator, word), Decimal(bound), sign)
            for word, sign in _SIGNS.items()
            if (bound := getattr(self, word)) is not None
        ]


def check_of(cls: type) -> Check | None:
    """Make the check of all bounds in and below a class; None where there are none. Raises DefinitionError."""
    return _check_of(cls, cls.__name__, {}) if _holds_bounds(cls, set()) else None


def _holds_bounds(hint: Any, seen: set[Any]) -> bool:
    if isinstance(hint, Bounds):
        return True
    hint = _named(hint)
    if _has_fields(hint):
        if hint in seen:
            return False
        seen.add(hint)
        return any(_holds_bounds(inner, seen) for inner in (*_hints(hint).values(), *_arguments(hint)))
    origin = get_origin(hint)
    if origin is Annotated:
        return any(_holds_bounds(inner, seen) for inner in (hint.__origin__, *hint.__metadata__))
    return any(_holds_bounds(inner, seen) for inner in (origin, *get_args(hint)) if inner is not None)


def _check_of(hint: Any, place: str, known: dict[type, Check]) -> Check:
    hint = _named(hint)
    if _has_fields(hint):
        return known.get(hint) or _of_fields(hint, known)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of_annotated(hint.__origin__, hint.__metadata__, place, known)
    if origin in _UNIONS:
        return _of_union(args, place, known)
    if origin in (list, set, frozenset) or (origin is tuple and args[1:] == (...,)):
        return _of_items(_check_of(args[0], place, known))
    if origin is tuple:
        return _of_places([_check_of(one, place, known) for one in args])
    if origin is dict and not _holds_bounds(args[0], set()):
        return _of_values(_check_of(args[1], place, known))
    if _holds_bounds(hint, set()):
        raise _unchecked(place, hint)
    return _nothing


def _unchecked(place: str, hint: Any) -> DefinitionError:
    return DefinitionError(
        f"{place} has Bounds where they cannot be checked: in {hint}",
        remedy="Put them on a Decimal itself, in a list, a tuple, a dict's values, a struct or a dataclass",
    )


def _of_annotated(inner: Any, metadata: Iterable[Any], place: str, known: dict[type, Check]) -> Check:
    check = _check_of(inner, place, known)
    bounds = [bound for one in metadata if isinstance(one, Bounds) for bound in one.checks()]
    if not bounds:
        return check
    kinds = get_args(inner) if get_origin(inner) in _UNIONS else (inner,)
    if Decimal not in map(_named, kinds):
        raise DefinitionError(
            f"{place} has Bounds and is no Decimal",
            remedy="Write msgspec.Meta(ge=…) for an int or a float, Bounds for a Decimal",
        )

    def bounded(value: Any, at: str) -> None:
        if isinstance(value, Decimal):  # else it is of another type of the union
            for holds, bound, sign in bounds:
                if not (value.is_finite() and holds(value, bound)):
                    raise msgspec.ValidationError(f"Expected `Decimal` {sign} {bound} - at `{at}`")
        check(value, at)

    return bounded


def _of_fields(cls: Any, known: dict[type, Check]) -> Check:
    checks: list[tuple[str, Check]] = []
    for given in _arguments(cls):
        if _holds_bounds(given, set()):
            raise _unchecked(cls.__name__, f"what its generic base is given, {given}")

    def fields(value: Any, at: str) -> None:
        for name, check in checks:
            check(getattr(value, name), f"{at}.{name}")

    def keys(value: Any, at: str) -> None:
        for name, check in checks:
            if name in value:
                check(value[name], f"{at}.{name}")

    made = known[cls] = (
        keys if is_typeddict(cls) else fields
    )  # before its fields, which may hold the class itself
    for name, hint in _hints(cls).items():
        if _holds_bounds(hint, set()):
            checks.append((name, _check_of(hint, f"{cls.__name__}.{name}", known)))
    return made


def _of_union(members: Iterable[Any], place: str, known: dict[type, Check]) -> Check:
    """Make the check of whichever member a value is of; they differ by their class, or msgspec refuses the union."""
    checks = [(_class_of(one), _check_of(one, place, known)) for one in members]

    def check(value: Any, at: str) -> None:
        for kind, inner in checks:
            if isinstance(value, kind):
                inner(value, at)

    return check


def _of_items(check: Check) -> Check:
    def items(value: Any, at: str) -> None:
        for one in value:
            check(one, f"{at}[...]")

    return items


def _of_places(checks: Iterable[Check]) -> Check:
    def places(value: Any, at: str) -> None:
        for number, (one, check) in enumerate(zip(value, checks, strict=True)):
            check(one, f"{at}[{number}]")

    return places


def _of_values(check: Check) -> Check:
    def values(value: Mapping[Any, Any], at: str) -> None:
        for one in value.values():
            check(one, f"{at}[...]")

    return values


def _nothing(value: Any, at: str) -> None:
    """Check nothing: there is no bound below."""


def _named(hint: Any) -> Any:
    """Return the type that a NewType, a `type` statement or a key of a TypedDict names."""
    if get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    while (inner := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        hint = inner
    return hint


def _class_of(hint: Any) -> Any:
    hint = _named(hint)
    if get_origin(hint) is Annotated:
        return _class_of(hint.__origin__)
    kind = get_origin(hint) or hint
    return dict if is_typeddict(kind) else kind if isinstance(kind, type) else object


def _has_fields(hint: Any) -> bool:
    return isinstance(hint, type) and (
        issubclass(hint, msgspec.Struct)
        or is_dataclass(hint)
        or is_typeddict(hint)
        or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _arguments(cls: type) -> list[Any]:
    """Return what generic bases of a class are given: hints of their fields name the variables."""
    bases = [base for one in cls.__mro__ for base in vars(one).get("__orig_bases__", ())]
    return [given for base in bases for given in get_args(base)]
