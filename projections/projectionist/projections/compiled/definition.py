"""A consumer's class in compiled form, as runners need it, checked when the class is defined."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from projectionist.core.errors import DefinitionError
from projectionist.outbox.intents.intent import Intent, options_of
from projectionist.projections import event as events
from projectionist.projections.annotations import mentioned_intents
from projectionist.projections.compiled import unique_names
from projectionist.projections.compiled.class_options import (
    Baseline,
    ClassOptions,
    Decrypt,
    Effects,
    Sequencing,
    ViewOptions,
    check_policy,
    check_revision,
    checked_name,
    subjects_of,
)
from projectionist.projections.compiled.fingerprint import code_of, shape_of
from projectionist.projections.compiled.lookup_keys import ask_of, looked_up_classes, looked_up_of
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.projections.errors import EventError
from projectionist.projections.event import AnyEvent
from projectionist.projections.handler_marks import ATTRIBUTE
from projectionist.projections.handlers import Handler
from projectionist.projections.lookups import LookupSource, Reference, ViewSource
from projectionist.projections.tables.table import Index, Table


class Kind(StrEnum):
    """The kinds of consumers."""

    PROJECTION = "projection"
    REACTOR = "reactor"
    SQL = "sql"
    SET = "set"
    """Of a consumer that feeds several views, each of a kind of its own."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ConsumerDefinition:
    """One consumer as its class declares it: what it reads, in which order, and the views that it feeds."""

    cls: type
    kind: Kind
    name: str
    formerly: tuple[str, ...]
    stream: str
    subjects: Subjects
    sequence: Sequencing
    baseline: Baseline
    effects: Effects
    decrypt: Decrypt | None = None
    """Makes the bytes of an encrypted body plain, by the event's type; raises Erased where the key is gone."""

    @property
    def views(self) -> tuple[Definition, ...]:
        """Return its views, in the order in which their handlers run."""
        raise NotImplementedError

    @cached_property
    def events(self) -> Mapping[str, type[AnyEvent]]:
        """Return the class that each event type, present or former, is read as: the same in all views."""
        return {kind: handler.event for view in self.views for kind, handler in view.handlers.items()}

    @property
    def known(self) -> frozenset[str]:
        """Return the event types that a handler declares; all others are ignored."""
        return frozenset(self.events)

    def decode(self, type: str, schema: int, data: bytes) -> AnyEvent:  # noqa: A002 the envelope's word
        """Decode the event in `data`, in the shape handlers know. Raises EventError, or Erased."""
        event = self.events.get(type)
        if event is None:
            raise EventError(f"{self.name} handles no {type!r}")
        plain = data if self.decrypt is None else self.decrypt(type, data)
        return events.decode(event, type, schema, plain)

    @cached_property
    def intents(self) -> tuple[type[Intent], ...]:
        """Return the Intent classes that the handlers' annotations name, by name."""
        handlers = (handler for view in self.views for handler in view.handlers.values())
        found = {intent for handler in handlers for intent in mentioned_intents(handler.call)}
        return tuple(sorted(found, key=lambda intent: options_of(intent).name))

    def lacking(self, providers: Container[str]) -> list[str]:
        """Return the providers that its intents are for and that are not among these."""
        named = {options_of(intent).provider for intent in self.intents}
        return sorted(one for one in named if one not in providers)

    @property
    def code(self) -> bytes:
        """Return the fingerprint of the handlers' code and its dependencies, comments and docstrings left out."""
        raise NotImplementedError

    @property
    def unfollowed(self) -> tuple[str, ...]:
        """Return dependencies of the handlers of which the fingerprint notices no change."""
        return tuple(sorted({one for view in self.views for one in view.unfollowed}))


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition(ConsumerDefinition):
    """One view as its class declares it, with what its consumer reads: a consumer of its own, or one of a set."""

    consumer: str
    """The name of the consumer that feeds it: its own, unless a set lists it."""
    consumer_formerly: tuple[str, ...]
    """The former names of that consumer."""
    revision: int
    handlers: Mapping[str, Handler]
    """By event type, present and former."""
    table: Table | None = None
    """A Projection's table; None for the other kinds."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """A SqlProjection's tables: declared name to the body of `create table`."""
    indexes: Mapping[str, Sequence[Index]] = field(default_factory=dict)
    """A SqlProjection's indexes, by the declared name of their table."""
    looks_up: tuple[Definition, ...] = ()
    """The other views of its set whose rows its handlers look up."""

    @property
    def views(self) -> tuple[Definition, ...]:
        """Return itself, as the only view."""
        return (self,)

    @property
    def is_member(self) -> bool:
        """Return whether a set feeds it."""
        return self.consumer != self.name

    @property
    def full_name(self) -> str:
        """Return the name that tells the set as well, where there is one."""
        return f"{self.consumer}.{self.name}" if self.is_member else self.name

    @cached_property
    def owned(self) -> tuple[Table, ...]:
        """Return its tables; those of a SqlProjection without columns."""
        if self.table is not None:
            return (self.table,)
        return tuple(Table(name, indexes=self.indexes.get(name, ())) for name in self.tables)

    @property
    def has_own_ddl(self) -> bool:
        """Return whether its tables or indexes are made by SQL of the user's."""
        return bool(self.tables) or any(index.has_sql for table in self.owned for index in table.indexes)

    @property
    def below_shared(self) -> tuple[str, ...]:
        """Return the handlers that take whatever rows are there below a prefix, which other aggregates make too."""
        unordered = self.sequence == "unordered"
        found = {one.name for one in self.handlers.values() if one.rows and (unordered or not one.own)}
        return tuple(sorted(found))

    @cached_property
    def has_several(self) -> bool:
        """Return whether any handler has several rows."""
        return any(handler.several for handler in self.handlers.values())

    @cached_property
    def references(self) -> tuple[Reference[Any], ...]:
        """Return the tables of others that its handlers look up, by name."""
        asked = {ask.source for handler in self.handlers.values() for ask in handler.asks}
        found = {one for one in asked if isinstance(one, Reference)}
        return tuple(sorted(found, key=lambda one: one.table.public))

    @cached_property
    def source(self) -> LookupSource[Any]:
        """Return its rows as handlers of other views look them up."""
        assert self.table is not None, "only a Projection has rows of its own"
        return ViewSource(self.cls, self.table)

    @cached_property
    def is_exact(self) -> bool:
        """Return whether its rows are made of events alone: of those of each row's aggregate, where it has one."""
        return all(ask.is_exact for handler in self.handlers.values() for ask in handler.asks)

    @cached_property
    def support(self) -> tuple[Definition, ...]:
        """Return the views whose rows it needs, at first or second hand: each behind those that it needs itself."""
        found = dict[Definition, None]()
        for one in self.looks_up:
            found.update(dict.fromkeys((*one.support, one)))
        return tuple(found)

    @property
    def looked_up_views(self) -> list[str]:
        """Return the names of the views that it looks up itself."""
        return [one.name for one in self.looks_up]

    @cached_property
    def slots(self) -> Mapping[str, tuple[str, ...]]:
        """Return the default slots of its intents, each with its former names."""
        return {options_of(i).slot: options_of(i).formerly for i in self.intents}

    @cached_property
    def shape(self) -> bytes:
        """Return the fingerprint of table, options and handled types: a change needs migrate or a rebuild."""
        return shape_of(self)

    @property
    def code(self) -> bytes:
        """Return the fingerprint of the handlers' code and its dependencies, comments and docstrings left out."""
        return self._code[0]

    @property
    def unfollowed(self) -> tuple[str, ...]:
        """Return dependencies of the handlers of which the fingerprint notices no change."""
        return self._code[1]

    @cached_property
    def _code(self) -> tuple[bytes, tuple[str, ...]]:
        return code_of(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewDeclaration:
    """A view as its class declares it, without a stream: a set that lists it says what it reads."""

    cls: type
    kind: Kind
    name: str
    formerly: tuple[str, ...]
    revision: int
    handlers: Mapping[str, Handler]
    table: Table | None = None

    @property
    def looks_up(self) -> tuple[type, ...]:
        """Return the classes of the views that its handlers look up."""
        return looked_up_classes(self.handlers.values())


def compiled_of(cls: type) -> ConsumerDefinition | ViewDeclaration | None:
    """Return the compiled form of a class of a consumer or view; None of any other."""
    found: ConsumerDefinition | ViewDeclaration | None = getattr(cls, "__dict__", {}).get(ATTRIBUTE)
    return found


def consumer_definition(cls: type) -> ConsumerDefinition:
    """Return the compiled form of a class that is a consumer."""
    found = compiled_of(cls)
    if isinstance(found, ViewDeclaration):
        raise DefinitionError(
            f"{cls.__name__!r} has no stream=: it is a view, and no consumer by itself",
            remedy=f'Write class {cls.__name__}(…, stream="…", subjects="…"); or list it in a set, and pass that: '
            f'class Shop(ViewSet, stream="…", subjects="…", views=[{cls.__name__}, …])',
        )
    if found is None:
        raise DefinitionError(
            f"{getattr(cls, '__name__', cls)!r} is no consumer",
            remedy='Pass the class of a Projection, Reactor, SqlProjection or ViewSet that has stream="…"',
        )
    return found


def definition(cls: type) -> Definition:
    """Return the compiled form of a Projection, Reactor or SqlProjection class that is a consumer by itself."""
    found = consumer_definition(cls)
    if not isinstance(found, Definition):
        named = ", ".join(view.name for view in found.views)
        raise DefinitionError(f"{cls.__name__!r} is a set of views", remedy=f"Pass one of them: {named}")
    return found


def compiled(
    cls: type,
    kind: Kind,
    policy: ClassOptions,
    handlers: Mapping[str, Handler],
    *,
    table: Table | None = None,
    tables: Mapping[str, str] | None = None,
    indexes: Mapping[str, Sequence[Index]] | None = None,
    consumer: str | None = None,
    consumer_formerly: tuple[str, ...] = (),
    siblings: Mapping[type, Definition] = MappingProxyType({}),
) -> Definition:
    """Check the keywords of `cls`, make its Definition, and enter its names. Raises DefinitionError.

    `consumer` names the set that lists it, `consumer_formerly` what the set was called before, `siblings` are views of
    the set that it may look up.
    """
    name = checked_name(cls, policy)
    check_policy(cls, policy)
    check_revision(cls, policy.revision)
    looked_up = looked_up_of(cls, consumer, handlers.values(), siblings)
    for handler in handlers.values():
        handler.ordered = policy.sequence != "unordered"
        handler.asks = tuple(
            ask_of(cls.__name__, handler, name, declared, siblings)
            for name, declared in handler.lookups.items()
        )
    made = Definition(
        cls=cls,
        kind=kind,
        name=name,
        consumer=consumer or name,
        consumer_formerly=consumer_formerly if consumer else policy.formerly,
        formerly=policy.formerly,
        stream=policy.stream,
        subjects=subjects_of(policy),
        sequence=policy.sequence,
        baseline=policy.baseline,
        revision=policy.revision,
        effects=policy.effects,
        decrypt=policy.decrypt,
        handlers=dict(handlers),
        table=table,
        tables=dict(tables or {}),
        indexes=dict(indexes or {}),
        looks_up=looked_up,
    )
    unique_names.enter(cls, _claims(made))
    return made


def declared(
    cls: type, kind: Kind, policy: ViewOptions, handlers: Mapping[str, Handler], table: Table | None = None
) -> ViewDeclaration:
    """Check the keywords of a view's class, and enter its names. Raises DefinitionError."""
    name = checked_name(cls, policy)
    check_revision(cls, policy.revision)
    found = ViewDeclaration(
        cls=cls,
        kind=kind,
        name=name,
        formerly=policy.formerly,
        revision=policy.revision,
        handlers=dict(handlers),
        table=table,
    )
    unique_names.enter(cls, _claims(found))
    return found


def check_distinct(definitions: Iterable[ConsumerDefinition]) -> None:
    """Refuse two consumers, views or tables of one name, in whatever modules their classes are."""
    consumers = list(definitions)
    unique_names.check((one.cls, _claims(one)) for each in consumers for one in {each, *each.views})
    owners: dict[type, str] = {}
    for each in consumers:
        for view in each.views:
            if owners.setdefault(view.cls, each.name) != each.name:
                raise DefinitionError(
                    f"{view.name!r} is a view of {owners[view.cls]!r} and of {each.name!r}",
                    remedy="A table has one writer: leave it out of one of them",
                )


def _claims(made: ConsumerDefinition | ViewDeclaration) -> Iterator[str]:
    yield f"name {made.name!r}"
    for table in made.owned if isinstance(made, Definition) else _tables(made):
        yield f"table {table.public!r}"


def _tables(made: ConsumerDefinition | ViewDeclaration) -> tuple[Table, ...]:
    return (made.table,) if isinstance(made, ViewDeclaration) and made.table is not None else ()
