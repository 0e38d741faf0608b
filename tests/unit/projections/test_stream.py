"""A declared stream: what its line may say, where an event goes, and what several of one app may not share."""

from __future__ import annotations

from collections.abc import Callable
from types import new_class
from typing import Any

import pytest

from projectionist.core.aggregates import AggregateError
from projectionist.core.errors import DefinitionError
from projectionist.projections import Event, Projection, Reactor, SqlProjection, Stream, definition, on
from projectionist.projections.consumer_classes import ProjectionMeta
from projectionist.runner import App
from projectionist.runner.app import AppError


class Placed(Event, type="stream.placed"):
    order_id: str


class Paid(Event, type="stream.paid"):
    order_id: str


class PaidAgain(Event, type="stream.paid"):
    order_id: str


class Base(Event):
    order_id: str


def orders(name: str = "ORDERS", subject: str = "orders.order.{id}", **options: Any) -> Stream:
    return Stream(name, subject, **{"source": "shop-api", "events": [Placed, Paid]} | options)


def test_a_stream_says_what_it_takes_and_where_an_aggregate_goes() -> None:
    made = orders(subjects=["legacy.order.{id}", "legacy.import"])
    assert (made.name, made.source, made.events) == ("ORDERS", "shop-api", (Placed, Paid))
    assert made.filters == ("orders.order.*", "legacy.order.*", "legacy.import")
    assert made.subject_for("order/o-1") == "orders.order.o-1"
    assert made.subject_for("order/a.b *") == "orders.order.a%2Eb%20%2A"
    assert orders(subject="shop.{type}.{id}").subject_for("order/o-1") == "shop.order.o-1"
    assert repr(made) == "Stream('ORDERS', 'orders.order.{id}')"


@pytest.mark.parametrize(
    ("subject", "aggregate", "word"),
    [
        ("orders.order.{id}", "o-1", "does not say its type"),
        ("orders.order.{id}", "order/", "has no id"),
        ("shop.{type}.{id}", "/o-1", "has no type"),
        ("orders.order.{id}", "order/" + "o" * 500, "has 513 bytes"),
    ],
)
def test_an_aggregate_without_a_place_in_the_stream_is_refused(
    subject: str, aggregate: str, word: str
) -> None:
    with pytest.raises(AggregateError, match=word):
        orders(subject=subject).subject_for(aggregate)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "is no stream's name"),
    ({"name": "shop.orders"}, "is no stream's name"),
    ({"name": "shop orders"}, "is no stream's name"),
    ({"name": "S" * 256}, "is no stream's name"),
    ({"subject": "orders.order"}, r"does not name \{id\}"),
    ({"subject": "orders.*.{id}"}, "holds a wildcard"),
    ({"subject": "orders.{id}.>"}, "holds a wildcard"),
    ({"subject": "orders.{order}"}, "token '{order}'"),
    ({"subject": "$JS.order.{id}"}, "the server's own"),
    ({"subjects": "legacy.>"}, "is a text"),
    ({"subjects": ["legacy..x"]}, "token ''"),
    ({"subjects": ["$KV.x"]}, "the server's own"),
    ({"subjects": ["orders.>"]}, "overlap"),
    ({"subjects": ["a.x", "a.*"]}, "overlap"),
    ({"source": ""}, "source="),
    ({"source": "shop\napi"}, "source="),
    ({"events": Placed}, "Write events="),
    ({"events": [Base]}, "Base is no event with a type"),
    ({"events": ["order.placed"]}, "'order.placed' is no event with a type"),
    ({"events": [Paid, PaidAgain]}, "two classes of the type 'stream.paid'"),
    ({"replicas": 0}, "replicas=0"),
    ({"replicas": 6}, "replicas=6"),
    ({"replicas": True}, "replicas=True"),
    ({"max_age_s": 0}, "max_age_s=0"),
    ({"max_age_s": float("nan")}, "max_age_s=nan"),
    ({"max_age_s": float("inf")}, "max_age_s=inf"),
    ({"max_bytes": -1}, "max_bytes=-1"),
    ({"max_bytes": 1.5}, "max_bytes=1.5"),
    ({"duplicate_window_s": 0}, "duplicate_window_s=0"),
    ({"duplicate_window_s": 600, "max_age_s": 300}, "longer than it keeps a message"),
]


