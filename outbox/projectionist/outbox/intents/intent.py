"""Intent: the wish for one side effect, a row in the transaction of the event that asked for it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, dataclass_transform

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked
from projectionist.outbox.intents.keys import frozen_body


class Order(Enum):
    """How intents of one class are ordered, where no field says so."""

    AGGREGATE = "aggregate"


AGGREGATE: Final = Order.AGGREGATE
"""The default of `order_by`: one in flight per consumer, provider and aggregate, in the events' order."""

MOST_CONTENT = 8 * 1024 * 1024
"""Bytes of one intent: several that wait to be opened are read at once."""
MOST_PLACE = 1024
"""Bytes of what an intent is addressed or ordered by: it stands in keys of indexes, which hold little more."""

OrderBy: TypeAlias = str | Literal[Order.AGGREGATE] | None
OnDead: TypeAlias = Literal["pass", "block"]


class IntentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an Intent class declares beside its fields."""

    name: str
    formerly: tuple[str, ...]
    provider: str
    slot: str
    destination: str | None
    order_by: OrderBy
    on_dead: OnDead


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class IntentMeta(msgspec.StructMeta):
    """Takes our class keywords and leaves the rest to msgspec."""

    def __new__(
        mcls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        provider: str | None = None,
        slot: str | None = None,
        destination: str | None = None,
        order_by: OrderBy = AGGREGATE,
        on_dead: OnDead = "pass",
        name: str | None = None,
        formerly: tuple[str, ...] = (),
        **struct: Any,
    ) -> Any:
        called = name or class_name
        cls: Any = super().__new__(mcls, class_name, bases, namespace, frozen=True, **struct)
        if provider is not None:
            options = IntentOptions(
                name=called,
                formerly=tuple(formerly),
                provider=provider,
                slot=slot or called,
                destination=destination,
                order_by=order_by,
                on_dead=on_dead,
            )
            _check(cls, options)
            cls.__intent__ = options
        elif bases and bases != (msgspec.Struct,):
            raise DefinitionError(
                f"{class_name} does not say who is to carry it out",
                remedy=f'Write class {class_name}(Intent, provider="email")',
            )
        return cls


class Intent(msgspec.Struct, metaclass=IntentMeta):
    """One side effect that a handler asks for: `class Receipt(Intent, provider="email")`. Fields are content.

    `slot` names it within one event's reaction (default: the class's name); `destination` and `order_by`
    name a field, `order_by=None` gives up order; `on_dead` says whether a dead intent blocks those behind
    it. `name` and `formerly` keep the identity of a class that is renamed.
    """

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            provider: str,
            slot: str | None = None,
            destination: str | None = None,
            order_by: OrderBy = AGGREGATE,
            on_dead: OnDead = "pass",
            name: str | None = None,
            formerly: tuple[str, ...] = (),
            kw_only: bool = False,
            rename: str | None = None,
        ) -> None: ...

    def slot(self, name: str) -> Slotted:
        """This intent under a slot of its own: the second one of a class in one event's reaction needs it."""
        return Slotted(name, self)


class Slotted(msgspec.Struct, frozen=True):
    """An intent under the slot its handler named."""

    slot: str
    intent: Intent

    def __post_init__(self) -> None:
        checked(self.slot, what="slot")


class EmittedIntent(msgspec.Struct, frozen=True, gc=False):
    """An intent that a handler has returned, under its slot, with its content as it was at that moment."""

    slot: str
    intent: Intent
    body: bytes


def options_of(intent: Intent | type[Intent]) -> IntentOptions:
    """What the class of `intent` declares: provider, slot, destination, ordering."""
    options: IntentOptions = intent.__intent__  # type: ignore[union-attr] # the metaclass puts it on every subclass
    return options


def content_of(intent: Intent) -> bytes:
    """The frozen content of an intent that can be written, addressed, ordered and opened.

    Raises ValueError where it cannot: at once, while it is known whose fault that is. Whoever opens it later, or looks
    after its destination, could only stop.
    """
    options = options_of(intent)
    if options.destination is not None and not _place(intent, options.destination):
        raise ValueError(
            f"{type(intent).__name__}.{options.destination} is the intent's destination, and is empty"
        )
    if isinstance(options.order_by, str):
        _place(intent, options.order_by)
    body = frozen_body(intent)
    if len(body) > MOST_CONTENT:
        raise ValueError(f"{type(intent).__name__} has {len(body)} bytes, more than {MOST_CONTENT}")
    return body


def _place(intent: Intent, field: str) -> str | None:
    value = getattr(intent, field)
    if value is None:
        return None
    text, where = str(value), f"{type(intent).__name__}.{field}"
    if "\0" in text:
        raise ValueError(f"{where} holds a NUL character")
    if (size := len(text.encode())) > MOST_PLACE:
        raise ValueError(f"{where} has {size} bytes, more than {MOST_PLACE}: it is a place, not content")
    return text


def _check(cls: type, options: IntentOptions) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    name = cls.__name__
    if not options.provider:
        raise DefinitionError(f"{name} has an empty provider", remedy='Write provider="email" or the like')
    checked(options.provider, what=f"provider of {name}")
    if "slot" in fields:
        raise DefinitionError(
            f"{name} has a field named slot, which is how a handler names one",
            remedy='Call it something else; rename={"other": "slot"} keeps the name in the content',
        )
    for keyword in ("destination", "order_by"):
        field = getattr(options, keyword)
        if isinstance(field, str) and field not in fields:
            known = ", ".join(fields) or "none"
            raise DefinitionError(
                f"{name}: {keyword}={field!r} names no field", remedy=f"Its fields are: {known}"
            )
    if options.on_dead not in ("pass", "block"):
        raise DefinitionError(f"{name}: on_dead={options.on_dead!r}", remedy='Write "pass" or "block"')
    for text in (options.name, options.slot, *options.formerly):
        checked(text, what=f"name of {name}")
