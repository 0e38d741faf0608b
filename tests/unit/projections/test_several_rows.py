"""One event and several rows: what may be declared, what an event's rows are, and how they are folded as one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, repeat
from types import new_class
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.servers import Stream
from tests.support.several_rows import (
    Cancelled,
    Closed,
    LineAdded,
    Picked,
    Placed,
    Renamed,
    StockMoved,
    several,
)
from tests.unit.projections.folding import folded, step_of, steps_of

from projectionist.core.errors import DefinitionError
from projectionist.outbox.intents.keys import intent_key
from projectionist.projections import Event, Projection, Reactor, absent, definition, on
from projectionist.projections.folding.fold import fold
from projectionist.projections.tables.table_key import MOST_AT_ONCE, MOST_ROWS, Keys, Prefix
from projectionist.runner.batch.wanted_rows import TooManyRows, bounded, wanted_rows
from projectionist.runner.history.spill_files import Buckets

SHOP = several(Stream("SHOP"))
POLICY: dict[str, Any] = {"stream": "SHOP", "subjects": "shop.order.{aggregate}", "table": "t"}
ONE, TWO = ("order_id",), ("order_id", "line_no")


def declare(key: tuple[str, ...], mark: Any) -> type:
    """A class with these columns as its key."""

    def handle(self: object, event: Event) -> None:
        """Do nothing."""

    def body(namespace: dict[str, Any]) -> None:
        kinds = {"order_id": str, "line_no": int, "part": int}
        namespace["__annotations__"] = {name: kinds[name] for name in key}
        namespace.update({"handle": mark(handle), "__module__": __name__})

    return new_class("Declared", (Projection,), {"key": key, **POLICY}, body)


def as_set(event: Event) -> set[int]:
    """Keys without an order."""
    return {1}


def nothing() -> list[int]:
    """Keys of no event."""
    return []


def as_text(event: Event) -> str:
    """A text, which is a row of characters."""
    return "ab"


@pytest.mark.parametrize(
    ("key", "mark", "complaint"),
    [
        (TWO, lambda: on(Placed, each=lambda e: [], key="skus"), "leave key= out"),  # type: ignore[call-overload]
        (TWO, lambda: on(Placed, each=lambda e: [], rows="order_id"), "leave rows= out"),  # type: ignore[call-overload]
        (TWO, lambda: on(Placed, shared=True), "shared=True"),  # type: ignore[call-overload]
        (TWO, lambda: on(Placed, each=as_set), "has no order"),
        (TWO, lambda: on(Placed, each=as_text), "returns <class 'str'>"),
        (TWO, lambda: on(Placed, each=nothing), "each= is a function of the event"),  # type: ignore[arg-type]
        (TWO, lambda: on(Placed, each=7), "each= is a function of the event"),  # type: ignore[call-overload]
        (TWO, lambda: on(Placed, rows=()), "rows=()"),
        (TWO, lambda: on(Cancelled, rows="order_id", when=absent), "when=absent"),
        (TWO, lambda: on(Cancelled, rows="line_no"), "is no beginning of the key order_id, line_no"),
        (TWO, lambda: on(Cancelled, rows=TWO), "is the whole key"),
        (ONE, lambda: on(Cancelled, rows="order_id"), "is the whole key"),
        (ONE, lambda: on(Placed, each=lambda e: []), "an aggregate has one row"),
        (TWO, lambda: on(Cancelled, rows="order_id", key="nothing"), "has no field 'nothing'"),
        (TWO, lambda: on(Cancelled, rows="order_id", key=("skus", "skus")), "is no key of order_id"),
        (("order_id", "line_no", "part"), lambda: on(Cancelled, rows=TWO), "has no field 'line_no'"),
    ],
)
def test_what_can_never_name_rows_is_refused(
    key: tuple[str, ...], mark: Callable[[], Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        declare(key, mark())
    assert complaint in str(refused.value)


@pytest.mark.parametrize("keyword", [{"each": lambda event: []}, {"rows": "order_id"}])
def test_what_has_no_rows_cannot_have_several(keyword: dict[str, Any]) -> None:
    def handle(self: object, event: Placed) -> None:
        """Do nothing."""

    with pytest.raises(DefinitionError, match="there is no row for it"):
        new_class(
            "Declared",
            (Reactor,),
            {"stream": "SHOP", "subjects": "shop.order.{aggregate}"},
            lambda names: names.update({"handle": on(Placed, **keyword)(handle)}),
        )


@pytest.mark.parametrize(
    ("each", "shared", "keys"),
    [
        (lambda e: [2, 1], False, (("o-1", 2), ("o-1", 1))),
        (lambda e: [("o-1", 2), 1, (3,)], False, (("o-1", 2), ("o-1", 1), ("o-1", 3))),
        (lambda e: (("b", 2), ["a", 1]), True, (("b", 2), ("a", 1))),
        (lambda e, envelope: [len(envelope.id)], False, (("o-1", 3),)),
        (lambda e: [], False, ()),
    ],
)
def test_keys_are_whole_or_begin_behind_the_aggregates_id(each: Any, shared: bool, keys: Any) -> None:
    cls = declare(TWO, on(Placed, each=each, shared=shared))

    assert step_of(cls, 0, "o-1", Placed((), ())).key == Keys(keys)


@pytest.mark.parametrize(
    ("each", "shared", "wrong"),
    [
        (lambda e: [("o-2", 1)], False, "a row of another"),
        (lambda e: [("o-1", 1, 1)], False, "a key of 3 values"),
        (lambda e: [1], True, "takes 2 values"),
        (lambda e: [1, 2, ("o-1", 1)], False, "number 3 is number 1 again"),
        (lambda e: iter(int, 1), False, "more than 10,000 rows"),
        (lambda e: range(10**9), False, "more than 10,000 rows"),
        (lambda e: ["x"], False, "'line_no'"),
        (lambda e: {1, 2}, False, "returned a set"),
        (lambda e: "12", False, "returned a str"),
        (lambda e: None, False, "returned a NoneType"),
        (lambda e: (1 / 0 for _ in "x"), False, "each= raised ZeroDivisionError"),
    ],
)
def test_an_event_whose_keys_are_none_fails(each: Any, shared: bool, wrong: str) -> None:
    cls = declare(TWO, on(Placed, each=each, shared=shared))

    (failure,) = folded(cls, ("o-1", Placed((), ()))).failures.values()
    assert wrong in failure.message


def test_a_prefix_is_the_aggregates_id_or_what_key_takes_from_the_event() -> None:
    assert step_of(SHOP.Lines, 0, "o-1", Cancelled()).key == Prefix(("o-1",))
    assert step_of(SHOP.Stock, 0, "o-1", Closed("main")).key == Prefix(("main",))
    three = declare(("order_id", "line_no", "part"), on(LineAdded, rows=TWO))
    assert step_of(three, 0, "o-1", LineAdded(4, "x")).key == Prefix(("o-1", 4))


PLACED = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=3).map(
    lambda lines: Placed(tuple(sku for sku, _ in lines), tuple(pieces for _, pieces in lines))
)
BAD = st.just(Placed(("a", "b"), (1, -1)))
EVENTS = st.one_of(
    PLACED,
    BAD,
    st.builds(LineAdded, st.integers(0, 4), st.sampled_from("ab")),
    st.builds(Renamed, st.sampled_from("ab"), st.sampled_from("bc")),
    st.just(Cancelled()),
)
HISTORY = st.lists(st.tuples(st.sampled_from(["o-1", "o-2"]), EVENTS), max_size=12)


def plainly(history: list[tuple[str, Event]]) -> tuple[dict[Any, Any], list[Any]]:
    """The rows and intents of this history, by no code of the product; what fails stops its order."""
    rows: dict[Any, Any] = {}
    intents: list[Any] = []
    stopped = set()
    for at, (order, event) in enumerate(history):
        if order in stopped:
            continue
        lines = sorted(key for key in rows if key[0] == order)
        if isinstance(event, Placed):
            if any(pieces < 0 for pieces in event.pieces):
                stopped.add(order)
                continue
            for no, (sku, pieces) in enumerate(zip(event.skus, event.pieces, strict=True)):
                rows[order, no] = (order, no, sku, rows.get((order, no), (0, 0, 0, 0))[3] + pieces)
                intents += [(at, f'["{order}",{no}]', Picked(sku))] if pieces else []
        elif isinstance(event, LineAdded):
            rows.setdefault((order, event.line_no), (order, event.line_no, event.sku, 0))
        elif isinstance(event, Renamed):
            for key in lines:
                _, no, sku, pieces = rows[key]
                rows[key] = (order, no, event.new if sku == event.old else sku, pieces)
        else:
            for key in lines:
                intents.append((at, f'["{order}",{key[1]}]', Picked(f"no {rows.pop(key)[2]}")))
    return rows, intents


@settings(max_examples=200)
@given(history=HISTORY)
def test_rows_made_and_deleted_in_one_batch_equal_single_batches(
    history: list[tuple[str, Event]],
) -> None:
    steps = steps_of(SHOP.Lines, history)
    whole = fold(definition(SHOP.Lines), steps, {})
    rows: dict[Any, Any] = {}
    stopped: dict[str | int, int] = {}
    intents = []
    for step in steps:
        if step.aggregate in stopped:
            continue
        one = fold(definition(SHOP.Lines), [step], dict(rows))
        rows = {key: row for key, row in {**rows, **one.rows}.items() if row is not None}
        stopped |= {unit: failure.step.index for unit, failure in one.failures.items()}
        intents += one.intents

    assert {key: row for key, row in whole.rows.items() if row is not None} == rows
    assert [(at, one.scope, one.intent) for at, one in whole.intents] == [
        (at, one.scope, one.intent) for at, one in intents
    ]
    assert (rows, [(at, one.scope, one.intent) for at, one in whole.intents]) == plainly(history)


def test_one_bad_line_undoes_the_others_and_is_named() -> None:
    found = folded(
        SHOP.Lines,
        ("o-1", Placed(("a", "b", "c"), (1, 2, -3))),
        ("o-2", Placed(("d",), (1,))),
        loaded={("o-1", 0): ("o-1", 0, "x", 7)},
    )

    assert found.rows == {("o-2", 0): ("o-2", 0, "d", 1)}
    assert [one.intent for _, one in found.intents] == [Picked("d")]
    (failure,) = found.failures.values()
    assert (failure.error_class, failure.message) == ("ValueError", 'row ["o-1",2]: fewer than none')


def test_an_event_without_a_row_is_applied_without_effect() -> None:
    loaded = {("o-1", 0): ("o-1", 0, "x", 7)}
    events: list[tuple[str, Event]] = [
        ("o-1", Placed((), ())),
        ("o-2", Cancelled()),
        ("o-1", Renamed("y", "z")),
        ("o-1", Renamed("x", "z")),
    ]

    assert [one.index for one in folded(SHOP.Lines, *events, loaded=loaded).idle] == [0, 1, 2]


def test_an_event_finds_no_more_rows_than_the_most() -> None:
    loaded = {("o-1", no): ("o-1", no, "x", 1) for no in range(MOST_ROWS + 1)}

    (failure,) = folded(SHOP.Lines, ("o-1", Cancelled()), loaded=loaded).failures.values()
    assert failure.message == "rows= finds more than 10,000 rows, the most of one event"
    del loaded["o-1", 0]
    found = folded(SHOP.Lines, ("o-1", Cancelled()), loaded=loaded)
    assert (len(found.rows), len(found.intents), found.failures) == (MOST_ROWS, MOST_ROWS, {})


def test_two_receipts_of_one_event_have_two_keys() -> None:
    found = folded(SHOP.Lines, ("o-1", Placed(("a", "a"), (1, 1))))

    scopes = [one.scope for _, one in found.intents]
    assert scopes == ['["o-1",0]', '["o-1",1]']
    keys = [intent_key("Lines", "/shop", "e-1", "Picked", scope) for scope in (*scopes, None)]
    assert len(set(keys)) == 3
    assert keys[2] == intent_key("Lines", "/shop", "e-1", "Picked")


def test_a_batch_asks_for_what_is_not_below_a_prefix_that_it_asks_for() -> None:
    wanted = wanted_rows(
        steps_of(
            SHOP.Lines, [("o-1", Placed(("a",), (1,))), ("o-2", LineAdded(3, "b")), ("o-1", Cancelled())]
        )
    )

    assert (wanted.keys, wanted.prefixes) == ({("o-2", 3)}, {("o-1",)})


@pytest.mark.parametrize(
    ("many", "lines", "halved"), [(1, MOST_ROWS + 1, False), (2, MOST_ROWS + 1, True), (5, MOST_ROWS, False)]
)
def test_a_batch_with_too_many_rows_is_tried_in_parts_and_one_event_is_not(
    many: int, lines: int, halved: bool
) -> None:
    wanted = wanted_rows(steps_of(SHOP.Lines, [("o-1", Cancelled())] * many))
    loaded = [("o-1", no) for no in range(lines)]

    assert _refused(wanted, loaded, many) is halved
    assert not _refused(wanted, (), many)


def test_keys_are_counted_before_anything_is_read() -> None:
    order = Placed(("a",) * MOST_ROWS, (1,) * MOST_ROWS)
    many = MOST_AT_ONCE // MOST_ROWS
    fits, over = (
        wanted_rows(steps_of(SHOP.Lines, [(f"o-{n}", order) for n in range(count)]))
        for count in (many, many + 1)
    )

    assert not _refused(fits, (), many)
    assert _refused(over, (), many + 1)


def test_no_more_keys_are_made_than_one_event_beyond_what_fits() -> None:
    order, many = Placed(("a",) * MOST_ROWS, (1,) * MOST_ROWS), MOST_AT_ONCE // MOST_ROWS
    (step,) = steps_of(SHOP.Lines, [("o-1", order)])
    endless = repeat(step)

    assert len(bounded(islice(endless, many))) == many
    with pytest.raises(TooManyRows):
        bounded(endless)


def _refused(wanted: Any, loaded: Any, events: int) -> bool:
    try:
        wanted.check(loaded, events)
    except TooManyRows:
        return True
    return False


def test_rows_that_one_event_reaches_by_a_prefix_are_in_one_bucket() -> None:
    own, shared = Buckets(definition(SHOP.Lines), 7), Buckets(definition(SHOP.Stock), 7)
    order = step_of(SHOP.Lines, 0, "o-1", Placed(("a",) * 20, (1,) * 20)).key
    moved = step_of(SHOP.Stock, 0, "o-1", StockMoved("a", "w-1", "w-2", 1)).key

    assert own.of_event(order) == own.of_event(Prefix(("o-1",))) == (own.of(("o-1", 99)),)
    assert [shared.of((one, "a")) for one in ("w-1", "w-2")] == [
        shared.of_event(Prefix((one,)))[0] for one in ("w-1", "w-2")
    ]
    places = shared.of_event(moved)
    assert sorted(one for place in places for one in shared.within(moved, place).listed) == sorted(
        moved.listed
    )