@pytest.mark.parametrize(("wrong", "word"), BAD, ids=[f"{wrong}"[:60] for wrong, _ in BAD])
def test_a_stream_that_cannot_be_is_refused_where_it_is_declared(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(DefinitionError, match=word) as refused:
        orders(**wrong)
    assert refused.value.remedy


class Shipped(Event, type="stream.shipped"):
    order_id: str


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (lambda: orders(subject="x.{id}", events=[Shipped]), "two streams are called 'ORDERS'"),
        (lambda: orders("OTHERS", "x.{id}", events=[Paid]), "'stream.paid' in ORDERS and in OTHERS"),
        (lambda: orders("OTHERS", "x.{id}", events=[PaidAgain]), "'stream.paid' in ORDERS and in OTHERS"),
        (lambda: orders("OTHERS", "orders.{type}.{id}", events=[Shipped]), "ORDERS and OTHERS overlap"),
    ],
)
def test_streams_of_one_app_share_no_name_type_or_subject(other: Callable[[], Stream], word: str) -> None:
    with pytest.raises(DefinitionError, match=word):
        App(streams=[orders(), other()])


def test_an_app_tells_the_stream_of_an_event() -> None:
    first, second = orders(), orders("PARCELS", "parcels.{type}.{id}", events=[Shipped])
    app = App(streams=[first, second])
    assert app.streams == (first, second)
    assert app.stream_of(Paid) is first
    assert app.stream_of(Shipped) is second
    with pytest.raises(AppError, match=r"no stream of this app has events of type 'stream\.paid'") as refused:
        App(streams=[second]).stream_of(Paid)
    assert "events=[Paid]" in refused.value.remedy


def test_what_is_no_stream_is_refused() -> None:
    text: Any = "ORDERS"
    with pytest.raises(DefinitionError, match="'ORDERS' is no stream"):
        App(streams=[text])


class TestStreamOfAConsumer:
    def test_each_kind_takes_the_object_in_place_of_name_and_subjects(self) -> None:
        class Summary(Projection, stream=orders(), table="stream_summary", key="order_id"):
            order_id: str

            @on(Placed)
            def placed(self, event: Placed) -> None: ...

        class Mailer(Reactor, stream=orders()):
            @on(Placed)
            def placed(self, event: Placed) -> None: ...

        class Totals(SqlProjection, stream=orders(), subjects="orders.order.{id}"):
            tables = {"stream_totals": "order_id text primary key"}

            @on(Placed)
            async def placed(self, tx: Any, event: Placed) -> None: ...

        for cls in (Summary, Mailer, Totals):
            made = definition(cls)
            assert (made.stream, made.subjects.filter) == ("ORDERS", "orders.order.*")

    def test_the_name_and_either_word_for_the_id_are_the_same_consumer(self) -> None:
        def summary(**keywords: Any) -> Any:
            def body(namespace: dict[str, Any]) -> None:
                @on(Placed)
                def placed(self: Any, event: Placed) -> None: ...

                namespace |= {"__annotations__": {"order_id": str}, "placed": placed}

            given = {"metaclass": ProjectionMeta, "table": "stream_same", "key": "order_id"} | keywords
            return new_class("Summary", (Projection,), given, body)

        declared = definition(summary(stream=orders()))
        assert definition(summary(stream="ORDERS", subjects="orders.order.{id}")).shape == declared.shape
        assert (
            definition(summary(stream="ORDERS", subjects="orders.order.{aggregate}")).shape == declared.shape
        )

    def test_subjects_that_the_stream_does_not_take_are_refused(self) -> None:
        with pytest.raises(DefinitionError, match=r"'order\.orders\.\{id\}'.*ORDERS takes orders\.order\.\*"):

            class Summary(
                Projection,
                stream=orders(),
                subjects=("orders.order.{id}", "order.orders.{id}"),
                table="stream_typo",
                key="order_id",
            ):
                order_id: str
