"""Events as they are published: told apart, or refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox.drafts import Producer, PublishError
from projectionist.outbox.ids import business_key
from projectionist.projections import Event
from projectionist.projections.subjects import SubjectPattern


class Placed(Event, type="order.placed", schema=2):
    order_id: str
    total: float = 0


class TestDrafts:
    producer = Producer(source="/shop", subject="shop.order.{aggregate}")

    def test_an_identity_of_fields_is_the_same_for_ever(self) -> None:
        one = self.producer.draft(Placed(order_id="7"), aggregate="7", identity="order_id")
        other = self.producer.draft(
            {"order_id": "7"}, type="order.placed", aggregate="8", identity=("order_id",)
        )
        assert one.headers["ce-id"] == other.headers["ce-id"] == business_key("order.placed", "7")

    @pytest.mark.parametrize(
        ("wish", "says"),
        [
            ({}, "either id= or identity="),
            ({"id": "1", "identity": "order_id"}, "either id= or identity="),
            ({"identity": "nothing"}, "no text or whole number"),
            ({"identity": "total"}, "no text or whole number"),
            ({"id": ""}, "1 to 255 bytes"),
            ({"id": "é" * 128}, "1 to 255 bytes"),
            ({"id": "a\nb"}, "1 to 255 bytes"),
            ({"id": "1", "time": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001  that is the point
            ({"id": "1", "correlation": "\ud800"}, "surrogate"),
            ({"id": "1", "aggregate": ""}, "gives no subject"),
        ],
    )
    def test_what_cannot_be_told_apart_is_refused(self, wish: dict[str, Any], says: str) -> None:
        with pytest.raises(PublishError, match=says):
            self.producer.draft(Placed(order_id="7", total=1.5), **{"aggregate": "7"} | wish)

    def test_an_event_without_a_type_is_refused(self) -> None:
        with pytest.raises(PublishError, match="no type"):
            self.producer.draft({"order_id": "7"}, aggregate="7", id="1")

    def test_a_number_that_json_does_not_know_is_refused(self) -> None:
        with pytest.raises(PublishError, match="NaN"):
            self.producer.draft(Placed(order_id="7", total=float("nan")), aggregate="7", id="1")

    def test_a_pattern_with_a_wildcard_gives_no_subject(self) -> None:
        open_ended = Producer(source="/shop", subject="shop.*.{aggregate}")
        with pytest.raises(PublishError, match="Name every token"):
            open_ended.draft(Placed(order_id="7"), aggregate="7", id="1")

    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
    def test_the_subject_is_the_one_consumers_look_for(self, aggregate: str) -> None:
        draft = self.producer.draft(Placed(order_id="7"), aggregate=aggregate, id="1")
        assert draft.subject == SubjectPattern("shop.order.{aggregate}").subject_for("", aggregate)
