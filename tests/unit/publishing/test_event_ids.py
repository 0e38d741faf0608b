"""Ids are derived: the same for the same, another for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox.publishing import event_ids

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PARTS = st.lists(TEXTS | st.integers() | st.booleans(), min_size=1, max_size=4)


def test_they_stay_what_they_are() -> None:
    assert event_ids.business_key("scan", "door-4", 17) == "0ee8d31d759fe6b67d4f0f7841e6aeb8"
    assert event_ids.content_hash(b"{}") == "748f0c905881eb03b636692f028eebaf"
    assert event_ids.derived_id("/shop", "1", "Receipt") == "216574c9301e07f6b0e65452f0859fd6"


@given(PARTS, PARTS)
def test_two_keys_are_equal_only_if_their_parts_are(
    one: list[event_ids.Part], other: list[event_ids.Part]
) -> None:
    same = [(type(part), part) for part in one] == [(type(part), part) for part in other]
    assert (event_ids.business_key(*one) == event_ids.business_key(*other)) is same


def test_moving_a_character_changes_the_key() -> None:
    assert event_ids.derived_id("a:b", "c", "d") != event_ids.derived_id("a", "b:c", "d")


def test_a_key_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one part"):
        event_ids.business_key()
