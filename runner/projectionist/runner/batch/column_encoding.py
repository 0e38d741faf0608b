"""Rows of a batch as the columns that `unnest` takes, and the two largest of them in fewer values.

The driver takes time for each element of an array. Of three rows it is given

    source  id   correlation          as arguments   one value   an array or one text
    shop    e1   null                 source         shop        ()
    shop    e2   null                 id             -           e1 U+001F e2 U+001F e3
    shop    e3   null                 correlation    -           null

which is nine elements less. Other columns go as arrays; an array of nulls alone goes as an empty one. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from asyncpg import DataError

CLAIMED = attrgetter(
    "source",
    "provisional",
    "schema",
    "id",
    "seq",
    "subject",
    "type",
    "aggregate",
    "version",
    "correlation",
    "causation",
    "traceparent",
    "tracestate",
    "hash",
    "received_us",
)
_CLAIMED_ALIKE = 3
"""So many of them, the first, are often the same for a whole batch."""
_CLAIMED_TEXTS = frozenset({3, 5, 6, 7, 9, 10, 11, 12})
"""Columns of text in which reading lets nothing pass that cannot be printed."""
PARKED = attrgetter(
    "delivery.source",
    "delivery.id",
    "cause",
    "delivery.aggregate",
    "delivery.version",
    "ordered",
    "delivery.seq",
    "delivery.subject",
    "delivery.type",
    "delivery.schema",
    "delivery.time",
    "delivery.correlation",
    "delivery.causation",
    "delivery.traceparent",
    "delivery.tracestate",
    "delivery.hash",
    "kept",
    "problem",
    "failed.attempts",
    "failed.budget",
    "delay",
    "failed.error_class",
    "failed.error",
    "failed.stack",
    "delivery.baggage",
    "failed.view",
)
MOVED = attrgetter("head", "parked", "aggregate", "version", "delay", "due", "seq", "finding")
_MOVED_ALIKE = 2
_MOVED_TEXTS = frozenset({2})
BETWEEN, NOTHING = "\x1f", "\x1e"
"""What divides the values of a column that travels as one text, and what stands for null: neither can be printed."""
REPEATED = attrgetter("seq", "source", "id")
QUARANTINED = attrgetter(
    "seq",
    "reason",
    "detail",
    "subject",
    "source",
    "id",
    "aggregate",
    "version",
    "headers",
    "data",
    "size",
    "hash",
    "again_s",
)
INCIDENTS = attrgetter("kind", "seq", "source", "id", "aggregate", "version", "detail")


def columns(rows: Sequence[object], get: Callable[[Any], tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """Return the values of rows by column, as `unnest` takes them."""
    return zip(*map(get, rows), strict=True)


def claimed(fresh: Sequence[object], data: Sequence[bytes | None]) -> Iterator[object]:
    """Return the arguments that claim deliveries, whose stored bytes are `data`."""
    return _sparing([*columns(fresh, CLAIMED), data], _CLAIMED_ALIKE, _CLAIMED_TEXTS)


def moved(positions: Sequence[object]) -> Iterator[object]:
    """Return the arguments that write positions."""
    return _sparing(list(columns(positions, MOVED)), _MOVED_ALIKE, _MOVED_TEXTS)


def _sparing(given: Sequence[Sequence[Any]], alike: int, texts: Container[int]) -> Iterator[object]:
    """Return columns as arguments, the first `alike` each as a value and an array: every element costs the driver time.

    Where all are the same the value stands for them, and where all are null nothing does; the array is empty then.
    The columns at `texts` go as one text each.
    """
    one = [column[0] if column.count(column[0]) == len(column) else None for column in given[:alike]]
    yield from one
    yield from (column if value is None else () for value, column in zip(one, given, strict=False))
    for at, column in enumerate(given[alike:], alike):
        nulls = column.count(None) if at in texts or column[0] is None else 0
        if nulls == len(column):
            yield None if at in texts else ()
        else:
            yield joined(column, nulls) if at in texts else column


def joined(column: Sequence[str | None], nulls: int) -> str:
    """Return a column of text, with so many nulls in it, as one text.

    Raises what PostgreSQL would say of such a value where one holds what divides them: then its event can be found.
    """
    values = column if not nulls else [NOTHING if value is None else value for value in column]
    text = BETWEEN.join(values)  # type: ignore[arg-type]  # without nulls it holds text alone
    if text.count(BETWEEN) != len(column) - 1 or text.count(NOTHING) != nulls:
        raise DataError("a value holds U+001E or U+001F, which divide values")
    return text
