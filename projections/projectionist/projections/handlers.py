"""The handlers of a consumer's class: what each is called with, and whose row it gets."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from projectionist.core.errors import DefinitionError
from projectionist.projections.annotations import no_answer
from projectionist.projections.copying import is_mutable
from projectionist.projections.envelope import Envelope
from projectionist.projections.event import AnyEvent, formerly_of, type_of
from projectionist.projections.handler_marks import MARKS, On, absent
from projectionist.projections.lookups import Lookup, LookupSource, lookups_of

RowKey = Callable[[str | None, AnyEvent, Callable[[], Envelope]], Any]


class HandlerLookup(NamedTuple):
    """What a handler looks up under one name: rows of this source, of the keys that an event names."""

    name: str
    source: LookupSource[Any]
    keys: Callable[[AnyEvent, Callable[[], Envelope]], tuple[Any, ...]]
    """In database form. Raises BadValue."""
    is_own: bool
    """Whether it is the row of the event's own aggregate; one of another type whose id is alike has none."""
    is_exact: bool
    """Whether it is a row of the event's own aggregate that is made of its events alone: it is the same whenever and
    beside whatever it is folded."""


class Handler:
    """One event's handler: the method that the fold calls, and its row's key."""

    __slots__ = (
        *("absent", "asks", "bare", "batch", "by_id", "call", "copies", "each", "envelope", "event", "key"),
        *("lookups", "name"),
        *(
            "key_reads_envelope",
            "ordered",
            "own",
            "row_key",
            "rows",
            "several",
            "when",
            "when_reads_envelope",
        ),
    )

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        mark: On,
        *,
        envelope: bool,
        lookups: Mapping[str, Lookup[Any]] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.event = mark.event
        self.call = call
        self.key = mark.key
        self.each = mark.each
        self.rows = mark.rows
        """The leading columns of the key that tell its rows, where it takes all rows below them."""
        self.several = bool(mark.each or mark.rows)
        """It runs once for each of several rows."""
        self.key_reads_envelope = mark.key_reads_envelope
        """`key`, or `each`, takes it."""
        self.own = mark.key is None and not mark.shared
        """Its rows are the aggregate's own, so that the position's lock covers them."""
        self.absent = mark.when is absent
        self.when = None if self.absent else mark.when
        self.when_reads_envelope = mark.when_reads_envelope
        self.batch = mark.batch
        """The method takes a run of events, as Events."""
        self.envelope = envelope
        """The method takes the Envelope as its last argument."""
        self.copies = is_mutable(mark.event)
        """The event must be copied for each call, because a handler could change its values."""
        self.lookups = lookups
        """Those that the method takes, by the names of its parameters."""
        self.asks: tuple[HandlerLookup, ...] = ()
        """The same, with the keys that its events name."""
        self.bare = not (self.absent or self.when or self.envelope or self.copies or lookups)
        """It is called with row and event as they are, without a condition: nearly always."""
        self.ordered = True
        """Events of an aggregate come in an order, so that one may take back what earlier ones asked for."""
        self.by_id = False
        """The aggregate's id alone names the row, so that it is the same for every event."""
        self.row_key: RowKey = _no_row
        """From aggregate id, event and envelope to the row's key in database form, or, of a handler of several, to Keys
        or a Prefix. Raises BadValue."""

    def run(
        self, row: Any, event: AnyEvent, envelope: Callable[[], Envelope], given: Mapping[str, Any]
    ) -> Any:
        """Call the method, with the envelope if it takes that, and what it has looked up."""
        if self.envelope:
            return self.call(row, event, envelope(), **given)
        return self.call(row, event, **given)

    def holds(self, row: Any, event: AnyEvent, envelope: Callable[[], Envelope]) -> bool:
        """Return whether the condition lets the event through."""
        if self.when is None:
            return True
        return self.when(row, event, envelope()) if self.when_reads_envelope else self.when(row, event)


def collected(cls: type, *, has_row: bool, is_async: bool = False) -> dict[str, Handler]:
    """Collect the handlers of `cls` by event type, former types included. Raises DefinitionError."""
    takes = 3 if is_async else 2
    handlers: dict[str, Handler] = {}
    declared = lookups_of(cls)
    if declared and is_async:
        raise DefinitionError(
            f"{cls.__name__}.{next(iter(declared))} is a lookup, and {cls.__name__} is a SqlProjection",
            remedy="Read the table in its SQL",
        )
    for name, method, mark in _marked(cls):
        _check_batch(cls, name, method, mark, is_async=is_async)
        envelope = not mark.batch and _takes_envelope(cls, name, method, takes)
        taken = _taken(cls, name, method, declared)
        handler = Handler(name, method, mark, envelope=envelope, lookups=taken)
        _check_colour(cls, name, method, is_async=is_async)
        if (wrong := no_answer(method)) is not None:
            raise DefinitionError(
                f"{cls.__name__}.{name} returns {getattr(wrong, '__name__', wrong)}, which is no answer of a handler",
                remedy="Return or yield Intents, Delete() or nothing; the row's new values are assigned to self",
            )
        if has_row:
            _check_assigned(cls, name, method)
        else:
            _check_rowless(cls, name, mark, is_async=is_async)
        for kind in (type_of(mark.event) or "", *formerly_of(mark.event)):
            if kind in handlers:
                raise DefinitionError(
                    f"{cls.__name__} handles {kind!r} twice, in {handlers[kind].name} and {name}",
                    remedy="Handle it in one method: two have no order",
                )
            handlers[kind] = handler
    if not handlers:
        raise DefinitionError(f"{cls.__name__} handles no event", remedy="Put @on(SomeEvent) on a method")
    if unused := set(declared).difference(*(one.lookups for one in handlers.values())):
        name = min(unused)
        raise DefinitionError(
            f"{cls.__name__}.{name} is a lookup that no handler takes",
            remedy=f"Name it behind a *: def handler(self, event, *, {name})",
        )
    return handlers


