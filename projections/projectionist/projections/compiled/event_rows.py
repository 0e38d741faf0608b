"""The rows of a handler that takes several: the keys that `each=` returns, or a prefix whose rows it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from projectionist.core.errors import DefinitionError
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue
from projectionist.projections.event import AnyEvent
from projectionist.projections.handlers import Handler, RowKey
from projectionist.projections.tables.table_key import MOST_ROWS, Keys, Prefix, TableKey


def each_key(where: str, handler: Handler, key: TableKey, own: RowKey | None) -> RowKey:
    """Make the function to the Keys that `each=` returns; `own` reads the aggregate's id, where they begin with it."""
    if own is not None and not key.several:
        raise DefinitionError(
            f"{where}.{handler.name}: each= and a key of one column, {key.first.name}: an aggregate has one row",
            remedy='Give the table a key of several columns, key=("order_id", "line"), or write shared=True',
        )
    asked = _asked(handler)

    def shared(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Keys:
        return _distinct(key.stored(one) for one in asked(event, envelope))

    if own is None:
        return shared
    rest = key.columns[1:]

    def each(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Keys:
        first = own(aggregate_id, event, envelope)
        parts = (_rest(one, first, key) for one in asked(event, envelope))
        return _distinct(
            (first, *(column.stored(part) for column, part in zip(rest, one, strict=True))) for one in parts
        )

    return each


def below(where: str, handler: Handler, key: TableKey) -> TableKey:
    """Return the key that the columns of `rows=` would be; refuse other columns than leading ones."""
    many = len(handler.rows)
    if handler.rows != key.names[:many] or many == len(key.names):
        whole = many == len(key.names) and handler.rows == key.names
        raise DefinitionError(
            f"{where}.{handler.name}: rows={', '.join(handler.rows)} "
            + ("is the whole key" if whole else f"is no beginning of the key {', '.join(key.names)}"),
            remedy="Leave rows= out: the key has one row"
            if whole or not key.several
            else f'Write rows="{key.names[0]}"',
        )
    return key.leading(many)


def prefix_of(leading: TableKey, find: RowKey) -> RowKey:
    """Make the function to a Prefix from the one to its columns."""

    def prefix(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Prefix:
        return Prefix(tuple(leading.parts(find(aggregate_id, event, envelope))))

    return prefix


def _asked(handler: Handler) -> Callable[[AnyEvent, Callable[[], Envelope]], Iterable[Any]]:
    function: Any = handler.each

    def asked(event: AnyEvent, envelope: Callable[[], Envelope]) -> Iterable[Any]:
        found = function(event, envelope()) if handler.key_reads_envelope else function(event)
        if not isinstance(found, Iterable) or isinstance(found, str | bytes | set | frozenset):
            raise BadValue(
                f"each= returned a {type(found).__name__}: it takes a list of keys, in their order"
            )
        return islice(found, MOST_ROWS + 1)

    return asked


def _rest(one: Any, first: Any, key: TableKey) -> Sequence[Any]:
    """Return what stands behind the aggregate's id in a key that is whole, or begins behind it."""
    parts = one if isinstance(one, tuple | list) else (one,)
    lacking = len(key.columns) - len(parts)
    if lacking == 1:
        return parts
    if lacking:
        raise BadValue(
            f"each= gives a key of {len(parts)} values, and it has {len(key.columns)}", ", ".join(key.names)
        )
    if parts[0] != first and key.first.stored(parts[0]) != first:
        raise BadValue(
            "is the aggregate's id, and each= gives a row of another: shared=True lets rows be any aggregate's",
            key.first.name,
        )
    return parts[1:]


def _distinct(keys: Iterable[Any]) -> Keys:
    listed = tuple(keys)
    if len(listed) > MOST_ROWS:
        raise BadValue(f"each= gives more than {MOST_ROWS:,} rows, the most of one event")
    if len(set(listed)) < len(listed):
        first: dict[Any, int] = {}
        for at, one in enumerate(listed, 1):
            if first.setdefault(one, at) != at:
                raise BadValue(f"each= gives one key twice: number {at} is number {first[one]} again")
    return Keys(listed)
