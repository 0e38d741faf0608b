"""Lookups of other views of the set: what may be declared, and what a handler sees of rows that the batch changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import new_class
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from tests.support.servers import Stream
from tests.support.set_lookups import (
    Folded,
    Happened,
    Left,
    Letter,
    Named,
    Ordered,
    Paid,
    folded,
    looking_set,
)

from projectionist.core.errors import DefinitionError
from projectionist.ops.doctor.consumers import lookups
from projectionist.outbox.intents.intent import EmittedIntent
from projectionist.projections import (
    Envelope,
    Event,
    Projection,
    Reactor,
    SqlProjection,
    Tx,
    ViewSet,
    lookup,
    on,
)
from projectionist.projections.compiled.definition import Definition, consumer_definition
from projectionist.projections.event import type_of
from projectionist.projections.folding.looked_up import LookedUpRows
from projectionist.projections.folding.set_fold import SetFoldResult, ViewSteps, fold_views
from projectionist.projections.folding.step import Step, prepared
from projectionist.testing import check_projection, given

SHOP = looking_set(Stream("SHOP"))
VIEWS = consumer_definition(SHOP.Shop).views
Tables = list[dict[Any, tuple[Any, ...]]]

CUSTOMERS, ORDERS = ("c1", "c2"), ("o1", "o2", "o3")
PRICES = st.lists(st.integers(-1, 9), max_size=2).map(tuple)
OF_CUSTOMERS = st.one_of(st.builds(Named, st.sampled_from(["", "ann", "bob"])), st.just(Left()))
OF_ORDERS = st.one_of(
    st.builds(Ordered, st.sampled_from(CUSTOMERS), PRICES),
    st.builds(Paid, st.sampled_from(CUSTOMERS), st.integers(0, 3)),
)
HAPPENED = st.one_of(
    st.tuples(st.sampled_from(CUSTOMERS), OF_CUSTOMERS), st.tuples(st.sampled_from(ORDERS), OF_ORDERS)
)


def steps_of(view: Definition, batch: Sequence[tuple[int, str, Event]]) -> list[Step]:
    """The steps of the events that the view has a handler for."""

    def step(at: int, name: str, event: Event) -> Step:
        kind = str(type_of(type(event)))
        envelope = Envelope(source="test", id=f"{at}", type=kind, aggregate_id=name)
        return prepared(view, at, kind, event, lambda: envelope, f"order/{name}", name, at)

    return [step(*one) for one in batch if type_of(type(one[2])) in view.handlers]


def settle(
    tables: Tables, batch: Sequence[tuple[int, str, Event]], views: Sequence[Definition] = VIEWS
) -> SetFoldResult:
    """Fold a batch over tables, read as a batch reads them: what is written by key, what is looked up in one look."""
    parts = []
    for view in views:
        steps = steps_of(view, batch)
        found = LookedUpRows()
        asking = [(one.handler, one.event, one.envelope) for one in steps if one.handler.asks]
        for source, keys in found.lacking(asking).items():
            held = next(
                table
                for its, table in zip(views, tables, strict=True)
                if its.table is not None and its.source is source
            )
            found.put(source, keys, [held[key] for key in keys if key in held])
        parts.append(
            ViewSteps(definition=view, steps=steps, loaded=tables[views.index(view)], looked_up=found)
        )
    done = fold_views(parts, alone=False)
    for table, rows in zip(tables, done.rows, strict=True):
        for key, row in rows.items():
            table.pop(key, None)
            if row is not None:
                table[key] = row
    return done


def run(history: Sequence[tuple[str, Event]], sizes: Sequence[int]) -> Folded:
    """What tables hold when a history came in batches of these sizes, over and over; who has failed has stopped."""
    tables: Tables = [{} for _ in VIEWS]
    letters: list[tuple[str, int, str]] = []
    stopped: set[str] = set()
    left = [(at, name, event) for at, (name, event) in enumerate(history)]
    for turn in range(len(history)):
        size = sizes[turn % len(sizes)]
        batch, left = [one for one in left[:size] if one[1] not in stopped], left[size:]
        done = settle(tables, batch)
        stopped.update(str(unit).removeprefix("order/") for unit in done.failures)
        names = {at: name for at, name, _ in batch}
        for at, _, one in done.intents:
            assert isinstance(one, EmittedIntent)
            body = json.loads(one.body)
            letters.append((names[at], body["nth"], body["about"]))
    customers, summary, lines, _ = (sorted(table.values()) for table in tables)
    return Folded(customers, summary, lines, sorted(letters))


@drawn(
    st.lists(HAPPENED, max_size=25),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_lookups_equal_a_fold_in_plain_python_however_batches_are_cut(
    history: list[tuple[str, Event]], sizes: list[int]
) -> None:
    """With poison in the first view, in the third and in the last, and rows that are made and deleted on the way."""
    happened: list[Happened] = [(name, at, event) for at, (name, event) in enumerate(history)]
    assert run(history, sizes) == folded(happened)


def test_views_that_are_looked_up_run_first_and_all_else_is_as_listed() -> None:
    turned = looking_set(Stream("SHOP"), order=[3, 2, 0, 1])
    names = [one.name for one in consumer_definition(turned.Shop).views]
    assert names == ["Customer", "Summary", "Letters", "Lines"]
    assert [one.name for one in VIEWS[2].support] == ["Customer", "Summary"]


def test_a_row_that_is_looked_up_is_of_its_class_and_cannot_be_changed() -> None:
    source = VIEWS[1].source
    row = source.thawed(("o1", "ann", 1, 2))
    assert isinstance(row, SHOP.Summary)
    assert row == source.thawed(source.stored(row))
    with pytest.raises(AttributeError, match="immutable"):
        row.paid = 7


def test_the_code_of_a_view_is_that_of_what_it_looks_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = consumer_definition(looking_set(Stream("SHOP")).Shop).views
    customer = before[0]
    vars(customer)["_code"] = (b"another", ("blind.spot",))
    changed = [one.code for one in before]
    assert changed[1:] != [one.code for one in VIEWS][1:]
    assert "blind.spot" in before[2].unfollowed, "at second hand"


def test_the_doctor_names_the_views_that_are_looked_up() -> None:
    assert [one.found for one in lookups(VIEWS[2], None)] == ["Shop.Summary"]
    assert list(lookups(VIEWS[0], None)) == []


def test_a_view_is_tested_alone_with_the_rows_that_it_looks_up() -> None:
    shop = given(SHOP.Summary).looking_up(SHOP.Customer("c1", "ann"))
    assert shop.when("order/o1", Ordered("c1", (1, 2))).row("o1").name == "ann"
    assert shop.when("order/o2", Ordered("c2", ())).row("o2").name == "?"
    lines = given(SHOP.Lines).looking_up(SHOP.Summary("o1", "ann", 1, 7))
    assert lines.when("order/o1", Ordered("c1", (5,))).row(("o1", 0)).of == "ann/7"
    letters = given(SHOP.Letters).looking_up(SHOP.Customer("c1", "bob", 3), SHOP.Summary("o1", "ann", 0, 4))
    assert letters.when("order/o1", Paid("c1", 4)).intents == [Letter(3, "bob:ann:4")]
    with pytest.raises(DefinitionError, match=r"Summary looks up no Summary.*It looks up: Customer"):
        shop.looking_up(SHOP.Summary("o1"))


def test_a_view_is_checked_alone_with_the_rows_that_it_looks_up() -> None:
    histories = st.lists(st.builds(Ordered, st.sampled_from(CUSTOMERS), st.just((1, 2))), max_size=4)
    events = histories.map(lambda some: [("order/o1", one) for one in some])
    check_projection(SHOP.Summary, events=events, looking_up=[SHOP.Customer("c1", "ann")])


class Rates(SqlProjection):
    """A view of SQL."""

    tables = {"rates": "id text primary key"}

    @on(Named)
    async def named(self, tx: Tx, event: Named) -> None:
        """Nothing."""


class Mute(Reactor):
    """A view without rows."""

    @on(Named)
    def named(self, event: Named) -> None:
        """Nothing."""


class Shared(Projection, table="shared", key="name"):
    """A view whose rows are anybody's."""

    name: str

    @on(Named, key="name")
    def named(self, event: Named) -> None:
        """Nothing."""


