"""Slots are frozen at their first registration: they are part of intent keys."""

from __future__ import annotations

import pytest

from projectionist.runner.consumers.intent_slots import SlotRenamed, frozen


def test_slots_seen_for_the_first_time_are_as_they_are_called() -> None:
    assert frozen("Orders", [], {"Receipt": ()}) == {}


def test_another_slot_beside_the_known_ones_is_no_rename() -> None:
    assert frozen("Orders", ["Receipt"], {"Receipt": (), "Invoice": ()}) == {}


def test_a_slot_that_is_gone_while_none_is_new_was_removed() -> None:
    assert frozen("Orders", ["Receipt", "Invoice"], {"Receipt": ()}) == {}


def test_a_renamed_slot_keeps_its_registered_name() -> None:
    assert frozen("Orders", ["Receipt"], {"Confirmation": ("Receipt",)}) == {"Confirmation": "Receipt"}


def test_a_slot_renamed_twice_goes_by_the_name_that_was_registered() -> None:
    declared = {"Third": ("First", "Second")}

    assert frozen("Orders", ["Second"], declared) == {"Third": "Second"}
    assert frozen("Orders", ["First"], declared) == {"Third": "First"}


def test_a_rename_that_does_not_say_so_is_refused_with_what_to_write() -> None:
    with pytest.raises(SlotRenamed, match=r"'Receipt' is gone and 'Confirmation' is new") as refused:
        frozen("Orders", ["Receipt"], {"Confirmation": ()})

    assert 'formerly=("Receipt",)' in str(refused.value)
