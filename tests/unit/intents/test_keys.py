"""Keys and frozen bodies."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox import Intent, body_hash, frozen_body, intent_key

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


class Note(Intent, provider="email"):
    zebra: str = ""
    amount: Decimal | None = None
    moment: datetime | None = None
    extra: dict[str, Any] = {}
    weight: float = 0.0


def test_a_key_is_the_same_in_every_process_and_release() -> None:
    assert intent_key("OrderSummary", "/shop", "e-1", "Receipt") == "1d55927ff60c0370cd4a67e9d430dddb"


@given(st.tuples(words, words, words, words), st.tuples(words, words, words, words))
def test_different_parts_never_make_one_key(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (intent_key(*one) == intent_key(*other)) == (one == other)


def test_parts_that_join_to_one_text_make_two_keys() -> None:
    assert intent_key("c", "a:b", "c", "s") != intent_key("c", "a", "b:c", "s")


def test_a_body_is_json_with_sorted_keys() -> None:
    note = Note(
        zebra="z",
        amount=Decimal("1.50"),
        moment=datetime(2026, 1, 2, tzinfo=UTC),
        extra={"b": 1, "a": [None]},
    )
    assert frozen_body(note) == (
        b'{"amount":"1.50","extra":{"a":[null],"b":1},"moment":"2026-01-02T00:00:00Z","weight":0.0,"zebra":"z"}'
    )


def test_equal_intents_have_equal_hashes() -> None:
    assert body_hash(frozen_body(Note(extra={"a": 1, "b": 2}))) == body_hash(
        frozen_body(Note(extra={"b": 2, "a": 1}))
    )
    assert body_hash(frozen_body(Note(zebra="a"))) != body_hash(frozen_body(Note(zebra="b")))


@pytest.mark.parametrize(
    "note",
    [
        Note(weight=float("nan")),
        Note(weight=float("-inf")),
        Note(extra={"deep": [{"er": float("inf")}]}),
        Note(extra={"surrogate": "\ud800"}),
        Note(extra={"object": object()}),
    ],
)
def test_what_json_does_not_hold_is_refused_before_it_is_stored(note: Note) -> None:
    with pytest.raises(ValueError, match="Note"):
        frozen_body(note)
