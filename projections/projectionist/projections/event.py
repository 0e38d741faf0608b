"""Event: an immutable typed fact, and the way from the bytes of its body to its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, dataclass_transform, get_type_hints

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.instances import DataclassLike, ModelLike
from projectionist.core.printable_text import TEXT_BYTES, is_printable
from projectionist.core.pydantic_models import is_model
from projectionist.projections.body_decoder import decoder_of
from projectionist.projections.errors import EventError, without_value
from projectionist.projections.upcasting import stepped


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
            register(cls, type, schema, formerly)
        return cls


class Event(msgspec.Struct, metaclass=EventMeta):
    """One kind of fact: `class OrderPlaced(Event, type="order.placed")`. Its fields are those of the body.

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


AnyEvent: TypeAlias = Event | DataclassLike | ModelLike
"""An instance of an event's class: an Event, or a dataclass or model that `@event` has declared as one."""


def register(cls: Any, type: str, schema: int, formerly: tuple[str, ...]) -> None:  # noqa: A002 the word users write
    """Make a class the one of an event's type. Raises DefinitionError."""
    _check(cls.__name__, type, schema)
    if isinstance(formerly, str):
        raise DefinitionError(f"{cls.__name__}: formerly is a text", remedy=f'Write formerly=("{formerly}",)')
    cls.__event_decode__ = decoder_of(cls)
    cls.__event_type__ = type
    cls.__event_schema__ = schema
    cls.__event_formerly__ = tuple(formerly)


def type_of(event: object) -> str | None:
    """Return the type this class is published under; None for a base class, and for what is no event."""
    return getattr(event, "__event_type__", None)


def schema_of(event: Any) -> int:
    """Return the newest schema this class knows."""
    newest: int = event.__event_schema__
    return newest


def formerly_of(event: Any) -> tuple[str, ...]:
    """Return other types the same fact was published under."""
    types: tuple[str, ...] = event.__event_formerly__
    return types


def fields_of(event: Any) -> dict[str, Any]:
    """Return the fields of an event's class, by name, each with its type."""
    if is_model(event):
        return {name: field.annotation for name, field in event.model_fields.items()}
    if is_dataclass(event):
        hints = get_type_hints(event)
        return {field.name: hints[field.name] for field in fields(event)}
    return {field.name: field.type for field in msgspec.structs.fields(event)}


def decode(event: Any, type: str, schema: int, data: bytes) -> AnyEvent:  # noqa: A002
    """Decode the event in `data`, brought up from an older schema where it has one. Raises EventError."""
    newest = event.__event_schema__
    read: Callable[[bytes], AnyEvent] = event.__event_decode__
    try:
        if schema == newest:
            return read(data)
        if schema > newest:
            raise EventError(
                f"{type!r} has schema {schema}, this code knows {newest}",
                remedy="Deploy the code that knows it",
            )
        document = _document.decode(data)
        for step in range(schema, newest):
            document = stepped(event, type, step, document)
        return read(_encoded(document, type))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(f"the body is not a {type!r} of schema {newest}: {without_value(error)}") from error


_document = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
"""For the steps from an older schema: a number with a fraction keeps every digit."""
_written = msgspec.json.Encoder(decimal_format="number")
"""The steps' document goes through the class's own decoder, so that an old event is read as a new one is."""


def _encoded(document: dict[str, Any], type: str) -> bytes:  # noqa: A002
    try:
        return _written.encode(document)
    except (TypeError, ValueError, OverflowError) as error:  # its text may quote a value
        raise EventError(
            f"the steps turn an old {type!r} into a document that is no JSON: {error.__class__.__name__}"
        ) from error


def _check(name: str, type: Any, schema: Any) -> None:  # noqa: A002
    if not isinstance(type, str) or not type or not is_printable(type, TEXT_BYTES):
        raise DefinitionError(
            f"{name} has the type {type!r}",
            remedy="A type is printable text of at most 512 bytes: order.placed",
        )
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise DefinitionError(f"{name} has schema={schema!r}", remedy="Schemas count from 1")
