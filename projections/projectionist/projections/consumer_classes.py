"""The three kinds of consumers a user writes: Projection, Reactor, SqlProjection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.projections.compiled.class_options import (
    Baseline,
    ClassOptions,
    Decrypt,
    Effects,
    Sequencing,
    ViewOptions,
)
from projectionist.projections.compiled.definition import Kind, compiled, declared
from projectionist.projections.compiled.row_keys import by_id, row_key
from projectionist.projections.handler_marks import ATTRIBUTE
from projectionist.projections.handlers import collected, has_handlers
from projectionist.projections.stream import Stream, resolved
from projectionist.projections.tables.columns import columns_of
from projectionist.projections.tables.sql_tables import check_indexed, checked_tables
from projectionist.projections.tables.table import Index, Table
from projectionist.projections.tables.table_key import MOST_COLUMNS

_POLICY = tuple(ClassOptions.__dataclass_fields__)
_OF_VIEWS = tuple(ViewOptions.__dataclass_fields__)


@dataclass_transform(field_specifiers=(msgspec.field,))
class ProjectionMeta(msgspec.StructMeta):
    """Takes our class keywords, leaves the rest to msgspec, and compiles the class."""

    def __new__(
        mcls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        table: str | None = None,
        key: str | tuple[str, ...] | None = None,
        indexes: Sequence[Index] = (),
        **keywords: Any,
    ) -> Any:
        policy = {word: keywords.pop(word) for word in _POLICY if word in keywords}
        policy = resolved(class_name, policy)
        try:
            cls: Any = super().__new__(mcls, class_name, bases, namespace, **keywords)
        except TypeError as error:
            order = "Put the key first; every other field has a default" if "follow" in str(error) else ""
            raise DefinitionError(f"{class_name}: {error}", remedy=order) from error
        if policy or table or key:
            reads = ("stream", "subjects") if _reads(policy) else ()
            _require(class_name, {"table": table, "key": key, **policy}, *reads, "table", "key")
            options = ClassOptions(**policy) if reads else _view_options(class_name, policy)
            _compile(cls, options, table or "", _key_columns(class_name, key), indexes)
        return cls


class Projection(msgspec.Struct, metaclass=ProjectionMeta):
    """Events in, rows and Intents out: fields are the columns of `table`, `@on` methods are pure handlers.

    `stream` and `subjects` say where events come from (`{id}` names the token that is the aggregate's id); a
    declared Stream in place of its name says both. `key` names the field that tells rows apart, or up to four in a
    tuple; every other field needs a default. `table` may be `schema.table`. `sequence`, `baseline`, `revision` and
    `effects` are the policy of the code; `name` and `formerly` keep the identity of a class that is renamed. A class
    without `stream` is a view, which a ViewSet lists; one without keywords is a base for others.
    """

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            stream: str | Stream | None = None,
            subjects: str | tuple[str, ...] | None = None,
            table: str | None = None,
            key: str | tuple[str, ...] | None = None,
            name: str | None = None,
            formerly: tuple[str, ...] = (),
            sequence: Sequencing = "contiguous",
            baseline: Baseline = "first",
            revision: int = 1,
            effects: Effects = "now",
            decrypt: Decrypt | None = None,
            indexes: Sequence[Index] = (),
        ) -> None: ...


class Reactor:
    """Events in, Intents out, no table. One instance serves every event, so it keeps no state."""

    __slots__ = ()

    def __init_subclass__(
        cls,
        *,
        stream: str | Stream | None = None,
        subjects: str | tuple[str, ...] | None = None,
        name: str | None = None,
        formerly: tuple[str, ...] = (),
        sequence: Sequencing = "contiguous",
        baseline: Baseline = "first",
        revision: int = 1,
        effects: Effects = "now",
        decrypt: Decrypt | None = None,
    ) -> None:
        super().__init_subclass__()
        if stream is None and subjects is None:
            _declare(cls, Kind.REACTOR, locals())
            return
        policy = _policy(cls, locals())
        handlers = collected(cls, has_row=False)
        setattr(cls, ATTRIBUTE, compiled(cls, Kind.REACTOR, policy, handlers))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _stateless(self, name)


class SqlProjection:
    """Events in; async handlers write SQL of their own in the open transaction, and one that fails is undone alone.

    `tables` maps each table's name (or `schema.table`) to the body of its `create table`. SQL, there and in
    handlers, names them by placeholder only: `insert into {order_totals} …`, so that a rebuild can fill
    another generation. `indexes` maps such a name to its indexes.
    """

    __slots__ = ()
    tables: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(
        cls,
        *,
        stream: str | Stream | None = None,
        subjects: str | tuple[str, ...] | None = None,
        name: str | None = None,
        formerly: tuple[str, ...] = (),
        sequence: Sequencing = "contiguous",
        baseline: Baseline = "first",
        revision: int = 1,
        effects: Effects = "now",
        decrypt: Decrypt | None = None,
        indexes: Mapping[str, Sequence[Index]] = MappingProxyType({}),
    ) -> None:
        super().__init_subclass__()
        if stream is None and subjects is None:
            _declare(cls, Kind.SQL, locals())
            return
        policy = _policy(cls, locals())
        handlers = collected(cls, has_row=False, is_async=True)
        tables = checked_tables(cls.__name__, cls.tables)
        check_indexed(cls.__name__, tables, indexes)
        made = compiled(cls, Kind.SQL, policy, handlers, tables=tables, indexes=indexes)
        setattr(cls, ATTRIBUTE, made)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _stateless(self, name)


def _compile(
    cls: type[Projection],
    options: ClassOptions | ViewOptions,
    name: str,
    key: tuple[str, ...],
    indexes: Sequence[Index],
) -> None:
    handlers = collected(cls, has_row=True)
    table = Table(name, columns_of(cls, key), key, indexes)
    assert table.key is not None, "it has columns"
    for handler in handlers.values():
        handler.row_key = row_key(cls.__name__, handler, table.key)
        handler.by_id = by_id(handler, table.key)
    if isinstance(options, ClassOptions):
        setattr(cls, ATTRIBUTE, compiled(cls, Kind.PROJECTION, options, handlers, table=table))
    else:
        setattr(cls, ATTRIBUTE, declared(cls, Kind.PROJECTION, options, handlers, table))


def _key_columns(name: str, key: object) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, tuple) or not all(isinstance(one, str) for one in names):
        raise DefinitionError(
            f"{name}: key={key!r}", remedy='Write key="order_id" or key=("order_id", "line")'
        )
    if len(set(names)) != len(names) or len(names) > MOST_COLUMNS:
        raise DefinitionError(
            f"{name}: key={key!r} names {len(names)} columns",
            remedy=f"A key has one to {MOST_COLUMNS} columns, each of them once",
        )
    return names


def _policy(cls: type, given: Mapping[str, Any]) -> ClassOptions:
    keywords = resolved(cls.__name__, {word: given[word] for word in _POLICY})
    _require(cls.__name__, keywords, "stream", "subjects")
    return ClassOptions(**keywords)


def _declare(cls: type, kind: Kind, given: Mapping[str, Any]) -> None:
    """Enter a class without a stream as a view, where it has handlers: another is a base for others."""
    plain = ClassOptions(stream="", subjects="")
    policy = {word: given[word] for word in _POLICY if given[word] != getattr(plain, word, None)}
    policy = {word: value for word, value in policy.items() if value is not None}
    if policy or has_handlers(cls):
        options = _view_options(cls.__name__, policy)
        handlers = collected(cls, has_row=False, is_async=kind is Kind.SQL)
        setattr(cls, ATTRIBUTE, declared(cls, kind, options, handlers))


def _reads(policy: Mapping[str, Any]) -> bool:
    return policy.get("stream") is not None or policy.get("subjects") is not None


def _view_options(name: str, given: Mapping[str, Any]) -> ViewOptions:
    """Return the options of a class without a stream, which says nothing of how it reads."""
    policy = {word: value for word, value in given.items() if word not in ("stream", "subjects")}
    if reads := [word for word in policy if word not in _OF_VIEWS]:
        raise DefinitionError(
            f"{name} has {', '.join(f'{word}=' for word in reads)} without stream=",
            remedy="A class without stream= is a view; how it reads is said by the ViewSet that lists it",
        )
    return ViewOptions(**policy)


def _require(name: str, given: Mapping[str, Any], *words: str) -> None:
    missing = [word for word in words if not given.get(word)]
    if missing:
        raise DefinitionError(
            f"{name} lacks {', '.join(f'{word}=' for word in missing)}",
            remedy=f"Write class {name}({', '.join(f'{word}=…' for word in missing)})",
        )


def _stateless(consumer: object, name: str) -> NoReturn:
    raise AttributeError(
        f"{type(consumer).__name__}.{name} cannot be set: one instance serves every event, in any process"
    )
