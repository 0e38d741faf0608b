"""Whether a stream is still the one that was read, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from projectionist.core.states import IncidentKind
from projectionist.runner.stream_guard.remedies import remedy
from projectionist.runner.stream_guard.verdict import (
    Checkpoint,
    Judgement,
    MessageFingerprint,
    Observation,
    judge,
)

BORN, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
FLOOR, TOP = MessageFingerprint(100, b"floor", "10:00"), MessageFingerprint(140, b"top", "10:05")

KNOWN = Checkpoint(BORN, FLOOR, TOP, 100, 120, BORN)
SEEN = Observation(BORN, 1, 140, FLOOR, TOP, 100, 120, 120, BORN)


def judged(
    *, restored: bool = False, known: Checkpoint = KNOWN, **seen: Any
) -> tuple[IncidentKind | None, bool, int | None]:
    found = judge(known, msgspec.structs.replace(SEEN, **seen), restored=restored)
    return found.fact, found.halted, found.go_to


def test_the_same_stream_goes_on() -> None:
    assert judged() == (None, False, None)
    assert judged(last_seq=500, ack_floor=100) == (None, False, None)


def test_a_stream_that_lost_its_end_is_halted() -> None:
    assert judged(last_seq=120, at_top=None) == (IncidentKind.STREAM_REGRESSED, True, None)


def test_a_stream_that_lost_its_end_and_was_written_on_is_told_by_content() -> None:
    other = MessageFingerprint(140, b"other", "11:00")

    assert judged(last_seq=900, at_top=other) == (IncidentKind.STREAM_REGRESSED, True, None)
    assert judged(last_seq=900, at_floor=MessageFingerprint(100, b"other", "11:00"), at_top=other) == (
        *(IncidentKind.STREAM_REGRESSED, True, None),
    )


def test_the_very_same_content_stored_at_another_time_is_another_message() -> None:
    assert judged(last_seq=900, at_top=MessageFingerprint(140, b"top", "11:00")) == (
        IncidentKind.STREAM_REGRESSED,
        True,
        None,
    )


@pytest.mark.parametrize(
    "seen",
    [
        {"last_seq": 10, "at_floor": None, "at_top": None},
        {
            "at_floor": MessageFingerprint(100, b"other", "11:00"),
            "at_top": MessageFingerprint(140, b"other", "11:00"),
        },
        {"at_floor": None, "at_top": None, "first_seq": 1000, "last_seq": 1000},
    ],
)
def test_a_stream_made_anew_with_other_content_or_none_to_compare_is_replaced(seen: dict[str, Any]) -> None:
    assert judged(created=LATER, **seen) == (IncidentKind.STREAM_REPLACED, True, None)


def test_a_restored_stream_is_a_copy_with_equal_messages() -> None:
    found = judge(KNOWN, msgspec.structs.replace(SEEN, created=LATER), restored=False)

    assert (found.fact, found.halted, found.equal) == (IncidentKind.STREAM_COPIED, True, True)


def test_a_stream_that_was_published_again_is_a_copy_without_equal_messages() -> None:
    again = {
        "at_floor": MessageFingerprint(100, b"floor", "12:00"),
        "at_top": MessageFingerprint(140, b"top", "12:01"),
    }

    found = judge(KNOWN, msgspec.structs.replace(SEEN, created=LATER, **again), restored=False)

    assert (found.fact, found.equal) == (IncidentKind.STREAM_COPIED, False)
    assert "stored anew" in found.text


def test_a_mirror_is_called_one() -> None:
    found = judge(KNOWN, msgspec.structs.replace(SEEN, created=LATER, mirror_of="SHOP"), restored=False)

    assert "a mirror of SHOP" in found.text


def test_messages_purged_before_they_were_settled_are_told_and_nothing_is_halted() -> None:
    assert judged(first_seq=121, at_floor=None) == (IncidentKind.STREAM_PURGED, False, None)


def test_messages_purged_after_they_were_settled_are_nobodys_business() -> None:
    assert judged(first_seq=101, at_floor=None) == (None, False, None)


def test_a_whole_purge_keeps_the_last_sequence_and_is_no_regression() -> None:
    known = msgspec.structs.replace(KNOWN, seen=140)

    assert judged(known=known, first_seq=141, at_floor=None, at_top=None) == (None, False, None)


def test_after_a_start_reading_goes_back_to_the_floor_that_the_database_knows() -> None:
    assert judged(ack_floor=130) == (None, False, None)
    assert judged(ack_floor=130, restored=True) == (None, False, 101)


def test_a_durable_made_anew_goes_on_behind_the_floor() -> None:
    assert judged(durable_created=LATER, ack_floor=0, delivered=0, deliveries=0) == (None, False, 101)


def test_a_durable_whose_server_was_restarted_is_the_same() -> None:
    """As nats-server 2.10 tells it: first when it was made, then when that was written down."""
    written = BORN + timedelta(microseconds=400)

    assert judged(durable_created=written, ack_floor=110, delivered=130, deliveries=140) == (
        None,
        False,
        None,
    )


def test_a_durable_that_somebody_has_moved_ahead_is_taken_back() -> None:
    assert judged(ack_floor=135, delivered=135, deliveries=0) == (None, False, 101)


def test_a_durable_ahead_of_its_stream_is_taken_back() -> None:
    known = msgspec.structs.replace(KNOWN, top=FLOOR)

    assert judged(known=known, last_seq=110, at_top=FLOOR, delivered=140) == (None, False, 101)


@pytest.mark.parametrize("fact", [fact for fact in IncidentKind if fact.startswith("stream_")])
def test_every_incident_about_a_stream_names_its_next_step(fact: IncidentKind) -> None:
    assert "`projectionist adopt OrderSummary --reason …`" in remedy(fact, "OrderSummary")


def test_what_is_well_has_nothing_to_say() -> None:
    well = judge(KNOWN, SEEN, restored=True)
    assert well == Judgement()
    assert well == Judgement(
        None, halted=False, text="", equal=False, gone=0, go_to=None, why="", doubt=False
    )


def test_of_a_stream_that_was_never_read_nothing_is_known() -> None:
    assert MessageFingerprint() == MessageFingerprint(0, None, None)
    assert (KNOWN.acked, KNOWN.quiet) == (0, False)


def test_an_ack_floor_that_a_purge_has_raised_is_no_reason_to_read_again() -> None:
    known = msgspec.structs.replace(KNOWN, seen=140)
    purged: dict[str, Any] = {"known": known, "restored": True, "first_seq": 131, "at_floor": None}
    assert judged(**purged, ack_floor=130) == (None, False, None)
    assert judged(**purged, ack_floor=131) == (None, False, 101)


def test_what_was_removed_unread_is_told_from_its_first_to_its_last_message() -> None:
    found = judge(KNOWN, msgspec.structs.replace(SEEN, first_seq=121, at_floor=None), restored=False)
    assert found.gone == 120
    assert found.text.startswith("messages 101 to 120 were removed")


def test_a_message_that_could_not_be_remembered_is_compared_with_nothing() -> None:
    known = msgspec.structs.replace(KNOWN, floor=MessageFingerprint(100))
    assert judged(known=known, at_floor=MessageFingerprint(100, b"any", "12:00")) == (None, False, None)


def test_the_very_first_message_is_compared_like_any_other() -> None:
    known = msgspec.structs.replace(KNOWN, floor=MessageFingerprint(1, b"first", "10:00"))
    other = MessageFingerprint(1, b"other", "10:00")
    assert judged(known=known, at_floor=other)[0] is IncidentKind.STREAM_REGRESSED


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"last_seq": 120, "at_top": None}, "ends at 120"),
        (
            {"at_floor": MessageFingerprint(100, b"other", "10:00")},
            "holds other messages where 100 was settled",
        ),
    ],
)
def test_another_stream_is_told_by_what_it_lacks_or_holds(seen: dict[str, Any], said: str) -> None:
    assert judge(KNOWN, msgspec.structs.replace(SEEN, **seen), restored=False).text.endswith(said)


def test_a_durable_that_counts_anew_and_stands_at_the_floor_was_moved_by_nobody() -> None:
    assert judged(deliveries=0) == (None, False, None)
