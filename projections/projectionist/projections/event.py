"""Event: an immutable typed fact, and the way from the bytes of its body to its class."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.printable_text import TEXT_BYTES, is_printable
from projectionist.core.pydantic_models import is_model, read_model
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
            _check(name, type, schema)
            cls.__event_type__ = type
            cls.__event_schema__ = schema
            cls.__event_formerly__ = tuple(formerly)
            cls.__event_decode__ = _decoder(cls)
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


def type_of(event: type[Event]) -> str | None:
    """Return the type this class is published under; None for a base class."""
    return getattr(event, "__event_type__", None)


def schema_of(event: type[Event]) -> int:
    """Return the newest schema this class knows."""
    return event.__event_schema__


def formerly_of(event: type[Event]) -> tuple[str, ...]:
    """Return other types the same fact was published under."""
    return event.__event_formerly__


def decode(event: type[Event], type: str, schema: int, data: bytes) -> Event:  # noqa: A002
    """Decode the Event in `data`, brought up from an older schema where it has one. Raises EventError."""
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


def _decoder(cls: type[Event]) -> Callable[[bytes], Event]:
    try:
        decode = msgspec.json.Decoder(cls, dec_hook=read_model).decode
        _check_fields(cls)
        return decode
    except (TypeError, NameError) as error:
        raise DefinitionError(
            f"{cls.__name__} cannot be read from JSON: {error}",
            remedy=OF_DECIMALS
            if "on a numeric type" in str(error)
            else "Use types msgspec knows, defined in the module before the class",
        ) from error


OF_DECIMALS = (
    "Such bounds are for int and float; check a Decimal in __post_init__, which may raise ValueError"
)


def _check_fields(cls: type[Event]) -> None:
    """Refuse types that cannot be read from JSON: msgspec takes them, and then fails each event."""
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType), "an Event is one"
    for field in info.fields:
        if (custom := _custom(field.type, set())) is not None:
            raise DefinitionError(
                f"{cls.__name__}.{field.name} holds a {custom.__name__}, which cannot be read from JSON",
                remedy="Declare it as a msgspec.Struct, a dataclass, a TypedDict or a Pydantic model",
            )


def _custom(found: object, seen: set[int]) -> Any:
    """Return the first class below this type that msgspec has no way to read; None if there is none."""
    if isinstance(found, msgspec.inspect.CustomType):
        return None if is_model(found.cls) else found.cls
    if id(found) in seen:
        return None
    seen.add(id(found))
    inner: tuple[object, ...] = ()
    if isinstance(found, list | tuple):
        inner = tuple(found)
    elif isinstance(found, msgspec.inspect.Type | msgspec.inspect.Field):
        inner = tuple(getattr(found, name) for name in found.__struct_fields__ if name != "cls")
    return next((custom for one in inner if (custom := _custom(one, seen)) is not None), None)


def _check(name: str, type: str, schema: int) -> None:  # noqa: A002
    if not type or not is_printable(type, TEXT_BYTES):
        raise DefinitionError(
            f"{name} has the type {type!r}",
            remedy="A type is printable text of at most 512 bytes: order.placed",
        )
    if schema < 1:
        raise DefinitionError(f"{name} has schema={schema!r}", remedy="Schemas count from 1")
