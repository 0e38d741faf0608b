"""What live and rebuilt rows are compared by: any type, by key, whatever the size, and what moved meanwhile too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPlaced, shop

from projectionist.core.postgres.connections import Connection
from projectionist.projections import Envelope, SqlProjection, Tx, on
from projectionist.runner.read_models.rehearsal import OnlyOnce
from projectionist.runner.rebuild.compare import Differs
from projectionist.runner.rebuild.table_pairs import TablePair

pytestmark = pytest.mark.asyncio


def documents(stream: Stream, body: str, value: str, *, revision: int = 1, more: str = "") -> type:
    """A table `documents` of this body; each order placed is a row of its id and this value."""

    class Documents(
        SqlProjection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        revision=revision,
    ):
        tables = {"documents": body, **({"more": more} if more else {})}

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced, envelope: Envelope) -> None:
            await tx.execute("insert into {documents} values ($1, " + value + ")", envelope.id)

    return Documents


TYPES = {
    "json": """'{"b": 1, "a": [2.50, "\\u00e9"]}'""",
    "point": "point(1, 2)",
    "xml": "null",
    "polygon": "'((0,0),(0,3),(3,0))'",
    "json[]": """array['{"a": 1}'::json]""",
    "numeric": "1.50",
    "bytea": "'\\x00ff'",
    "tsvector": "to_tsvector('simple', 'a fat cat')",
    "float8": "'NaN'",
}


@pytest.mark.parametrize("key", ["text primary key", "text"])
@pytest.mark.parametrize("kind", TYPES)
async def test_a_sql_projection_with_columns_of_any_type_is_rebuilt(
    rebuilds: RebuildHarness, kind: str, key: str
) -> None:
    harness = rebuilds.harness
    cls = documents(harness.stream, f"id {key}, doc {kind}", TYPES[kind])
    await harness.migrate(cls)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
    await harness.settle(cls)

    rebuilt = await rebuilds.rebuild(cls)

    [view] = rebuilt.views
    assert (view.generation, view.compared.rows, view.compared.differences) == (2, 3, [])
    assert (rebuilt.events, rebuilt.views[0].compared.rows) == (3, 3)


OF_AN_EXTENSION = """
create type public.isbn;
create function isbn_in(cstring) returns isbn language internal immutable strict as 'int8in';
create function isbn_out(isbn) returns cstring language internal immutable strict as 'int8out';
create type public.isbn (input = isbn_in, output = isbn_out, like = int8);
create function isbn_lt(isbn, isbn) returns boolean language internal immutable strict as 'int8lt';
create function isbn_eq(isbn, isbn) returns boolean language internal immutable strict as 'int8eq';
create function isbn_gt(isbn, isbn) returns boolean language internal immutable strict as 'int8gt';
create function isbn_cmp(isbn, isbn) returns int language internal immutable strict as 'btint8cmp';
create operator < (leftarg = isbn, rightarg = isbn, function = isbn_lt, commutator = >);
create operator = (leftarg = isbn, rightarg = isbn, function = isbn_eq, commutator = =, merges);
create operator > (leftarg = isbn, rightarg = isbn, function = isbn_gt, commutator = <);
create operator class isbn_ops default for type isbn using btree as
    operator 1 <, operator 3 =, operator 5 >, function 1 isbn_cmp(isbn, isbn);
