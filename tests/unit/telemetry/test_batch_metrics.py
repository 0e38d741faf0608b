"""What is told of a batch: right numbers, and never more of them because the batch is larger."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.states import Cause
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.telemetry.instruments import Metric
from projectionist.projections import Event, Projection, definition, on
from projectionist.runner.batch.counted_types import OTHER, CountedTypes
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.batch.writes import BatchWrites, EventFailure, ParkedEvent
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.telemetry.batch_metrics import BatchMetrics

KINDS = CountedTypes(["order.placed"])


class Placed(Event, type="order.placed"):
    """An order begins."""


class MeasuredOrders(Projection, stream="S", subjects="s.{aggregate}", table="measured", key="order_id"):
    """One row per order."""

    order_id: str

    @on(Placed)
    def placed(self, event: Placed) -> None:
        """Nothing to note."""


class Told:
    """What was told, call by call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, float, dict[str, str]]] = []

        def note(metric: Metric, value: float, attributes: Any = None) -> None:
            self.calls.append((metric.name, value, dict(attributes or {})))

        monkeypatch.setattr(metrics, "on", lambda: True)
        monkeypatch.setattr(metrics, "add", note)
        monkeypatch.setattr(metrics, "record", note)

    def of(self, metric: Metric) -> list[float]:
        return [value for name, value, _ in self.calls if name == metric.name]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Somebody listens."""
    return Told(monkeypatch)


def batch(size: int, kinds: int = 2) -> tuple[Batch, BatchResult]:
    now_us = int(time.time() * 1e6)
    deliveries = [
        Delivery(
            *(
                "shop",
                f"e{n}",
                f"type-{n % kinds}",
                1,
                f"order/{n}",
                1,
                b"{}",
                b"h" * 16,
                "S",
                n + 1,
                f"s.{n}",
            ),
            time="2026-01-01T00:00:00Z",
            received_us=now_us - (size - n) * 1000,
        )
        for n in range(size)
    ]
    writes = BatchWrites()
    writes.counts = Counter({(f"type-{n}", "applied"): size // kinds for n in range(kinds)})
    return Batch(deliveries), BatchResult(writes, None, size, 0.5, 0.1)


def test_what_is_told_of_a_batch_does_not_grow_with_its_events(told: Told) -> None:
    measures = BatchMetrics(definition(MeasuredOrders), Limits(), KINDS)
    grown = []
    for size in (10, 1000):
        told.calls.clear()
        one, applied = batch(size)
        measures.note(one, [applied])
        grown.append([name for name, _, _ in told.calls])
    assert grown[0] == grown[1]
    assert len(grown[0]) < 20


def test_the_oldest_and_the_newest_of_each_type_are_told(told: Told) -> None:
    one, applied = batch(100)
    BatchMetrics(definition(MeasuredOrders), Limits(), KINDS).note(one, [applied])
    waits = sorted(told.of(instruments.LATENCY))
    assert len(waits) == 4
    assert waits[0] < 0.05 < 0.09 < waits[-1] < 0.2


def test_what_was_parked_has_not_arrived_and_what_drained_has(told: Told) -> None:
    one, applied = batch(3, kinds=3)
    first, second, third = one.deliveries
    applied.writes.parked = [
        ParkedEvent(first, Cause.GAP, True, EventFailure()),
        ParkedEvent(second, Cause.FAILED, True, EventFailure("ValueError", "secret")),
    ]
    applied.writes.unparked = [third]
    BatchMetrics(definition(MeasuredOrders), Limits(), KINDS).note(Batch([first, second]), [applied])
    assert [
        attributes["cloudevents.event_type"] for name, _, attributes in told.calls if "latency" in name
    ] == ["type-2"]
    assert [attributes for name, _, attributes in told.calls if name == instruments.FAILURES.name] == [
        {
            "projectionist.consumer": "MeasuredOrders",
            "cloudevents.event_type": "type-1",
            "error.type": "ValueError",
        }
    ]
    assert "secret" not in str(told.calls)


def test_sources_are_told_apart_where_they_are_listed_and_nowhere_else(told: Told) -> None:
    one, applied = batch(6, kinds=1)
    for delivery, source in zip(one.deliveries, ["shop", "shop", "till", "till", "web", "web"], strict=True):
        delivery.source = source
    applied.writes = BatchWrites(frozenset(("shop", "till")))
    for delivery in one.deliveries:
        applied.writes.count(delivery, "applied")
    applied.writes.count(one.deliveries[0], "intents")
    applied.writes.failed_again = [
        (one.deliveries[0], EventFailure("ValueError")),
        (one.deliveries[5], EventFailure("ValueError")),
    ]
    BatchMetrics(definition(MeasuredOrders), Limits(), KINDS, ("shop", "till")).note(one, [applied])

    def by_source(metric: Metric) -> list[tuple[str, float]]:
        return [(d.get(names.EVENT_SOURCE, "-"), n) for name, n, d in told.calls if name == metric.name]

    assert by_source(instruments.EVENTS) == [("shop", 2), ("till", 2), ("shop", 1), ("-", 2)]
    assert by_source(instruments.FAILURES) == [("shop", 1), ("-", 1)]
    assert sorted(source for source, _ in by_source(instruments.LATENCY)) == [
        "-",
        "-",
        "shop",
        "shop",
        "till",
        "till",
    ]

    told.calls.clear()
    BatchMetrics(definition(MeasuredOrders), Limits(), KINDS).note(one, [applied])
    assert [d for _, _, d in told.calls if names.EVENT_SOURCE in d] == []
    assert len(told.of(instruments.LATENCY)) == 2


@pytest.mark.parametrize(
    ("size", "limits", "reason"),
    [
        (0, Limits(), "due"),
        (5, Limits(max_rows=5), "rows"),
        (5, Limits(max_bytes=10), "bytes"),
        (5, Limits(), "time"),
    ],
)
def test_a_batch_says_what_ended_it(told: Told, size: int, limits: Limits, reason: str) -> None:
    one, applied = batch(size)
    BatchMetrics(definition(MeasuredOrders), limits, KINDS).note(one, [applied])
    (attributes,) = [attributes for name, _, attributes in told.calls if name == instruments.BATCHES.name]
    assert attributes["projectionist.reason"] == reason


def test_received_failed_and_duration_are_told_by_type_and_beyond_the_few_as_other(told: Told) -> None:
    one, applied = batch(12, kinds=3)
    applied.writes.failed_again = [(one.deliveries[0], EventFailure("ValueError", "x"))]
    kinds = CountedTypes(["type-0", "type-1"])
    kinds.name = lambda kind: kind if kind in ("type-0", "type-1") else OTHER  # type: ignore[method-assign]
    BatchMetrics(definition(MeasuredOrders), Limits(), kinds).note(one, [applied])
    received = {
        attributes[names.EVENT_TYPE]: value
        for name, value, attributes in told.calls
        if name == instruments.CONSUMED.name
    }
    assert received == {"type-0": 4, "type-1": 4, OTHER: 4}
    failed = [attributes for name, _, attributes in told.calls if name == instruments.FAILURES.name]
    assert [(each[names.EVENT_TYPE], each[names.ERROR_TYPE]) for each in failed] == [("type-0", "ValueError")]
    assert len(told.of(instruments.PROCESS_DURATION)) == 3
