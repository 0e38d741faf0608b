"""Intents: what a class declares, and what is refused when it is defined."""

from __future__ import annotations

from typing import Any

import pytest

from projectionist.core.errors import DefinitionError, IdentifierError
from projectionist.outbox import AGGREGATE, Intent, Slotted, options_of
from projectionist.outbox.intents.intent import MOST_CONTENT, MOST_PLACE, IntentMeta, content_of


class Receipt(Intent, provider="email", destination="to", order_by=None, on_dead="block"):
    to: str
    order_id: str = ""


class Renamed(Intent, provider="email", name="Invoice", formerly=("Bill",)):
    to: str = ""


def test_a_class_is_its_own_slot_and_ordered_by_aggregate_unless_it_says_otherwise() -> None:
    class Plain(Intent, provider="email"):
        pass

    options = options_of(Plain)
    assert (options.name, options.slot, options.order_by, options.on_dead) == (
        "Plain",
        "Plain",
        AGGREGATE,
        "pass",
    )
    assert (options.destination, options.formerly) == (None, ())


def test_class_keywords_are_kept() -> None:
    options = options_of(Receipt(to="ann"))
    assert (options.provider, options.destination, options.order_by, options.on_dead) == (
        "email",
        "to",
        None,
        "block",
    )


def test_a_renamed_class_keeps_its_name_and_slot() -> None:
    options = options_of(Renamed)
    assert (options.name, options.slot, options.formerly) == ("Invoice", "Invoice", ("Bill",))


def test_an_intent_is_frozen() -> None:
    receipt = Receipt(to="ann")
    with pytest.raises(AttributeError):
        receipt.to = "bob"


def test_a_second_intent_of_a_class_names_its_slot() -> None:
    assert Receipt(to="ann").slot("copy") == Slotted("copy", Receipt(to="ann"))
    with pytest.raises(IdentifierError):
        Receipt(to="ann").slot("")


def test_a_subclass_declares_for_itself() -> None:
    class Reminder(Receipt, provider="sms"):
        pass

    assert (options_of(Reminder).provider, options_of(Reminder).destination) == ("sms", None)


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({}, "names no provider"),
        ({"provider": ""}, "empty provider"),
        ({"provider": "email", "destination": "nowhere"}, "names no field. Its fields are: to"),
        ({"provider": "email", "order_by": "nothing"}, "names no field"),
        ({"provider": "email", "on_dead": "ignore"}, 'Write "pass" or "block"'),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_it_is_defined(
    keywords: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        IntentMeta("Wrong", (Intent,), {"__annotations__": {"to": str}}, **keywords)


def test_a_field_named_slot_is_refused() -> None:
    with pytest.raises(DefinitionError, match="field named slot"):
        IntentMeta("Wrong", (Intent,), {"__annotations__": {"slot": str}}, provider="email")


def test_a_content_that_is_too_much_to_be_opened_with_others_is_refused() -> None:
    assert len(content_of(Receipt("a" * MOST_PLACE))) > MOST_PLACE
    with pytest.raises(ValueError, match=r"Letter has \d+ bytes, more than"):
        content_of(Letter("x" * MOST_CONTENT))


def test_a_slot_or_a_provider_that_no_table_holds_is_refused_however_it_is_named() -> None:
    with pytest.raises(IdentifierError, match="provider of Wrong"):
        IntentMeta("Wrong", (Intent,), {}, provider="e\0")
    for wrong in ("", "a\0b", "x" * 64):
        with pytest.raises(IdentifierError, match="slot"):
            Slotted(wrong, Receipt("ann"))


class Letter(Intent, provider="post"):
    text: str
