"""A consumer's class in compiled form, as runners need it, checked when the class is defined."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, get_args

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked
from projectionist.core.nats.subject_tokens import is_stream_name
from projectionist.outbox.intents.intent import Intent, options_of
from projectionist.projections import event as events
from projectionist.projections.annotations import mentioned_intents
from projectionist.projections.compiled import unique_names
from projectionist.projections.compiled.fingerprint import code_of, shape_of
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.projections.errors import EventError
from projectionist.projections.event import AnyEvent
from projectionist.projections.handlers import Handler
from projectionist.projections.tables.table import Index, Table

Sequencing = Literal["contiguous", "monotonic", "unordered"]
Baseline = int | Literal["first", "any"]
Effects = Literal["now", "beginning"]
Decrypt = Callable[[str, bytes], bytes]

ATTRIBUTE = "__projectionist__"


class Kind(StrEnum):
    """The kinds of consumers."""

    PROJECTION = "projection"
    REACTOR = "reactor"
    SQL = "sql"


@dataclass(frozen=True, kw_only=True)
class ClassOptions:
    """The class keywords that every kind of consumer takes."""

    stream: str
    subjects: str | tuple[str, ...]
    name: str | None = None
    formerly: tuple[str, ...] = ()
    sequence: Sequencing = "contiguous"
    baseline: Baseline = "first"
    revision: int = 1
    effects: Effects = "now"
    decrypt: Decrypt | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """One consumer as its class declares it."""

    cls: type
    kind: Kind
    name: str
    formerly: tuple[str, ...]
    stream: str
    subjects: Subjects
    sequence: Sequencing
    baseline: Baseline
    revision: int
    effects: Effects
    handlers: Mapping[str, Handler]
    """By event type, present and former."""
    table: Table | None = None
    """A Projection's table; None for the other kinds."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """A SqlProjection's tables: declared name to the body of `create table`."""
    indexes: Mapping[str, Sequence[Index]] = field(default_factory=dict)
    """A SqlProjection's indexes, by the declared name of their table."""
    decrypt: Decrypt | None = None
    """Makes the bytes of an encrypted body plain, by the event's type; raises Erased where the key is gone."""

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
    def known(self) -> frozenset[str]:
        """Return the event types that a handler declares; all others are ignored."""
        return frozenset(self.handlers)

    def decode(self, type: str, schema: int, data: bytes) -> AnyEvent:  # noqa: A002 the envelope's word
        """Decode the event in `data`, in the shape handlers know. Raises EventError, or Erased."""
        handler = self.handlers.get(type)
        if handler is None:
            raise EventError(f"{self.name} handles no {type!r}")
        plain = data if self.decrypt is None else self.decrypt(type, data)
        return events.decode(handler.event, type, schema, plain)

    @property
    def below_shared(self) -> tuple[str, ...]:
        """Return the handlers that take whatever rows are there below a prefix, which other aggregates make too."""
        unordered = self.sequence == "unordered"
        found = {one.name for one in self.handlers.values() if one.rows and (unordered or not one.own)}
        return tuple(sorted(found))

    @cached_property
    def intents(self) -> tuple[type[Intent], ...]:
        """Return the Intent classes that the handlers' annotations name, by name."""
        found = {intent for handler in self.handlers.values() for intent in mentioned_intents(handler.call)}
        return tuple(sorted(found, key=lambda intent: options_of(intent).name))

    def lacking(self, providers: Container[str]) -> list[str]:
        """Return the providers that its intents are for and that are not among these."""
        named = {options_of(intent).provider for intent in self.intents}
        return sorted(one for one in named if one not in providers)

    @cached_property
    def slots(self) -> Mapping[str, tuple[str, ...]]:
        """Return the default slots of these intents, each with its former names."""
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


