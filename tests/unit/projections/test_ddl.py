"""DDL and statements of read models, as text. Integration tests run them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from tests.unit.projections.shop import OrderPaid, OrderSummary

from projectionist.projections import Projection, definition, on
from projectionist.projections.tables import ddl
from projectionist.projections.tables.columns import columns_of
from projectionist.projections.tables.ddl import ColumnSpec, NeedsRebuild
from projectionist.projections.tables.json_columns import narrowed, outlined
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.sql_tables import resolved
from projectionist.projections.tables.table import Table


class Odd(Projection, stream="S", subjects="s.{aggregate}", table='some"where.odd', key="id"):
    id: int
    text: str = "it's"
    number: Decimal | None = None
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    day: date = date(2026, 1, 2)
    raw: bytes = b"\x00'"
    unique: UUID = UUID(int=7)
    share: float = 1e300
    yes: bool = True
    document: dict[str, Any] = {}

    @on(OrderPaid, key=lambda _: 1)
    def paid(self, event: OrderPaid) -> None: ...


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


SUMMARY = table_of(OrderSummary)


def test_a_generation_is_a_table_of_ours_with_every_default() -> None:
    assert ddl.create_table(SUMMARY, "projectionist", 3) == (
        'create table "projectionist"."order_summary__g3" (\n'
        '    "order_id" text collate "C" not null,\n'
        "    \"email\" text not null default ''::text,\n"
        "    \"total_cents\" bigint not null default '0'::bigint,\n"
        "    \"status\" text not null default 'new'::text,\n"
        "    \"parcels\" jsonb not null default '[]'::jsonb,\n"
        '    constraint "order_summary__g3_pkey" primary key ("order_id")\n'
        ")"
    )
    assert ddl.create_indexes(SUMMARY, "projectionist", 3) == [
        'create index "order_summary__g3_status" on "projectionist"."order_summary__g3" ("status")',
        'comment on index "projectionist"."order_summary__g3_status" is \'projectionist: ("status")\'',
    ]


def test_every_default_is_a_literal_of_its_type_and_every_name_is_quoted() -> None:
    created = ddl.create_table(table_of(Odd), "pro", 1)
    for line in (
        "\"text\" text not null default 'it''s'::text",
        '"number" numeric default null',
        "\"at\" timestamptz not null default '2026-01-01T00:00:00+00:00'::timestamptz",
        "\"day\" date not null default '2026-01-02'::date",
        "\"raw\" bytea not null default '\\x0027'::bytea",
        "\"share\" double precision not null default '1e+300'::double precision",
        "\"yes\" boolean not null default 'true'::boolean",
    ):
        assert line in created
    assert 'view "some""where"."odd"' in ddl.create_view(table_of(Odd), "pro", 1)


@pytest.mark.parametrize(
    ("live", "order"),
    [
        ((), ("order_id", "email", "total_cents", "status", "parcels")),
        (("status", "order_id"), ("status", "order_id", "email", "total_cents", "parcels")),
        (("gone", "email"), ("email", "order_id", "total_cents", "status", "parcels")),
    ],
)
def test_a_view_keeps_the_order_it_has_and_appends_what_is_new(
    live: Sequence[str], order: Sequence[str]
) -> None:
    columns = ", ".join(f'"{name}"' for name in order)
    assert ddl.create_view(SUMMARY, "pro", 2, live) == (
        'create or replace view "public"."order_summary" as\n'
        f'select {columns} from "pro"."order_summary__g2", (select) as read_only'
    )


def test_nothing_changed_is_nothing_to_do_in_any_order_of_fields() -> None:
    specs = ddl.specs(SUMMARY)
    assert ddl.evolve(SUMMARY, "pro", 1, specs) == []
    assert ddl.evolve(SUMMARY, "pro", 1, specs[::-1]) == []


def test_a_field_added_with_its_default_becomes_a_column() -> None:
    assert ddl.evolve(SUMMARY, "pro", 4, [spec for spec in ddl.specs(SUMMARY) if spec.name != "status"]) == [
        'alter table "pro"."order_summary__g4" add column "status" text not null default \'new\'::text'
    ]


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (ColumnSpec("gone", "text", False, False, "''::text"), "column 'gone' is gone"),
        (ColumnSpec("status", "bigint", False, False, ""), "column 'status' was bigint and is text"),
        (ColumnSpec("status", "text", True, False, "'new'::text"), "column 'status' may no longer be null"),
        (ColumnSpec("status", "text", False, False, "'old'::text"), "column 'status' has another default"),
        (ColumnSpec("status", "text", False, True, ""), "the key is another one: 'status' was it"),
    ],
)
def test_every_other_change_needs_a_rebuild_and_says_why(before: ColumnSpec, reason: str) -> None:
    old = (*(spec for spec in ddl.specs(SUMMARY) if spec.name != before.name), before)
    assert ddl.evolve(SUMMARY, "pro", 1, old) == NeedsRebuild((reason,))


def test_a_column_that_may_now_be_null_needs_a_rebuild_too() -> None:
    before = tuple(msgspec.structs.replace(spec, nullable=False) for spec in ddl.specs(table_of(Odd)))
    assert ddl.evolve(table_of(Odd), "pro", 1, before) == NeedsRebuild(("column 'number' may be null",))


class Old(msgspec.Struct):
    sku: str
    state: Literal["new", "sent"] = "new"
    of: list[Old] = []


class Wider(msgspec.Struct):
    sku: str | None
    state: Literal["new", "sent", "back"] = "new"
    of: list[Wider] = []
    gift: bool = False


class Demanding(msgspec.Struct):
    sku: str
    state: Literal["new", "sent"]
    of: list[Demanding] = []


class Poorer(msgspec.Struct):
    sku: str
    of: list[Poorer] = []


class Narrower(msgspec.Struct):
    sku: int
    state: Literal["new", "sent"] = "new"
    of: list[Narrower] = []


class Choosier(msgspec.Struct):
    sku: str
    state: Literal["new"] = "new"
    of: list[Choosier] = []


@pytest.mark.parametrize(
    ("new", "complaint"),
    [
        (Old, None),
        (Wider, None),
        (Poorer, "lines[].state is gone"),
        (Narrower, "lines[].sku holds another type"),
        (Choosier, "lines[].state has lost a value"),
        (Demanding, "lines[].state has no default"),
    ],
)
def test_documents_may_gain_and_never_lose(new: type, complaint: str | None) -> None:
    assert narrowed(outlined(list[Old]), outlined(list[new]), "lines") == complaint  # type: ignore[valid-type]


def test_a_field_that_documents_lose_needs_a_rebuild() -> None:
    had = msgspec.structs.replace(ddl.specs(table_of(Odd))[-1], document={"items": "StrType"})
    changed = ddl.evolve(table_of(Odd), "pro", 1, [had])
    assert changed == NeedsRebuild(("in the documents of column 'document': document holds another type",))


def test_rows_are_read_by_key_and_locked_in_the_order_of_keys() -> None:
    statements = ReadModel(SUMMARY, "pro", 2)
    assert statements.load == (
        'select "order_id", "email", "total_cents", "status", "parcels"::text from "pro"."order_summary__g2" '
        'where "order_id" = any($1::text[])'
    )
    assert statements.load_locked == f'{statements.load} order by "order_id" for update'
    assert statements.columns == ("order_id", "email", "total_cents", "status", "parcels")


def test_rows_are_written_as_an_array_a_column() -> None:
    statements = ReadModel(SUMMARY, "pro", 2)
    chosen = (
        'insert into "pro"."order_summary__g2" ("order_id", "email", "total_cents", "status", "parcels") '
        'select u."order_id", u."email", u."total_cents", u."status", u."parcels"::jsonb '
        "from unnest($1::text::text[], $2::text::text[], $3::text::bigint[], $4::text::text[], $5::text[]) "
        'as u ("order_id", "email", "total_cents", "status", "parcels")'
    )
    assert statements.upsert == (
        f'{chosen} on conflict ("order_id") do update set "email" = excluded."email", '
        '"total_cents" = excluded."total_cents", "status" = excluded."status", "parcels" = excluded."parcels"'
    )
    assert statements.insert_absent == (
        f'{chosen} order by u."order_id" collate "C" on conflict ("order_id") do nothing returning "order_id"'
    )
    assert statements.delete == 'delete from "pro"."order_summary__g2" where "order_id" = any($1::text[])'
    rows = [("a", 'of "b"', 1, "paid", '["x"]'), ("b", None, 2, "null", "[]")]
    written = ['{"a","b"}', '{"of \\"b\\"",null}', "{1,2}", '{"paid","null"}', ('["x"]', "[]")]
    assert statements.arguments(rows) == written, "the driver looks at documents alone by themselves"


def test_a_row_that_is_nothing_but_its_key_is_left_alone_when_it_is_there() -> None:
    class Seen(Projection):
        id: int

    seen = ReadModel(Table("seen", columns_of(Seen, ("id",)), ("id",)), "pro", 1)
    assert seen.upsert.endswith('on conflict ("id") do nothing')
    assert 'order by u."id" on conflict' in seen.insert_absent


def test_a_table_without_columns_of_its_own_has_no_statements() -> None:
    with pytest.raises(ValueError, match="no columns"):
        ReadModel(Table("totals"), "pro", 1)


TABLES = {
    "reporting.totals": "customer text primary key",
    "lines": "customer text references {totals} (customer)",
}


def test_sql_tables_name_each_other_by_placeholder() -> None:
    assert ddl.create_sql_table(TABLES, "lines", "pro", 2) == (
        'create table "pro"."lines__g2" (\n    customer text references "pro"."reporting.totals__g2" (customer)\n)'
    )
    assert ddl.create_sql_view("reporting.totals", "pro", 2) == (
        'create or replace view "reporting"."totals" as\n'
        'select * from "pro"."reporting.totals__g2", (select) as read_only'
    )


def test_placeholders_are_replaced_and_other_braces_stay() -> None:
    names = ddl.sql_names(TABLES, "pro", 3)
    assert resolved("select '{}'::jsonb, '{1,2}'::int[] from {lines}", names) == (
        "select '{}'::jsonb, '{1,2}'::int[] from \"pro\".\"lines__g3\""
    )
    with pytest.raises(
        LookupError, match=r"no table \{orders\} is declared \(known: \{totals\}, \{lines\}\)"
    ):
        resolved("select * from {orders}", names)
