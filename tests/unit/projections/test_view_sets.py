"""View sets as their classes declare them."""

from __future__ import annotations

import re
from types import new_class
from typing import Any

import pytest

from projectionist.api import Event, Intent, Projection, ProjectionistError, Reactor, SqlProjection, Tx, on
from projectionist.core.errors import DefinitionError
from projectionist.projections.compiled.definition import (
    Kind,
    check_distinct,
    consumer_definition,
    definition,
)
from projectionist.projections.compiled.view_set import SetDefinition
from projectionist.projections.errors import EventError
from projectionist.projections.view_sets import ViewSet

READS: dict[str, Any] = {"stream": "SHOP", "subjects": "shop.order.{aggregate}"}


class Placed(Event, type="sets.placed"):
    lines: int


class PlacedAgain(Event, type="sets.placed"):
    lines: int


class Paid(Event, type="sets.paid"):
    cents: int


class Receipt(Intent, provider="receipts", destination="to", on_dead="pass"):
    to: str


class Summary(Projection, table="summary", key="order_id", revision=3, formerly=("Summaries",)):
    order_id: str
    lines: int = 0

    @on(Placed)
    def placed(self, event: Placed) -> None:
        self.lines = event.lines


class Lines(Projection, table="lines", key=("order_id", "line")):
    order_id: str
    line: int

    @on(Placed, each=lambda event: [(event.lines, 1)])
    def placed(self, event: Placed) -> None: ...


class Receipts(Reactor, name="Mails"):
    @on(Paid)
    def paid(self, event: Paid) -> Receipt:
        return Receipt(to=str(event.cents))


class Alone(Projection, table="alone", key="order_id", **READS):
    order_id: str

    @on(Placed)
    def placed(self, event: Placed) -> None: ...


class Other(Projection, table="other", key="order_id"):
    order_id: str

    @on(PlacedAgain)
    def placed(self, event: PlacedAgain) -> None: ...


class OwnSql(SqlProjection):
    tables = {"own": "id text primary key"}

    @on(Placed)
    async def placed(self, tx: Tx, event: Placed) -> None: ...


class Base(Projection):
    pass


def made(*views: Any, **keywords: Any) -> SetDefinition:
    found = consumer_definition(new_class("Shop", (ViewSet,), {**READS, "views": list(views), **keywords}))
    assert isinstance(found, SetDefinition)
    return found


class Shop(ViewSet, views=[Summary, Lines, Receipts], sequence="monotonic", effects="beginning", **READS):
    """Orders."""


def test_a_set_binds_its_views_to_what_it_reads() -> None:
    found = consumer_definition(Shop)
    assert (found.name, found.kind) == ("Shop", Kind.SET)
    assert set(found.known) == {"sets.placed", "sets.paid"}
    assert [view.name for view in found.views] == ["Summary", "Lines", "Mails"]
    assert [view.full_name for view in found.views] == ["Shop.Summary", "Shop.Lines", "Shop.Mails"]
    for view in found.views:
        assert (view.consumer, view.stream, view.sequence, view.effects) == (
            "Shop",
            "SHOP",
            "monotonic",
            "beginning",
        )
        assert (view.subjects.texts, view.views, view.is_member) == (found.subjects.texts, (view,), True)
    summary, _, receipts = found.views
    assert (summary.revision, summary.formerly) == (3, ("Summaries",))
    assert found.intents == receipts.intents == (Receipt,)
    assert (found.lacking([]), dict(receipts.slots)) == (["receipts"], {"Receipt": ()})


def test_an_event_is_decoded_once_for_all_views() -> None:
    found = consumer_definition(Shop)
    assert found.decode("sets.paid", 1, b'{"cents": 7}') == Paid(cents=7)
    with pytest.raises(EventError, match=r"Shop handles no 'sets.shipped'"):
        found.decode("sets.shipped", 1, b"{}")


def test_a_consumer_by_itself_is_the_only_view_of_its_own() -> None:
    found = definition(Alone)
    assert found.views == (found,)
    assert (found.consumer, found.full_name, found.is_member) == ("Alone", "Alone", False)