def definition(cls: type) -> Definition:
    """Return the compiled form of a Projection, Reactor or SqlProjection class."""
    found = getattr(cls, "__dict__", {}).get(ATTRIBUTE)
    if found is None:
        raise DefinitionError(
            f"{getattr(cls, '__name__', cls)!r} is no consumer",
            remedy='Pass the class of a Projection, Reactor or SqlProjection that has stream="…"',
        )
    compiled: Definition = found
    return compiled


def compiled(
    cls: type,
    kind: Kind,
    policy: ClassOptions,
    handlers: Mapping[str, Handler],
    *,
    table: Table | None = None,
    tables: Mapping[str, str] | None = None,
    indexes: Mapping[str, Sequence[Index]] | None = None,
) -> Definition:
    """Check the keywords of `cls`, make its Definition, and enter its names. Raises DefinitionError."""
    name = cls.__name__ if policy.name is None else policy.name
    for text in (name, *policy.formerly):
        _check_name(cls, text)
    _check_sequence(cls, policy)
    _check_policy(cls, policy)
    for handler in handlers.values():
        handler.ordered = policy.sequence != "unordered"
    patterns = (policy.subjects,) if isinstance(policy.subjects, str) else policy.subjects
    made = Definition(
        cls=cls,
        kind=kind,
        name=name,
        formerly=policy.formerly,
        stream=policy.stream,
        subjects=Subjects(patterns),
        sequence=policy.sequence,
        baseline=policy.baseline,
        revision=policy.revision,
        effects=policy.effects,
        decrypt=policy.decrypt,
        handlers=dict(handlers),
        table=table,
        tables=dict(tables or {}),
        indexes=dict(indexes or {}),
    )
    unique_names.enter(cls, _claims(made))
    return made


def check_distinct(definitions: Iterable[Definition]) -> None:
    """Refuse two consumers, or two tables, of one name, in whatever modules their classes are."""
    unique_names.check((each.cls, _claims(each)) for each in definitions)


def _claims(made: Definition) -> Iterator[str]:
    yield f"consumer {made.name!r}"
    for table in made.owned:
        yield f"table {table.public!r}"


def _check_name(cls: type, name: str) -> None:
    checked(name, what=f"consumer name of {cls.__name__}")
    if re.search(r"[:/.*>\\\s]", name):
        raise DefinitionError(
            f"{name!r} cannot be a consumer's name",
            remedy="Use letters, digits, - and _: it becomes a durable's name and part of keys",
        )


def _check_sequence(cls: type, policy: ClassOptions) -> None:
    allowed: dict[str, tuple[Any, Any]] = {
        "sequence": (policy.sequence, get_args(Sequencing)),
        "effects": (policy.effects, get_args(Effects)),
    }
    if not (_counts(policy.baseline) or policy.baseline in ("first", "any")):
        raise DefinitionError(
            f"{cls.__name__}: baseline={policy.baseline!r}", remedy='Write "first", "any" or a version from 1'
        )
    if policy.baseline != "first" and policy.sequence == "unordered":
        raise DefinitionError(
            f"{cls.__name__}: baseline={policy.baseline!r} with sequence='unordered'",
            remedy="Without order nothing begins at a version: leave baseline out",
        )
    for keyword, (value, choices) in allowed.items():
        if value not in choices:
            raise DefinitionError(f"{cls.__name__}: {keyword}={value!r}", remedy=f"Write one of {choices}")


def _check_policy(cls: type, policy: ClassOptions) -> None:
    if not _counts(policy.revision):
        raise DefinitionError(
            f"{cls.__name__}: revision={policy.revision!r}", remedy="Revisions count from 1"
        )
    if isinstance(policy.formerly, str):
        raise DefinitionError(f"{cls.__name__}: formerly is a text", remedy='Write formerly=("OldName",)')
    if not is_stream_name(policy.stream):
        raise DefinitionError(
            f"{cls.__name__}: stream={policy.stream!r} is no stream's name", remedy='Write stream="SHOP"'
        )


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
