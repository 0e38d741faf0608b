"""Generated tables and statements on a real PostgreSQL: every kind of value comes back as it went in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.projections.everything import GOOD, Everything, Put, puts
from tests.unit.projections.folding import steps_of
from tests.unit.projections.shop import OrderSummary

from projectionist.projections import Event, Projection, definition, on
from projectionist.projections.folding.fold import fold
from projectionist.projections.tables import ddl
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.table import Table

OURS = "projectionist"
T = TypeVar("T")
Row = tuple[Any, ...]
Connection = asyncpg.Connection  # of records


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


TABLE = table_of(Everything)
MODEL = ReadModel(TABLE, OURS, 1)


class Session:
    """One connection, driven from tests that are not async."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self.run: Callable[[Coroutine[Any, Any, Any]], Any] = runner.run
        self.connection = self.run(asyncpg.connect(url))

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.run(self.connection.execute(statement))

    def load(self, keys: list[str], *, locked: bool = False) -> dict[Any, Row]:
        statement = MODEL.load_locked if locked else MODEL.load
        return {row[0]: tuple(row) for row in self.run(self.connection.fetch(statement, keys))}

    def write(self, rows: dict[Any, Row | None], loaded: dict[Any, Row]) -> None:
        kept = {key: row for key, row in rows.items() if row is not None}
        absent = [row for key, row in kept.items() if key not in loaded]
        present = [row for key, row in kept.items() if key in loaded]
        if absent:
            fresh = self.run(self.connection.fetch(MODEL.insert_absent, *MODEL.arguments(absent)))
            assert len(fresh) == len(absent)
        if present:
            self.run(self.connection.execute(MODEL.upsert, *MODEL.arguments(present)))
        self.run(self.connection.execute(MODEL.delete, [key for key in rows if key not in kept]))

    def clear(self) -> None:
        self.execute(f"truncate {ddl.physical(TABLE, OURS, 1)}")


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with asyncio.Runner() as runner:
        session = Session(runner, database)
        session.execute(ddl.create_table(TABLE, OURS, 1))
        yield session
        session.run(session.connection.close())


def shown(row: Row) -> list[tuple[str, str]]:
    """A row with what `==` would overlook: types, scale, offset."""
    return [(type(value).__name__, str(value)) for value in row]


def stored(key: str, values: dict[str, Any]) -> Row:
    """The row in database form after these assignments."""
    defaults = [key, *(column.default for column in TABLE.columns[1:])]
    given = {column.name: at for at, column in enumerate(TABLE.columns)}
    for name, value in values.items():
        defaults[given[name]] = TABLE.columns[given[name]].stored(value)
    return tuple(defaults)


SAME_SESSION = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SAME_SESSION
@given(rows=st.lists(st.fixed_dictionaries({}, optional=GOOD), min_size=1, max_size=8))
def test_every_value_comes_back_from_the_table_as_it_was_kept(
    session: Session, rows: list[dict[str, Any]]
) -> None:
    session.clear()
    first = {f"k-{n}": stored(f"k-{n}", values) for n, values in enumerate(rows)}
    last = {f"k-{n}": stored(f"k-{n}", values) for n, values in enumerate(reversed(rows))}
    session.write(dict(first), {})
    loaded = session.load([*first, "never"])
    assert {key: shown(row) for key, row in loaded.items()} == {key: shown(row) for key, row in first.items()}
    session.write(dict(last), loaded)
    loaded = session.load(list(last), locked=True)
    assert {key: shown(row) for key, row in loaded.items()} == {key: shown(row) for key, row in last.items()}
    assert list(loaded) == sorted(loaded)


