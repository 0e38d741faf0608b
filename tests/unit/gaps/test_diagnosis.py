"""What becomes of versions that were looked for in vain, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from projectionist.core.states import Finding, IncidentKind
from projectionist.runner.gaps.diagnosis import (
    DecisionRecord,
    MissingVersions,
    OtherSubject,
    QuarantinedNearby,
    SearchEvidence,
    diagnose,
    explain_gap,
)

LACK = MissingVersions("order/o1", version=3, seq=10, until=6, behind=14)
"""Versions 4 and 5 are missing."""


def evidence(**given: Any) -> SearchEvidence:
    """A whole stream, read to its end, which everything was settled up to."""
    facts: dict[str, Any] = {
        "stream": "SHOP",
        "first_seq": 1,
        "last_seq": 20,
        "subject": "shop.order.o1",
        "floor_passed": True,
    }
    return SearchEvidence(**facts | given)


OTHER = OtherSubject(4, 12, "shop.archive.o1")


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        ({}, Finding.LOST),
        ({"floor_passed": False}, Finding.IN_FLIGHT),
        ({"first_seq": 12}, Finding.PURGED),
        ({"first_seq": 11}, Finding.LOST),  # the event applied last is gone, and nothing after it
        ({"subject": None}, Finding.FILTERED),
        ({"subject": None, "first_seq": 12}, Finding.FILTERED),
        ({"elsewhere": OTHER}, Finding.FILTERED),
        ({"floor_passed": False, "first_seq": 12, "subject": None}, Finding.IN_FLIGHT),
        ({"last_seq": 1}, Finding.IMPLAUSIBLE),
        ({"last_seq": 1, "floor_passed": False}, Finding.IMPLAUSIBLE),
        ({"last_seq": 2}, Finding.LOST),
    ],
)
def test_the_finding_follows_from_the_evidence(given: dict[str, Any], finding: Finding) -> None:
    assert diagnose(LACK, evidence(**given)) is finding


@pytest.mark.parametrize(
    ("given", "what", "then"),
    [
        (
            {},
            (
                "not in stream SHOP. Everything up to sequence 20 was settled, and subject shop.order.o1 was read to "
                "that end: never published, or deleted"
            ),
            "publish them with the ids they had",
        ),
        (
            {"first_seq": 12},
            "purged, it seems: stream SHOP begins at sequence 12, and the event before them was 10",
            "publish them again with the ids they had",
        ),
        (
            {"subject": None},
            "the consumer's subjects do not say which subject of stream SHOP is this aggregate's",
            "write {aggregate} in the aggregate's place in subjects=",
        ),
        (
            {"elsewhere": OTHER},
            "version 4 is at sequence 12 on shop.archive.o1, which this consumer does not read",
            "let a consumer with a name of its own read every subject of the aggregate",
        ),
        (
            {"last_seq": 1},
            (
                "more than stream SHOP has ever held (1 messages). Version 6 at sequence 14 is not to be believed, "
                "or the stream begins in mid-history"
            ),
            "discard that event, or give the consumer a baseline",
        ),
    ],
)
def test_each_finding_says_what_it_rests_on_and_what_to_do(
    given: dict[str, Any], what: str, then: str
) -> None:
    facts = evidence(**given)

    assert explain_gap(LACK, diagnose(LACK, facts), facts) == (
        f"order/o1 lacks versions 4 to 5: {what}. Next: {then}, "
        "or step over them with `projectionist parked accept-gap --aggregate order/o1 --versions 4..5 --reason …`"
    )


def test_what_may_still_come_asks_nothing_of_anybody() -> None:
    facts = evidence(floor_passed=False)

    assert explain_gap(LACK, diagnose(LACK, facts), facts) == (
        "order/o1 lacks versions 4 to 5: they may still be delivered. Next: nothing has to be done"
    )


def test_one_missing_version_is_told_as_one() -> None:
    one = msgspec.structs.replace(LACK, until=5)

    assert explain_gap(one, Finding.LOST, evidence()).startswith("order/o1 lacks version 4: ")
    assert [version for version in range(10) if one.misses(version)] == [4]
    assert not one.misses(None)


def test_a_few_quarantined_events_of_the_subject_are_listed_and_the_rest_is_counted() -> None:
    near = [QuarantinedNearby(n, None if n == 1 else n, "body") for n in range(1, 8)]

    text = explain_gap(LACK, Finding.LOST, evidence(quarantined=near))

    assert text.endswith(
        ". In quarantine from the same subject, look there first: sequence 1: body, sequence 2 (version 2): body, "
        "sequence 3 (version 3): body, sequence 4 (version 4): body, sequence 5 (version 5): body and 2 more"
    )


@pytest.mark.parametrize("given", [{}, {"first_seq": 12}], ids=["lost", "purged"])
def test_a_missing_version_that_is_in_quarantine_is_said_to_be_there(given: dict[str, Any]) -> None:
    facts = evidence(quarantined=[QuarantinedNearby(3, 9, "body"), QuarantinedNearby(12, 5, "time")], **given)

    assert explain_gap(LACK, diagnose(LACK, facts), facts).startswith(
        "order/o1 lacks versions 4 to 5: version 5 is in quarantine, at sequence 12: time. Next: correct it there "
        "(`projectionist quarantine show 12`), or have it published anew, or step over them with"
    )


def test_an_aggregates_id_may_hold_what_a_format_would_read() -> None:
    lack = msgspec.structs.replace(LACK, aggregate="order/{x}")

    assert "accept-gap --aggregate 'order/{x}' --versions 4..5" in explain_gap(lack, Finding.LOST, evidence())


def test_what_waits_for_somebody_has_a_kind_of_incident() -> None:
    assert {IncidentKind(finding) for finding in Finding if finding is not Finding.IN_FLIGHT}


DISCARD = DecisionRecord("ann", datetime(2026, 11, 19, 9, 30, tzinfo=UTC), "ticket 7")


@pytest.mark.parametrize("given", [{}, {"first_seq": 12}], ids=["lost", "purged"])
@pytest.mark.parametrize(
    ("one", "what"),
    [
        (QuarantinedNearby(12, 5, "refused", DISCARD), "version 5 was at sequence 12, and discarded"),
        (
            QuarantinedNearby(12, None, "version", DISCARD),
            "not found, but what came at sequence 12 from the same subject was discarded before its version was read",
        ),
    ],
    ids=["read", "unread"],
)
def test_a_missing_version_that_somebody_has_discarded_is_said_to_be(
    given: dict[str, Any], one: QuarantinedNearby, what: str
) -> None:
    facts = evidence(quarantined=[QuarantinedNearby(3, 9, "body"), one], **given)

    assert explain_gap(LACK, diagnose(LACK, facts), facts) == (
        f"order/o1 lacks versions 4 to 5: {what}, by ann at 2026-11-19T09:30:00+00:00: ticket 7. "
        "Next: have it published anew, or step over them with "
        "`projectionist parked accept-gap --aggregate order/o1 --versions 4..5 --reason …`. "
        "In quarantine from the same subject, look there first: sequence 3 (version 9): body"
    )


def test_what_is_in_quarantine_is_told_before_what_was_discarded() -> None:
    near = [QuarantinedNearby(12, 4, "version", DISCARD), QuarantinedNearby(13, 5, "time")]

    text = explain_gap(LACK, Finding.LOST, evidence(quarantined=near))

    assert "version 5 is in quarantine, at sequence 13: time" in text
    assert text.endswith(
        "from the same subject: sequence 12 (version 4), by ann at 2026-11-19T09:30:00+00:00"
    )
