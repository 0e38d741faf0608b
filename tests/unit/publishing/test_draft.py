"""Events as they are published: told apart, or refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.letters import UNPRINTABLE

from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.settings import Policy
from projectionist.outbox.publishing.draft import Producer, PublishError
from projectionist.outbox.publishing.event_ids import business_key
from projectionist.projections import Event
from projectionist.projections.compiled.subject_pattern import SubjectPattern, Subjects
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery


class Placed(Event, type="order.placed", schema=2):
    order_id: str
    total: float = 0


ANYTHING = st.text(max_size=20) | st.text(alphabet="x ./é\x1f\0\n%*>", max_size=20)


class TestDrafts:
    producer = Producer(source="/shop", subject="shop.order.{aggregate}")

    def test_an_identity_of_fields_is_the_same_for_ever(self) -> None:
        one = self.producer.draft(Placed(order_id="7"), aggregate="order/7", version=1, identity="order_id")
        other = self.producer.draft(
            {"order_id": "7"}, type="order.placed", aggregate="order/8", version=2, identity=("order_id",)
        )
        assert one.headers["ce-id"] == other.headers["ce-id"] == business_key("order.placed", "7")

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ({}, "either id= or identity="),
            ({"id": "1", "identity": "order_id"}, "either id= or identity="),
            ({"identity": "nothing"}, "no text or whole number"),
            ({"identity": "total"}, "no text or whole number"),
            ({"id": ""}, "empty"),
            ({"id": "é" * 128}, "256 bytes, more than 255"),
            ({"id": "a\nb"}, "cannot be printed"),
            ({"id": "1", "time": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001  that is the point
            ({"id": "1", "correlation": "\ud800"}, "not UTF-8"),
            ({"id": "1", "aggregate": ""}, "'' does not say its type"),
            (
                {"id": "1", "aggregate": "o-1"},
                r"'o-1' does not say its type\. Write type/id, like 'order/o-1'",
            ),
            ({"id": "1", "aggregate": "order/"}, "has no id"),
            ({"id": "1", "aggregate": "/a\x1fb"}, "the aggregate holds a character"),
            ({"id": "1", "aggregate": "/" + "x" * 512}, "the aggregate has 513 bytes"),
            ({"id": "1", "aggregate": "/" + " " * 200}, "the subject has 611 bytes"),
            ({"id": "1", "type": "a\x1eb"}, "the type holds a character"),
            ({"id": "1", "correlation": "\x1f"}, "the correlation holds a character"),
            ({"id": "1", "causation": "x" * 513}, "the causation has 513 bytes"),
            ({"id": "1", "version": 0}, "the version 0 is not"),
            ({"id": "1", "version": 2**63}, "is not a number from 1"),
            ({"id": "1", "schema": -1}, "the schema -1 is not"),
        ],
    )
    def test_what_cannot_be_told_apart_is_refused(self, asked: dict[str, Any], says: str) -> None:
        given: dict[str, Any] = {"aggregate": "order/7", "version": 1} | asked
        with pytest.raises(PublishError, match=says):
            self.producer.draft(Placed(order_id="7", total=1.5), **given)

    def test_an_aggregate_that_would_make_a_subject_of_the_server_is_refused(self) -> None:
        producer = Producer(source="/shop", subject="{type}.{id}")
        with pytest.raises(PublishError, match=r"begins with \$"):
            producer.draft(Placed(order_id="7"), id="1", aggregate="$JS/7", version=1)
        assert producer.draft(Placed(order_id="7"), id="1", aggregate="js/$7", version=1).subject == "js.$7"

    def test_an_event_without_a_type_is_refused(self) -> None:
        with pytest.raises(PublishError, match="no type"):
            self.producer.draft({"order_id": "7"}, aggregate="order/7", version=1, id="1")

    def test_a_number_that_json_does_not_know_is_refused(self) -> None:
        with pytest.raises(PublishError, match="NaN"):
            self.producer.draft(
                Placed(order_id="7", total=float("nan")), aggregate="order/7", version=1, id="1"
            )

    def test_what_no_consumer_could_decode_is_refused_before_it_is_stored(self) -> None:
        values: dict[str, Any] = {"order_id": "7", "total": "NOT"}
        wrong = Placed(**values)
        with pytest.raises(
            PublishError, match=r"no consumer could read this Placed: Expected `float`, got `str`"
        ):
            self.producer.draft(wrong, aggregate="order/7", version=1, id="1")

    def test_an_aggregate_without_a_type_is_published_where_that_is_said(self) -> None:
        draft = self.producer.draft(Placed(order_id="7"), aggregate="/7", version=1, id="1")
        assert "ce-aggregatetype" not in draft.headers
        assert draft.headers["ce-aggregateid"] == "7"

    def test_a_pattern_with_a_wildcard_gives_no_subject(self) -> None:
        open_ended = Producer(source="/shop", subject="shop.*.{aggregate}")
        with pytest.raises(PublishError, match="Name every token"):
            open_ended.draft(Placed(order_id="7"), aggregate="order/7", version=1, id="1")

    @pytest.mark.parametrize("source", ["a\x1fb", "x" * 513, "\ud800", ""])
    def test_a_source_that_no_event_can_bear_is_refused(self, source: str) -> None:
        with pytest.raises(PublishError, match="source"):
            Producer(source=source, subject="shop.order.{aggregate}")

    @pytest.mark.parametrize("field", ["id", "type", "aggregate", "correlation", "causation", "source"])
    def test_what_cannot_be_printed_is_refused_in_every_field(self, field: str) -> None:
        for letter in UNPRINTABLE:
            asked: dict[str, Any] = {"id": "1", "type": "t", "aggregate": "order/7", "version": 1} | {
                field: f"a/{letter}b"
            }
            with pytest.raises(PublishError, match=r"cannot be printed|not UTF-8"):
                Producer(source=asked.pop("source", "/shop"), subject="shop.order.{aggregate}").draft(
                    {}, **asked
                )

    @given(
        st.fixed_dictionaries(
            {"aggregate": ANYTHING, "id": ANYTHING, "kind": ANYTHING},
            optional={
                "type": ANYTHING,
                "correlation": ANYTHING,
                "causation": ANYTHING,
                "version": st.integers() | st.sampled_from([2**63 - 1, 2**63]),
                "schema": st.integers() | st.sampled_from([2**31 - 1, 2**31]),
            },
        ),
        ANYTHING,
    )
    def test_what_can_be_published_can_be_read(self, asked: dict[str, Any], source: str) -> None:
        aggregate = f"{asked.pop('kind')}/{asked['aggregate']}"
        asked |= {"aggregate": aggregate, "version": asked.get("version")}
        try:
            producer = Producer(source=source, subject="shop.{type}.{aggregate}")
            draft = producer.draft({"order_id": "7"}, **{"type": "order.placed"} | asked)
        except PublishError:
            return
        head = "".join(f"{name}: {value}\r\n" for name, value in draft.headers.items())
        reply = b"$JS.ACK.SHOP.orders.2.42.43.1722600000000000000.5"
        arrival = Arrival(draft.subject, reply, f"NATS/1.0\r\n{head}\r\n".encode(), draft.data, 0.0)
        reader = Decoder(
            Policy(),
            stream="SHOP",
            ordered=asked["version"] is not None,
            match=Subjects(["shop.{type}.{aggregate}"]).match,
            known=(),
            decode=lambda *_: Placed(order_id="7"),
        )
        found = reader.read(arrival)
        assert isinstance(found, Delivery), found
        assert (found.source, found.id, found.version) == (source, asked["id"], asked["version"])
        assert found.aggregate == aggregate

    @given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=100))
    def test_the_subject_is_the_one_consumers_look_for(self, aggregate: str) -> None:
        draft = self.producer.draft(Placed(order_id="7"), aggregate=f"/{aggregate}", version=1, id="1")
        assert draft.subject == SubjectPattern("shop.order.{aggregate}").subject_for("", aggregate)