"""
"""A type as `isn`, `ltree` and `citext` bring them: its operators lie in `public`, and compare by its own rules."""


async def test_a_key_of_an_extensions_type_is_compared_by_the_types_own_operator(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    await harness.pool.execute(OF_AN_EXTENSION)

    class Books(
        SqlProjection, stream=harness.stream.name, subjects=harness.stream.subject("order", "{aggregate}")
    ):
        tables = {"books": "number isbn primary key, n bigint not null"}

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced) -> None:
            await tx.execute("insert into {books} values ($1::text::isbn, $2)", event.customer, event.cents)

    await harness.migrate(Books)
    for n in range(2):
        await harness.publish(OrderPlaced(f"{n}", n), f"o{n}", 1)
    await harness.settle(Books)
    await harness.pool.execute("update projectionist.books__g1 set n = 9 where n = 1")
    with pytest.raises(Differs, match=r"books \[6b86b273\]: n"):
        await rebuilds.rebuild(Books)


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("id text primary key, doc json", {"e1"}),
        ("id text, doc json, primary key (id)", {"e1"}),
        ("id text, doc json", {"(e1, null)", '(e1, {"n": 1})'}),
    ],
)
async def test_a_row_that_differs_in_any_type_stops_the_swap_and_is_named(
    rebuilds: RebuildHarness, body: str, keys: set[str]
) -> None:
    harness = rebuilds.harness
    cls = documents(harness.stream, body, "'null'::json")
    await harness.migrate(cls)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1, id=f"e{n}")
    await harness.settle(cls)
    await harness.pool.execute("""update projectionist.documents__g1 set doc = '{"n": 1}' where id = 'e1'""")

    with pytest.raises(Differs) as told:
        await rebuilds.rebuild(cls)

    assert {one.key for one in told.value.compared.differences} == keys
    assert (await rebuilds.rebuild(cls, accept_differences=True)).views[0].generation == 2


@pytest.mark.parametrize("key", ["text primary key", "text"])
async def test_rows_of_own_sql_that_move_while_they_are_compared_are_no_difference(
    rebuilds: RebuildHarness, key: str
) -> None:
    harness = rebuilds.harness

    class Flags(
        SqlProjection, stream=harness.stream.name, subjects=harness.stream.subject("order", "{aggregate}")
    ):
        tables = {"flags": f"id {key}, doc json"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted, envelope: Envelope) -> None:
            await tx.execute("delete from {flags}")
            await tx.execute("insert into {flags} values ('one', to_json($1::text))", event.text)

    await harness.migrate(Flags)
    await harness.publish(OrderNoted("a"), "o1", 1)
    async with harness.running(Flags):
        await rebuilds.settled(Flags)
        async with rebuilds.frozen(Flags, "rebuild.compared") as building:
            for version in range(2, 6):
                await harness.publish(OrderNoted("ab"[version % 2]), "o1", version)
            await rebuilds.settled(Flags)
        assert (await building).views[0].compared.differences == []
    assert await harness.rows("flags") == [("one", '"b"')]


async def test_a_raised_revision_with_other_columns_and_tables_is_built(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    first = documents(harness.stream, "id text primary key, doc json", "'1'::json")
    await harness.migrate(first)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(first)
    raised = documents(
        *(harness.stream, "id text primary key, doc json, other int default 7", "'1'::json"),
        revision=2,
        more="id int",
    )

    rebuilt = await rebuilds.rebuild(raised)

    assert rebuilt.views[0].compared.left_out == ["all rows of more: live has no such table", "other"]
    assert rebuilt.views[0].compared.differences == []


async def test_a_row_that_moves_after_all_were_compared_is_compared_at_the_swap(
    rebuilds: RebuildHarness,
) -> None:
    """The live row is edited by hand after the look, and its aggregate moves on."""
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with rebuilds.frozen(s.Orders, "rebuild.compared") as building:
            await harness.pool.execute("update projectionist.orders__g1 set cents = 99")
            await harness.publish(OrderNoted("on"), "o1", 2)
            await rebuilds.settled(s.Orders)
        with pytest.raises(Differs) as told:
            await building
    assert [(one.key, one.live) for one in told.value.compared.differences] == [("o1", {"cents": 99})]


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize(
    "key", ["id text primary key", "id text, part int default 1, primary key (id, part)"]
)
async def test_under_the_barrier_rows_are_found_by_key_whatever_the_size(
    rebuilds: RebuildHarness, key: str
) -> None:
    """Told by the plan, not by the time it takes: neither table is read from one end to the other."""
    harness = rebuilds.harness
    cls = documents(harness.stream, f"{key}, doc json", "1, '1'" if "part" in key else "'1'")
    await harness.migrate(cls)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(cls)
    asked: list[TablePair] = []
    whole = TablePair.differing

    def differing(self: TablePair, *, chosen: bool = False) -> str:
        asked.append(self)
        return whole(self, chosen=chosen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TablePair, "differing", differing)
        await rebuilds.rebuild(cls)
    async with harness.pool.acquire() as connection:
        plans = await explained(connection, asked[0], ["x"], ["1"] if "part" in key else None)
    scans = [
        one for one in nodes(plans[0]["Plan"]) if one.get("Relation Name", "").startswith("documents__g")
    ]
    assert len(scans) == 2
    assert {one["Node Type"] for one in scans} <= {"Index Scan", "Bitmap Heap Scan", "Index Only Scan"}


async def explained(connection: Connection, sides: TablePair, *columns: list[str] | None) -> Any:
    """The plan of a comparison by key, over two tables of 50,000 rows."""
    for table in sides.tables:
        await connection.execute(
            f"insert into {table} select 'r' || g from generate_series(1, 50000) g on conflict do nothing"
            if len(sides.key) == 1
            else f"insert into {table} (id, part) select 'r' || g, 1 from generate_series(1, 50000) g"
        )
        await connection.execute(f"analyze {table}")
    given = [one for one in columns if one is not None]
    return json.loads(
        await connection.fetchval(f"explain (format json) {sides.differing(chosen=True)}", *given)
    )


NAMED = "id text, doc json, constraint documents_id unique (id)"


async def test_a_body_that_can_be_made_only_once_is_refused_before_its_model_is_live(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    with pytest.raises(OnlyOnce, match="documents_id") as refused:
        await harness.migrate(documents(harness.stream, NAMED, "'1'"))
    assert "leave the name" in refused.value.remedy
    assert await inspection.count(harness, "consumers") == 0

    cls = documents(harness.stream, "id text, doc json, unique (id)", "'1'")
    await harness.migrate(cls)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(cls)
    assert (await rebuilds.rebuild(cls)).views[0].generation == 2
    assert (await rebuilds.rebuild(cls)).views[0].generation == 3


async def test_a_raised_revision_that_can_be_made_only_once_is_refused_before_it_is_built(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    first = documents(harness.stream, "id text, doc json", "'1'")
    await harness.migrate(first)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(first)

    with pytest.raises(OnlyOnce, match="documents_id"):
        await rebuilds.rebuild(documents(harness.stream, NAMED, "'1'", revision=2))

    assert await rebuilds.generation(first) == 1
    rebuilt = await rebuilds.rebuild(documents(harness.stream, "id text, doc json", "'1'", revision=2))
    assert rebuilt.views[0].generation == 3
