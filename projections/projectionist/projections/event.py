"""Event: an immutable typed fact, and the way from stored bytes and an old schema to its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from projectionist.core.errors import DefinitionError, ProjectionistError
from projectionist.projections.bad_value import without_value

Document = dict[str, Any]
Upcaster = TypeVar("Upcaster", bound=Callable[[Document], Document])


class EventError(ProjectionistError, ValueError):
    """The body of an event does not fit its class. It names the place in the body, never its content."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class EventMeta(msgspec.StructMeta):
    """Takes our class keywords and leaves the rest to msgspec."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        type: str | None = None,  # noqa: A002 the word users write
        schema: int = 1,
        formerly: tuple[str, ...] = (),
        **struct: Any,
    ) -> Any:
        cls: Any = super().__new__(mcls, name, bases, namespace, frozen=True, **struct)
        if type is not None:
            _check(name, type, schema)
            cls.__event_type__ = type
            cls.__event_schema__ = schema
            cls.__event_formerly__ = tuple(formerly)
            cls.__event_decode__ = _decoder(cls)
        return cls


class Event(msgspec.Struct, metaclass=EventMeta):
    """One kind of fact: `class OrderPlaced(Event, type="order.placed")`. Fields are what the body holds.

    A field the body has and the class lacks is ignored; a wrong type is an error. `schema` is the newest
    shape the class knows, older ones come in through `@upcast`; `formerly` lists types the fact was published
    under. A class without `type=` is a base for others.
    """

    if TYPE_CHECKING:
        __event_type__: ClassVar[str]
        __event_schema__: ClassVar[int]
        __event_formerly__: ClassVar[tuple[str, ...]]
        __event_decode__: ClassVar[Callable[[bytes], Event]]

        def __init_subclass__(
            cls,
            *,
            type: str | None = None,  # noqa: A002
            schema: int = 1,
            formerly: tuple[str, ...] = (),
            kw_only: bool = False,
            rename: str | None = None,
        ) -> None: ...


def type_of(event: type[Event]) -> str | None:
    """The type this class is published under; None for a base class."""
    return getattr(event, "__event_type__", None)


def schema_of(event: type[Event]) -> int:
    """The newest schema this class knows."""
    return event.__event_schema__


def formerly_of(event: type[Event]) -> tuple[str, ...]:
    """Other types the same fact was published under."""
    return event.__event_formerly__


_upcasters: dict[tuple[str, int], Callable[[Document], Document]] = {}


def upcast(type: str, schema: int) -> Callable[[Upcaster], Upcaster]:  # noqa: A002 the word users write
    """Register the step from `schema` to `schema + 1` of an event type: a pure function, old to new document.

    Steps are chained up to the schema that the Event class declares.
    """

    def register(step: Upcaster) -> Upcaster:
        known = _upcasters.get((type, schema))
        if known is not None and _place(known) != _place(step):
            raise DefinitionError(
                f"two upcasters for {type!r} schema {schema}: {_place(known)} and {_place(step)}",
                remedy="Keep one: a step leads from one schema to the next, whoever reads it",
            )
        _upcasters[type, schema] = step
        return step

    return register


def upcasters_of(event: type[Event]) -> tuple[Callable[[Document], Document], ...]:
    """The steps known now for this class, oldest first."""
    types = {type_of(event), *formerly_of(event)}
    steps = sorted((schema, kind) for kind, schema in _upcasters if kind in types)
    return tuple(_upcasters[kind, schema] for schema, kind in steps if schema < schema_of(event))


def decode(event: type[Event], type: str, schema: int, data: bytes) -> Event:  # noqa: A002
    """The Event that `data` holds, brought up from an older schema where it has one. Raises EventError."""
    newest = event.__event_schema__
    read = event.__event_decode__
    try:
        if schema == newest:
            return read(data)
        if schema > newest:
            raise EventError(
                f"{type!r} has schema {schema}, this code knows {newest}",
                remedy="Deploy the code that knows it",
            )
        document = msgspec.json.decode(data, type=dict[str, Any])
        for step in range(schema, newest):
            document = _stepped(event, type, step, document)
        return msgspec.convert(document, event)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(f"the body is not a {type!r} of schema {newest}: {without_value(error)}") from error


def _stepped(event: type[Event], type: str, schema: int, document: Document) -> Document:  # noqa: A002
    step = _upcasters.get((type, schema)) or _upcasters.get((event.__event_type__, schema))
    if step is None:
        raise EventError(
            f"no way from schema {schema} of {type!r} to {schema + 1}",
            remedy=f'Write a function under @upcast("{type}", schema={schema})',
        )
    try:
        return step(document)
    except Exception as error:  # the step is a user's code and may raise anything
        raise EventError(
            f"{_place(step)} raised {error.__class__.__name__} on schema {schema} of {type!r}"
        ) from error


def _decoder(cls: type[Event]) -> Callable[[bytes], Event]:
    try:
        return msgspec.json.Decoder(cls).decode
    except (TypeError, NameError) as error:
        raise DefinitionError(
            f"{cls.__name__} cannot be read from JSON: {error}",
            remedy="Use types msgspec knows, defined in the module before the class",
        ) from error


def _check(name: str, type: str, schema: int) -> None:  # noqa: A002
    if not type or len(type.encode()) > 512 or not type.isprintable():
        raise DefinitionError(
            f"{name} has the type {type!r}",
            remedy="A type is printable text of at most 512 bytes: order.placed",
        )
    if schema < 1:
        raise DefinitionError(f"{name} has schema={schema!r}", remedy="Schemas count from 1")


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