def test_the_order_of_views_means_nothing_but_the_order_of_handlers() -> None:
    one, other = made(Summary, Lines), made(Lines, Summary)
    assert one.code == other.code
    assert {v.name: v.shape for v in one.views} == {v.name: v.shape for v in other.views}
    assert one.code != made(Summary).code


def test_a_view_may_be_bound_to_sets_that_read_in_different_order() -> None:
    made(Summary, sequence="unordered")
    ordered = made(Summary)
    (view,) = ordered.views
    assert view.handlers["sets.placed"].ordered


@pytest.mark.parametrize(
    ("views", "complaint"),
    [
        ([], "views=.*. List the classes"),
        ([Alone], "Alone has a stream= of its own.* Take stream="),
        ([Base], "Base is no view. List classes"),
        ([int], "int is no view"),
        (["Summary"], "'Summary' is no view"),
        ([Shop], "Shop has a stream= of its own"),
        ([OwnSql], "OwnSql is a SqlProjection.* Give it a stream= of its own"),
        ([Summary, Summary], "lists Summary twice"),
        ([Summary, Other], "events of type 'sets.placed' are Placed in Summary and PlacedAgain in Other"),
    ],
)
def test_what_cannot_be_a_view_of_a_set_is_refused(views: list[Any], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        made(*views)


def test_a_set_whose_views_are_no_list_is_refused() -> None:
    for wrong in (Summary, "Summary", None):
        with pytest.raises(DefinitionError, match=r"Shop: views=.*List the classes of its views"):
            made(views=wrong)


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"name": "Mails"}, "Receipts has the name 'Mails' of Mails"),
        ({"name": "a.b"}, "cannot be a consumer's name"),
        ({"formerly": "Old"}, "formerly is a text"),
        ({"stream": None}, r"Shop lacks stream=. Write class Shop\(ViewSet, stream="),
        ({"subjects": None}, "Shop lacks subjects="),
        ({"stream": "a.b"}, "is no stream's name"),
        ({"sequence": "sorted"}, "sequence='sorted'"),
        ({"baseline": 0}, "baseline=0"),
    ],
)
def test_a_keyword_of_a_set_that_cannot_work_is_refused(keywords: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        made(Summary, Receipts, **keywords)


def test_two_views_of_one_table_are_refused() -> None:
    class Same(Projection, table="summary", key="order_id"):
        order_id: str

        @on(Placed)
        def placed(self, event: Placed) -> None: ...

    with pytest.raises(DefinitionError, match=r"Same has the table 'public.summary' of Summary"):
        made(Summary, Same)


def test_a_view_says_nothing_of_how_it_is_read() -> None:
    with pytest.raises(DefinitionError, match="Made has sequence=, effects= without stream="):

        class Made(Projection, table="made", key="order_id", sequence="unordered", effects="now"):
            order_id: str

    with pytest.raises(DefinitionError, match="Mails has baseline= without stream="):

        class Mails(Reactor, baseline="any"): ...


def test_a_view_alone_is_no_consumer_and_the_error_says_what_to_write() -> None:
    complaint = r"'Summary' has no stream=.*Write class Summary\(…, stream=.*ViewSet.*views=\[Summary, …\]"
    with pytest.raises(ProjectionistError, match=complaint):
        consumer_definition(Summary)
    with pytest.raises(
        DefinitionError, match=r"'Shop' is a set of views. Pass one of them: Summary, Lines, Mails"
    ):
        definition(Shop)


def test_a_view_of_two_sets_is_refused() -> None:
    check_distinct([consumer_definition(Shop), definition(Alone)])
    with pytest.raises(DefinitionError, match=re.escape("'Summary' is a view of 'Shop' and of 'Second'")):
        check_distinct([consumer_definition(Shop), made(Summary, name="Second")])
    with pytest.raises(DefinitionError, match="two classes have the name 'Alone'"):
        check_distinct([definition(Alone), made(Summary, name="Alone")])
