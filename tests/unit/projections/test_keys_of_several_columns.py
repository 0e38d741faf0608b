"""Keys of several columns: what may be declared, what an event's row is, and how a key is written and read."""

from __future__ import annotations

from datetime import date
from types import new_class
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.keyed_lines import LineAdded, LineRemoved, Moved, keyed
from tests.support.servers import Stream

from projectionist.core.errors import DefinitionError
from projectionist.projections import BadValue, Event, Projection, definition, on
from projectionist.projections.folding.step import prepared
from projectionist.projections.tables import ddl
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import TableKey
from projectionist.runner.history.unknown_rows import Lost, UnknownRows
from projectionist.testing import given as given_

SHOP = keyed(Stream("SHOP"))
POLICY: dict[str, Any] = {"stream": "SHOP", "subjects": "shop.order.{aggregate}", "table": "t"}


class Nameless(Event, type="nameless"):
    """An event without the fields of any key."""


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


def key_of(cls: type) -> TableKey:
    key = table_of(cls).key
    assert key is not None
    return key


def declare(key: Any, mark: Any, **fields: type) -> type:
    """A class with these fields as its key's."""
    names = fields or {"order_id": str, "line_no": int}

    def handle(self: object, event: Event) -> None:
        """Do nothing."""

    def body(namespace: dict[str, Any]) -> None:
        namespace.update({"__annotations__": dict(names), "handle": mark(handle), "__module__": __name__})

    return new_class("Declared", (Projection,), {"key": key, **POLICY}, body)


@pytest.mark.parametrize(
    ("key", "mark", "complaint"),
    [
        (("order_id", "nothing"), on(LineRemoved), "no field 'nothing'"),
        (("order_id", "order_id"), on(LineRemoved), "names 2 columns"),
        (("a", "b", "c", "d", "e"), on(LineRemoved), "names 5 columns"),
        (("order_id", 7), on(LineRemoved), "key=('order_id', 7)"),
        (["order_id", "line_no"], on(LineRemoved), "key=['order_id', 'line_no']"),
        (("order_id", "line_no"), on(Nameless), "Nameless has no field 'line_no'"),
        (
            ("order_id", "line_no"),
            on(LineRemoved, key="line_no"),
            "key='line_no' is no key of order_id, line_no",
        ),
        (
            ("order_id", "line_no"),
            on(LineAdded, key=("sku", "line_no", "pieces")),
            "is no key of order_id, line_no",
        ),
        (("order_id", "line_no"), on(LineAdded, key=("line_no", "sku")), "LineAdded.line_no is a int"),
        ("order_id", on(LineAdded, key=("sku", "line_no")), "is no key of order_id"),
    ],
)
def test_a_key_of_several_columns_that_can_never_fit_is_refused(key: Any, mark: Any, complaint: str) -> None:
    fields = {"order_id": str} if key == "order_id" else {}
    with pytest.raises(DefinitionError) as refused:
        declare(key, mark, **fields)
    assert complaint in str(refused.value)


def test_a_function_that_returns_several_values_for_one_column_is_refused() -> None:
    def both(event: LineAdded) -> tuple[str, int]:
        return event.sku, event.line_no

    with pytest.raises(DefinitionError, match="the key of Declared is one column, order_id"):
        declare("order_id", on(LineAdded, key=both), order_id=str)


def test_a_key_of_several_columns_is_the_primary_key_in_its_own_order() -> None:
    made = ddl.create_table(table_of(SHOP.Ledger), "pro", 2)

    assert 'primary key ("batch", "day", "sku", "warehouse")' in made
    assert '"warehouse" text collate "C" not null' in made


def test_a_key_with_other_columns_or_another_order_needs_a_rebuild() -> None:
    before = list(ddl.specs(table_of(SHOP.Lines)))

    class Turned(Projection, key=("line_no", "order_id"), **POLICY):
        order_id: str
        line_no: int
        sku: str = ""
        pieces: int = 0

        @on(LineAdded, key=("line_no", "sku"))
        def added(self, event: LineAdded) -> None:
            """Do nothing."""

    changed = ddl.evolve(table_of(Turned), "pro", 1, before)

    assert isinstance(changed, ddl.NeedsRebuild)
    assert changed.reasons[0] == "the key has other columns: 'order_id' was number 1 and is 2"
    assert definition(Turned).shape != definition(SHOP.Lines).shape