class Paired(Projection, table="paired", key=("id", "name")):
    """A view with a key of two columns."""

    id: str
    name: str

    @on(Named)
    def named(self, event: Named) -> None:
        """Nothing."""


class Alone(Projection, stream="SHOP", subjects="shop.order.{id}", table="alone", key="id"):
    """A consumer by itself."""

    id: str

    @on(Named)
    def named(self, event: Named) -> None:
        """Nothing."""


def looking(found: Any, views: Sequence[Any], **policy: Any) -> type:
    """A set in which one view has this lookup."""

    class Looking(Reactor):
        """It looks something up."""

        seen = found

        @on(Named)
        def named(self, event: Named, *, seen: Mapping[str, Any]) -> None:
            """Nothing."""

    keywords = {"stream": "SHOP", "subjects": "shop.order.{id}", "views": [*views, Looking], **policy}
    return new_class("Shop", (ViewSet,), keywords)


def by_itself() -> object:
    """A consumer by itself that looks a view up."""

    class Own(Reactor, stream="SHOP", subjects="shop.order.{id}"):
        """It looks a view up, and no set lists them."""

        seen = lookup(Shared, by="name")

        @on(Named)
        def named(self, event: Named, *, seen: Mapping[str, Shared]) -> None:
            """Nothing."""

    return Own


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (
            lambda: looking(lookup(Shared, by="name"), []),
            "Looking looks up Shared, which is no view of Shop.*List both in one ViewSet",
        ),
        (
            lambda: looking(lookup(Alone, by="name"), [Shared]),
            "Looking looks up Alone, which is no view of Shop.*lookup\\(reference",
        ),
        (by_itself, "Own looks up Shared, which is no view of a set with it"),
        (
            lambda: looking(lookup(Mute, by="name"), [Mute]),
            "Looking looks up Mute, which has no rows",
        ),
        (
            lambda: looking(lookup(Shared), [Shared]),
            "Shared has no row that is of the event's aggregate alone",
        ),
        (
            lambda: looking(lookup(Paired), [Paired]),
            "Paired has no row that is of the event's aggregate alone",
        ),
        (
            lambda: looking(lookup(SHOP.Summary), SHOP.views[:2], sequence="unordered"),
            "Summary has no row that is of the event's aggregate alone",
        ),
        (
            lambda: looking(lookup(Shared, by="land"), [Shared]),
            "Named has no field 'land', which by= names",
        ),
        (lambda: looking(lookup(Paired, by="name"), [Paired]), "by='name' is no key of id, name"),
        (lambda: looking(lookup(Rates, by="name"), [Rates]), "is a SqlProjection"),
        (
            lambda: lookup(Named, by="name"),
            r"lookup\(Named\) is neither a reference nor a view",
        ),
    ],
)
def test_what_cannot_be_looked_up_is_refused_with_what_to_do(
    declare: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        declare()
