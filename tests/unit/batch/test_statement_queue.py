"""Statements that are put off: which of them join, which may change places, and what may be kept of their arguments."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from operator import add, attrgetter, contains, eq, getitem, lt, mod
from typing import Any
from uuid import UUID

import pytest

from projectionist.runner.batch.plain_statements import plain_target
from projectionist.runner.batch.statement_queue import StatementQueue, fixed
from projectionist.runner.batch.unread_tag import TagRead, UnreadTag

PLAIN = [
    "insert into {t} values ($1, $2)",
    " INSERT INTO {t}(a, b)\nVALUES ($1, 'it''s') on conflict (a) do update set b = excluded.b where {t}.b < 1",
    "update {t} set a = $1, s = 'from (x)' where k = $2 and (a is null or b in ($3, $4))",
    "update {t} as x set n = coalesce(x.n, 0) + $1::bigint where k = $2",
    "delete from {t} where k = any($1)",
    "insert into {t} default values",
]
DOUBTFUL = [
    "select k from {t}",
    "insert into {t} select $1",
    "insert into {t} values ((select max(k) from {t}))",
    "insert into {t} values (nextval('numbers'))",
    "insert into {t} values ($1) returning k",
    "insert into {t} values ($$(select 1)$$)",
    "insert into {t} values (E'\\', (f($1))')",
    "insert into {t} values ($1) -- of {u}",
    "insert into {t} values ($1); delete from {t}",
    "insert into t values ($1)",
    "insert into {s}.{t} values ($1)",
    "insert into {t}s values ($1)",
    "with x as (select 1) insert into {t} values ($1)",
    "update {t} set a = {u}.a",
    "update {t} set a = {u}.a from {u}",
    "update {t} set a = f ($1)",
    'update {t} set "a" = $1',
    "delete from {t} using {u}",
    "delete from {t} where current of c",
    "delete from {t} where k in (table {u})",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_a_plain_statement_is_about_one_table(sql: str) -> None:
    assert plain_target(sql) == "t"


@pytest.mark.parametrize("sql", DOUBTFUL)
def test_what_may_look_elsewhere_keeps_its_place(sql: str) -> None:
    assert plain_target(sql) is None


def queued(*asked: tuple[str, str | None]) -> list[tuple[str, int, int]]:
    """The statements in the order they are run, how often each, and the first event that asked."""
    queue = StatementQueue()
    for place, (text, target) in enumerate(asked):
        queue.put(text, target, [(place,)], place)
    return [(one.text, len(one.rows), one.first) for one in queue.take()]


A, A2, B, UNSURE = ("into a", "a"), ("update a", "a"), ("into b", "b"), ("look", None)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([A, A, A], [("into a", 3, 0)]),
        ([UNSURE, UNSURE], [("look", 2, 0)]),
        ([A, B, A, B], [("into a", 2, 0), ("into b", 2, 1)]),
        ([A, A2, A], [("into a", 1, 0), ("update a", 1, 1), ("into a", 1, 2)]),
        ([A, B, A2, B, A], [("into a", 1, 0), ("into b", 2, 1), ("update a", 1, 2), ("into a", 1, 4)]),
        ([A, UNSURE, A], [("into a", 1, 0), ("look", 1, 1), ("into a", 1, 2)]),
        ([UNSURE, B, UNSURE], [("look", 1, 0), ("into b", 1, 1), ("look", 1, 2)]),
    ],
)
def test_equal_statements_join_where_all_between_them_is_about_other_tables(
    asked: list[tuple[str, str | None]], expected: list[tuple[str, int, int]]
) -> None:
    assert queued(*asked) == expected


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "args",
    [
        (1, "a", None, b"", 1.5, True, Decimal(1), UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), Colour.RED),
        ([1, 2],),
    ],
)
def test_arguments_that_cannot_change_are_kept(args: tuple[Any, ...]) -> None:
    assert fixed(args) == args


def test_a_list_is_kept_as_it_was() -> None:
    keys = [1]
    kept = fixed((keys,))
    keys.append(2)
    assert kept == ([1],)


@pytest.mark.parametrize("args", [({},), ([[]],), (bytearray(),), (object(),), ("a" for _ in "b")])
def test_arguments_that_may_change_are_not(args: Any) -> None:
    assert fixed(args) is None


@pytest.mark.parametrize(
    "use",
    [
        *(
            str,
            repr,
            bool,
            hash,
            len,
            iter,
            int,
            float,
            bytes,
            list,
            dir,
            copy.copy,
            copy.deepcopy,
            pickle.dumps,
        ),
        *(json.dumps, "{}".format, "%s".__mod__, attrgetter("split"), lambda tag: isinstance(tag, str)),
        *(lambda tag: tag(), lambda tag: setattr(tag, "x", 1), lambda tag: f"{tag:>9}"),
        *(lambda tag, two=two: two(tag, "UPDATE 0") for two in (eq, lt, add, mod, contains, getitem)),
    ],
)
def test_whatever_is_asked_of_a_tag_that_is_not_there_is_heard_of(use: Callable[[Any], Any]) -> None:
    heard: list[bool] = []
    with pytest.raises((TagRead, TypeError)):
        use(UnreadTag(lambda: heard.append(True)))
    assert heard