@SAME_SESSION
@given(
    batch=st.lists(st.tuples(st.sampled_from(["a-1", "a-2"]), puts(st.sampled_from(["x", "y"]))), max_size=6)
)
def test_a_batch_in_memory_ends_where_its_events_end_through_the_table(
    session: Session, batch: list[tuple[str, Event]]
) -> None:
    session.clear()
    steps = steps_of(Everything, batch)
    at_once = fold(definition(Everything), steps, {})
    failed = set()
    bodies = []
    for step in steps:
        if step.aggregate in failed:
            continue
        loaded = session.load(["x", "y"])
        singly = fold(definition(Everything), [step], loaded)
        failed |= set(singly.failures)
        bodies += [emitted.body for _, emitted in singly.intents]
        session.write(singly.rows, loaded)
    assert failed == set(at_once.failures)
    assert bodies == [emitted.body for _, emitted in at_once.intents]
    kept = {key: shown(row) for key, row in at_once.rows.items() if row is not None}
    assert {key: shown(row) for key, row in session.load(["x", "y"]).items()} == kept


def test_a_row_the_database_makes_from_its_defaults_is_the_one_a_handler_starts_from(
    session: Session,
) -> None:
    session.execute(f"insert into {ddl.physical(TABLE, OURS, 1)} (key) values ('k')")
    assert shown(session.load(["k"])["k"]) == shown(stored("k", {}))


def test_a_peer_that_inserted_first_shows_as_a_short_answer(session: Session) -> None:
    session.write({"a": stored("a", {"number": 1})}, {})
    rows = [stored(key, {"number": 2}) for key in ("b", "a")]
    fresh = session.run(session.connection.fetch(MODEL.insert_absent, *MODEL.arguments(rows)))
    assert [row[0] for row in fresh] == ["b"]
    assert session.load(["a"])["a"][2] == 1


def test_the_view_survives_an_added_field_and_so_does_what_a_user_built_on_it(session: Session) -> None:
    class Before(Projection, stream="S", subjects="s.{aggregate}", table="evolving", key="id", name="Before"):
        id: str
        total: int = 0

        @on(Put, key="key")
        def put(self, event: Put) -> None: ...

    class After(Projection, stream="S", subjects="s.{aggregate}", table="evolving", key="id", name="After"):
        id: str
        label: str = "it's"
        total: int = 0

        @on(Put, key="key")
        def put(self, event: Put) -> None: ...

    before, after = table_of(Before), table_of(After)
    session.execute(
        ddl.create_table(before, OURS, 1),
        ddl.create_view(before, OURS, 1),
        f"insert into {OURS}.evolving__g1 (id) values ('kept')",
        "create view mine as select id, total from evolving",
    )
    statements = ddl.evolve(after, OURS, 1, ddl.specs(before))
    assert isinstance(statements, list)
    session.execute(*statements, ddl.create_view(after, OURS, 1, live=["id", "total"]))
    (row,) = session.run(session.connection.fetch("select * from evolving"))
    assert dict(row) == {"id": "kept", "total": 0, "label": "it's"}
    assert list(row.keys()) == ["id", "total", "label"]
    (mine,) = session.run(session.connection.fetch("select * from mine"))
    assert dict(mine) == {"id": "kept", "total": 0}
    # and so it does when the next generation takes the name over
    session.execute(ddl.create_table(after, OURS, 2), ddl.create_view(after, OURS, 2, live=list(row.keys())))
    assert session.run(session.connection.fetchval("select count(*) from mine")) == 0
    session.execute(f"drop table {ddl.physical(after, OURS, 1)}")


def test_indexes_and_sql_tables_are_created_as_generated(session: Session) -> None:
    summary = table_of(OrderSummary)
    tables = {"totals": "customer text primary key", "lines": "customer text references {totals} (customer)"}
    session.execute(
        ddl.create_table(summary, OURS, 7),
        *ddl.create_indexes(summary, OURS, 7),
        *(ddl.create_sql_table(tables, name, OURS, 7) for name in tables),
        *(ddl.create_sql_view(name, OURS, 7) for name in tables),
        f"insert into {OURS}.totals__g7 values ('ann')",
        f"insert into {OURS}.lines__g7 values ('ann')",
    )
    names = session.run(
        session.connection.fetch(
            "select indexname from pg_indexes where tablename = 'order_summary__g7' order by 1"
        )
    )
    assert [row[0] for row in names] == ["order_summary__g7_pkey", "order_summary__g7_status"]
