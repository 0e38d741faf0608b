"""Intent: one side effect that a handler asks for, a row in the transaction of the event behind it."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, dataclass_transform

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked
from projectionist.outbox.intents.keys import frozen_body, ordering_key


class Order(Enum):
    """The order of intents of one class, where no field names it."""

    AGGREGATE = "aggregate"


AGGREGATE: Final = Order.AGGREGATE
"""The default of `order_by`: one in flight per consumer, provider and aggregate, in the events' order."""

MOST_CONTENT = 8 * 1024 * 1024
"""Bytes of one intent: several staged ones are unpacked at once."""
MOST_PLACE = 1024
"""Bytes of a destination or an ordering key: it stands in keys of indexes, which hold little more."""

OrderBy: TypeAlias = str | Literal[Order.AGGREGATE] | None
OnDead: TypeAlias = Literal["pass", "block"]
WhenBehind: TypeAlias = Literal["wait", "send"]
FARTHEST = timedelta(days=3653)
"""Ten years: an intent that is to be sent later than that is taken for a mistake."""
_METHODS = {
    "slot": "the method by which a handler names one",
    "at": "the method by which a handler says when it is to be sent",
    "after": "the method by which a handler says how long after its event it is to be sent",
}


class IntentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The declarations of an Intent class beside its fields."""

    name: str
    formerly: tuple[str, ...]
    provider: str
    slot: str
    destination: str | None
    order_by: OrderBy
    on_dead: OnDead
    when_behind: WhenBehind
    expires: timedelta | None


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
        when_behind: WhenBehind = "wait",
        expires: timedelta | None = None,
        name: str | None = None,
        formerly: tuple[str, ...] = (),
        **struct: Any,
    ) -> Any:
        cls: Any = super().__new__(mcls, class_name, bases, namespace, frozen=True, **struct)
        if provider is not None:
            called = name or class_name
            options = IntentOptions(
                name=called,
                formerly=tuple(formerly),
                provider=provider,
                slot=slot or called,
                destination=destination,
                order_by=order_by,
                on_dead=on_dead,
                when_behind=when_behind,
                expires=expires,
            )
            _check(cls, options)
            cls.__intent__ = options
        elif bases and bases != (msgspec.Struct,):
            raise _no_provider(class_name)
        return cls


class Intent(msgspec.Struct, metaclass=IntentMeta):
    """One side effect that a handler asks for: `class Receipt(Intent, provider="email")`. Fields are content.

    `slot` names it within one event's reaction (default: the class's name); `destination` and `order_by`
    name a field, `order_by=None` gives up order; `on_dead` says whether a dead intent blocks those behind
    it. `name` and `formerly` keep the identity of a class that is renamed. Of one that is to be sent later,
    `when_behind="send"` says that it goes out though its consumer has not settled what was published before;
    `expires=timedelta(…)` that it is not sent any more so long after it was due.
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
            when_behind: WhenBehind = "wait",
            expires: timedelta | None = None,
            name: str | None = None,
            formerly: tuple[str, ...] = (),
            kw_only: bool = False,
            rename: str | None = None,
        ) -> None: ...

    def slot(self, name: str) -> Slotted:
        """Return this intent under a slot of its own: the second one of a class in one event's reaction needs it."""
        return Slotted(name, self)

    def at(self, moment: datetime) -> Scheduled:
        """Return this intent to be sent at this moment, which is made of what the event says, never of a clock."""
        return Scheduled(self, moment)

    def after(self, delay: timedelta) -> Scheduled:
        """Return this intent to be sent so long after its event's own time."""
        return Scheduled(self, delay)


class Slotted(msgspec.Struct, frozen=True):
    """An intent under the slot its handler named."""

    slot: str
    intent: Intent

    def __post_init__(self) -> None:
        checked(self.slot, what="slot")

    def at(self, moment: datetime) -> Scheduled:
        """Return it to be sent at this moment."""
        return Scheduled(self, moment)

    def after(self, delay: timedelta) -> Scheduled:
        """Return it to be sent so long after its event's own time."""
        return Scheduled(self, delay)


class Scheduled(msgspec.Struct, frozen=True):
    """An intent with the moment at which it is to be sent, or how long after its event's own time."""

    intent: Intent | Slotted
    due: datetime | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.due, datetime):
            if self.due.utcoffset() is None:
                raise ValueError(
                    f"at({self.due!r}): a moment without a time zone is another one in each place; "
                    "write datetime(…, tzinfo=UTC)"
                )
        elif not timedelta(0) <= self.due <= FARTHEST:
            raise ValueError(f"after({self.due!r}): write a time from zero to ten years")

    def slot(self, name: str) -> Scheduled:
        """Return it under a slot of its own."""
        intent = self.intent.intent if isinstance(self.intent, Slotted) else self.intent
        return Scheduled(Slotted(name, intent), self.due)


class EmittedIntent(msgspec.Struct, frozen=True, gc=False):
    """An intent that a handler has returned, under its slot, with its content as it was at that moment."""

    slot: str
    intent: Intent
    body: bytes
    due: datetime | None = None
    """When it is to be sent; None: at once."""
    scope: str | None = None
    """The key of the row it was asked for with, where a handler runs with several."""

    @property
    def counted(self) -> str:
        """Return the name under which it is counted where none is made."""
        return self.slot


def options_of(intent: Intent | type[Intent]) -> IntentOptions:
    """Return the declarations of an intent's class: provider, slot, destination, ordering."""
    options: IntentOptions = intent.__intent__  # type: ignore[union-attr] # the metaclass puts it on every subclass
    return options


def destination_of(intent: Intent) -> str:
    """Return the destination of an intent: its provider, unless its class names a field."""
    options = options_of(intent)
    return options.provider if options.destination is None else str(getattr(intent, options.destination))


def ordering_of(intent: Intent, writer: str, aggregate: str | None) -> str | None:
    """Return the key under which this writer's intents are sent one at a time; None for one without order."""
    options = options_of(intent)
    if options.order_by is None:
        return None
    scope = aggregate if options.order_by is AGGREGATE else getattr(intent, options.order_by)
    return None if scope is None else ordering_key(writer, options.provider, str(scope))


def content_of(intent: Intent) -> bytes:
    """Return the frozen content of an intent that can be written, addressed, ordered and unpacked.

    Raises ValueError where it cannot: in the handler's own step, since a relay could only stop at it.
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


def _no_provider(class_name: str) -> DefinitionError:
    return DefinitionError(
        f"{class_name} names no provider", remedy=f'Write class {class_name}(Intent, provider="email")'
    )


def _check(cls: type, options: IntentOptions) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    name = cls.__name__
    if not options.provider:
        raise DefinitionError(f"{name} has an empty provider", remedy='Write provider="email" or the like')
    checked(options.provider, what=f"provider of {name}")
    for method in _METHODS.keys() & fields.keys():
        raise DefinitionError(
            f"{name} has a field named {method}, which is {_METHODS[method]}",
            remedy=f'Give it another name; rename={{"other": "{method}"}} keeps the name in the content',
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
    if options.when_behind not in ("wait", "send"):
        raise DefinitionError(f"{name}: when_behind={options.when_behind!r}", remedy='Write "wait" or "send"')
    if options.expires is not None and not timedelta(0) < options.expires <= FARTHEST:
        raise DefinitionError(
            f"{name}: expires={options.expires!r}", remedy="Write a time up to ten years: timedelta(hours=6)"
        )
    for text in (options.name, options.slot, *options.formerly):
        checked(text, what=f"name of {name}")