def has_handlers(cls: type) -> bool:
    """Return whether any method of the class handles an event."""
    return any(True for _ in _marked(cls))


def _taken(
    cls: type, name: str, method: Callable[..., Any], declared: Mapping[str, Lookup[Any]]
) -> dict[str, Lookup[Any]]:
    """Return the lookups that a method takes behind `*`; refuse what is none."""
    parameters = inspect.signature(method).parameters.values()
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    for one in named:
        if one not in declared:
            raise DefinitionError(
                f"{cls.__name__}.{name} takes {one} behind *, which is no lookup of {cls.__name__}",
                remedy=f'Declare it in the class: {one} = lookup(reference(…), by="…"), or lookup(View, by="…")',
            )
    return {one: declared[one] for one in named}


def _marked(cls: type) -> Iterator[tuple[str, Callable[..., Any], On]]:
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        method = inspect.getattr_static(cls, name)
        for mark in getattr(method, MARKS, ()):
            if not inspect.isfunction(method):
                raise DefinitionError(
                    f"{cls.__name__}.{name} is no plain method",
                    remedy="Put @on on a function that takes self",
                )
            yield name, method, mark


def _check_batch(cls: type, name: str, method: Callable[..., Any], mark: On, *, is_async: bool) -> None:
    """Refuse `@on_batch` where there is no SQL, beside `@on`, and on what does not take (self, tx, events)."""
    if not mark.batch:
        return
    where = f"{cls.__name__}.{name}"
    if not is_async:
        raise DefinitionError(
            f"{where} has @on_batch, and {cls.__name__} is no SqlProjection",
            remedy="Write @on: the rows of a whole batch are read and written at once",
        )
    if not all(one.batch for one in getattr(method, MARKS)):
        raise DefinitionError(f"{where} has @on and @on_batch", remedy="Write two methods, or one of the two")
    parameters = inspect.signature(method).parameters.values()
    if [p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters] != [True] * 3:
        raise DefinitionError(
            f"{where} takes ({', '.join(map(str, parameters))})",
            remedy="A handler of runs takes (self, tx, events); envelopes are events.envelopes",
        )


def _takes_envelope(cls: type, name: str, method: Callable[..., Any], takes: int) -> bool:
    parameters = inspect.signature(method).parameters.values()
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    loose = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    if loose or not takes <= len(given) <= takes + 1:
        usual = "self, event" if takes == 2 else "self, tx, event"
        raise DefinitionError(
            f"{cls.__name__}.{name} takes ({', '.join(map(str, parameters))})",
            remedy=f"A handler here takes ({usual}) or ({usual}, envelope)",
        )
    return len(given) == takes + 1


def _check_colour(cls: type, name: str, method: Callable[..., Any], *, is_async: bool) -> None:
    where = f"{cls.__name__}.{name}"
    if is_async and not inspect.iscoroutinefunction(method):
        raise DefinitionError(
            f"{where} is not a plain `async def`", remedy="Write `async def`, and return a list of intents"
        )
    if not is_async and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
        raise DefinitionError(
            f"{where} is async, and handlers of this kind are pure",
            remedy="Write `def` and return an Intent for what goes outside; SQL of your own: SqlProjection",
        )


def _check_assigned(cls: type, name: str, method: Callable[..., Any]) -> None:
    """Refuse an assignment to what is no field: type checkers take it for a declaration, and the row has no place."""
    if cls.__dictoffset__ or not (code := method.__code__).co_varnames:
        return
    before = None
    for step in dis.get_instructions(code):
        if step.opname == "STORE_ATTR" and before == code.co_varnames[0] and not hasattr(cls, step.argval):
            raise DefinitionError(
                f"{cls.__name__}.{name} sets self.{step.argval}, which is no field of {cls.__name__}",
                remedy="Declare it as a field with a default, a column of its table; or use a local variable",
            )
        loaded = step.argval if "LOAD_FAST" in step.opname else None
        before = loaded[-1] if isinstance(loaded, tuple) else loaded


def _check_rowless(cls: type, name: str, mark: On, *, is_async: bool) -> None:
    given = {
        "key": mark.key is not None,
        "each": mark.each is not None,
        "rows": bool(mark.rows),
        "when": mark.when is absent or (is_async and mark.when is not None),
    }
    for keyword in (word for word, is_given in given.items() if is_given):
        raise DefinitionError(
            f"{cls.__name__}.{name} has {keyword}=, and there is no row for it",
            remedy="Decide it in the handler; rows of its own has a Projection",
        )


def _no_row(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> None:
    """Refuse what finds a row: reactors and SqlProjections have none to find."""
