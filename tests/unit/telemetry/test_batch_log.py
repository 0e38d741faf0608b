"""Lines about a batch: one a matter, with the first ids; each event's own for those who look closely."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from projectionist.core.states import Cause, IncidentKind
from projectionist.runner.batch.types import BatchResult
from projectionist.runner.batch.writes import BatchWrites, EventFailure, Incident, ParkedEvent, Quarantined
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.telemetry.batch_log import log_batch

TRACE = "0af7651916cd43dd8448eb211c80319c"


def delivery(name: str) -> Delivery:
    parent = f"00-{TRACE}-b7ad6b7169203331-00"
    return Delivery(
        *(
            "shop",
            name,
            "order.paid",
            1,
            "order/secret-key",
            2,
            b"secret-payload",
            b"h" * 16,
            "S",
            7,
            "s.secret-key",
        ),
        traceparent=parent,
    )


def said(
    caplog: pytest.LogCaptureFixture, writes: BatchWrites, level: int = logging.INFO
) -> list[tuple[str, Any]]:
    with caplog.at_level(level, "projectionist.runner"):
        log_batch("Orders", [BatchResult(writes, None)])
    assert "secret" not in caplog.text
    return [(record.getMessage(), getattr(record, "facts", {})) for record in caplog.records]


def test_repeats_are_one_line_with_their_number_and_the_first_ids(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    writes.repeats = [delivery(f"e{n}") for n in range(5)]
    [(text, about)] = said(caplog, writes)
    assert text == "Orders: 5 duplicates, the first: e0, e1, e2"
    assert about == {
        "consumer": "Orders",
        "count": 5,
        "message_ids": ["e0", "e1", "e2"],
        "trace_id": TRACE,
        "kind": "duplicate",
    }


def test_who_looks_closely_reads_each_of_them(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    writes.unparked = [delivery("e1"), delivery("e2")]
    lines = said(caplog, writes, logging.DEBUG)
    assert [about.get("message_id") for _, about in lines] == [None, "e1", "e2"]
    assert lines[1][1] == {"consumer": "Orders", "source": "shop", "message_id": "e1", "trace_id": TRACE}


def test_parked_events_are_told_by_cause_and_stored_ones_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    causes = [Cause.GAP, Cause.FAILED, Cause.GAP, Cause.STORED]
    writes.parked = [
        ParkedEvent(delivery(f"e{n}"), cause, True, EventFailure()) for n, cause in enumerate(causes)
    ]
    assert [text for text, _ in said(caplog, writes)] == [
        "Orders: 2 events parked (gap), the first: e0, e2",
        "Orders: 1 events parked (failed), the first: e1. `projectionist parked list` says why",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_incidents_and_silent_intents_are_told(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    writes.incidents = [
        Incident(IncidentKind.IDENTITY_REUSE, 7, "shop", "e1", "order/secret-key", 2, "secret-detail")
    ]
    writes.counts = Counter({("order.paid", "suppressed_Receipt"): 2, ("order.paid", "applied"): 9})
    (incident, about), (silent, _) = said(caplog, writes)
    assert incident == "Orders: incident identity_reuse"
    assert (about["message_id"], about["kind"]) == ("e1", "incident_identity_reuse")
    assert silent == "Orders: 2 intents below the effects mark are not made"


def test_a_plain_batch_is_worth_no_line(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    writes.counts = Counter({("order.paid", "applied"): 1000})
    assert said(caplog, writes, logging.DEBUG) == []


def test_what_goes_to_quarantine_is_one_warning_with_its_reasons(caplog: pytest.LogCaptureFixture) -> None:
    writes = BatchWrites()
    writes.newly_quarantined = [
        Quarantined(
            seq,
            reason,
            "secret detail",
            "s.secret-key",
            "shop",
            f"e{seq}",
            None,
            None,
            None,
            b"secret",
            6,
            b"h",
        )
        for seq, reason in ((4, "json"), (7, "version"), (9, "json"))
    ]
    [(text, about)] = said(caplog, writes)
    assert text == "Orders: 3 events go to quarantine (json, version), the first at sequence 4"
    assert (about["count"], about["message_ids"], about["kind"]) == (3, ["e4", "e7", "e9"], "quarantined")