@pytest.mark.parametrize(
    ("cls", "event", "key"),
    [
        (SHOP.Lines, LineRemoved(3), ("o-1", 3)),
        (SHOP.Stock, Moved("w", "s", date(2026, 1, 1), UUID(int=1), 2), ("w", "s")),
        (SHOP.Stock, LineAdded(1, "a"), ("main", "a")),
        (
            SHOP.Ledger,
            Moved("w", "s", date(2026, 1, 1), UUID(int=1), 2),
            (UUID(int=1), date(2026, 1, 1), "s", "w"),
        ),
    ],
)
def test_the_row_of_an_event_is_named_by_its_aggregate_its_fields_or_a_function(
    cls: type, event: Event, key: Any
) -> None:
    step = prepared(definition(cls), 0, _type(event), event, _none, "order/o-1", "o-1")

    assert step.key == key


def _type(event: Event) -> str:
    return next(
        kind
        for cls in (SHOP.Lines, SHOP.Ledger)
        for kind, one in definition(cls).handlers.items()
        if one.event is type(event)
    )


def _none() -> Any:
    raise AssertionError("no handler asks for the envelope")


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (lambda event: ("o-1",), "takes 2 values"),
        (lambda event: "o-1", "takes 2 values"),
        (lambda event: ("o-1", None), "'line_no' is None"),
        (lambda event: ("o\0", 1), "'order_id' holds a NUL"),
        (lambda event: ("o-1", 2**70), "'line_no' is outside"),
    ],
)
def test_a_key_that_does_not_fit_fails_its_event_and_names_the_column(key: Any, complaint: str) -> None:
    cls = declare(("order_id", "line_no"), on(LineRemoved, key=key))
    step = prepared(definition(cls), 0, "line.removed", LineRemoved(1), _none, "order/o-1", "o-1")

    assert isinstance(step.key, BadValue)
    assert complaint in str(step.key)


def test_an_own_key_is_not_the_same_for_all_events_of_an_aggregate() -> None:
    handler = definition(SHOP.Lines).handlers["line.removed"]

    assert handler.own
    assert not handler.by_id


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)


@given(key=st.tuples(st.uuids(), st.dates(), TEXTS, st.text('a/",[]', max_size=5)))
def test_a_key_written_as_text_is_read_back_as_it_was(key: tuple[UUID, date, str, str]) -> None:
    assert key_of(SHOP.Ledger).parsed(key_of(SHOP.Ledger).shown(key)) == key


@pytest.mark.parametrize(
    "text",
    ["o-1", "[]", '["o-1"]', '["o-1",1,2]', '{"a":1}', '["o-1","x"]', '["o-1",null]', "", '["o-1",1.5]'],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        key_of(SHOP.Lines).parsed(text)


def test_a_test_without_servers_gives_and_asks_rows_by_their_key() -> None:
    told = given_(SHOP.Lines, SHOP.Lines(order_id="o-1", line_no=1, sku="a", pieces=2)).when(
        "order/o-1", LineAdded(1, "a"), LineAdded(2, "b"), LineRemoved(2)
    )

    assert told.row(("o-1", 1)).pieces == 3
    assert set(told.rows) == {("o-1", 1)}
    with pytest.raises(AssertionError, match="there is no row"):
        told.row(("o-1", 2))


def test_a_lost_event_leaves_all_rows_of_its_aggregate_undecided() -> None:
    unknown = UnknownRows(definition(SHOP.Lines))
    unknown.add(Lost("order/o-1", 2, 7, "line.added"))

    assert [unknown.at(key) is not None for key in [("o-1", 1), ("o-1", 9), ("o-2", 1)]] == [
        True,
        True,
        False,
    ]
