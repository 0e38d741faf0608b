"""The spans of batches, seen where they are made: who gets one, under whom, and what it costs to get none."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, Stalled, batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.spans import Kept, attributes

from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import Telemetry
from projectionist.core.telemetry import tracing
from projectionist.outbox.intents.staging import unpack_all
from projectionist.projections import Event, definition
from projectionist.runner.batch.batch_spans import BatchTracer
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.progress import Logged
from projectionist.runner.rebuild.rebuild import Rebuild

pytestmark = pytest.mark.asyncio

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


def read(
    driver: BatchDriver, event: Event, aggregate: str, version: int, traceparent: str | None
) -> Delivery:
    delivery = driver.read(event, aggregate, version)
    delivery.traceparent = traceparent
    return delivery


async def test_a_batch_without_a_sampled_event_has_no_span(live: ConsumerHarness, kept: Kept) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(
            read(driver, OrderPlaced("ann", 1), "o1", 1, UNSAMPLED),
            read(driver, OrderPlaced("ann", 1), "o2", 1, None),
        )
    assert kept.named("") == []


async def test_every_outcome_of_a_batch_is_told_by_the_span_of_its_event(
    live: ConsumerHarness, kept: Kept
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(
            read(driver, OrderPlaced("ann", 1), "o1", 1, SAMPLED),
            read(driver, OrderNoted("bad"), "o1", 2, SAMPLED),
            read(driver, OrderNoted("after"), "o1", 3, SAMPLED),
            read(driver, OrderNoted("early"), "o2", 2, SAMPLED),
        )
        await driver.settle(read(driver, OrderPlaced("eve", 1), "o1", 1, SAMPLED))
    told = [
        (attributes(one)["messaging.message.id"], attributes(one)["projectionist.outcome"])
        for one in kept.named("process")
    ]
    assert sorted(told) == [("o1:1", "applied"), ("o1:2", "failed"), ("o1:3", "parked"), ("o2:2", "parked")]
    (failed,) = [one for one in kept.named("process") if not one.status.is_unset]
    assert attributes(failed)["error.type"] == "ValueError"
    assert failed.status.description is None
    assert failed.events == ()


async def test_a_repeat_is_told_in_its_producers_trace_and_intents_stay_under_the_first(
    live: ConsumerHarness, kept: Kept
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        placed = read(driver, OrderPlaced("ann", 1), "o1", 1, SAMPLED)
        paid = read(driver, OrderPaid(), "o1", 2, SAMPLED)
        again = read(driver, OrderPaid(), "o1", 2, SAMPLED)
        await driver.settle(placed, paid, again)
        await driver.settle(read(driver, OrderPaid(), "o1", 2, UNSAMPLED))
    told = [
        (attributes(one)["messaging.message.id"], attributes(one)["projectionist.outcome"])
        for one in kept.named("process")
    ]
    assert sorted(told) == [("o1:1", "applied"), ("o1:2", "applied"), ("o1:2", "duplicate")]
    first = kept.named("process")[told.index(("o1:2", "applied"))]
    assert first.context is not None
    assert await inspection.value(live, "intents", "traceparent") == tracing.written(first.context)


HEAD = b"NATS/1.0\r\nBaggage: tenant=a%20b;x=1, user=eve\r\n\r\n"


async def test_allowed_baggage_is_kept_with_what_is_parked_and_with_intents(
    live: ConsumerHarness, kept: Kept
) -> None:
    """It was on arrivals alone: what was drained later, and all that a provider is asked to do, lacked it."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        paid = read(driver, OrderPaid(), "o1", 2, SAMPLED)
        assert paid.arrival is not None
        paid.arrival.head = HEAD
        driver.context.tracer = BatchTracer(driver.consumer.definition, Telemetry(baggage=("tenant",)))
        await driver.settle(paid)
        assert await inspection.value(live, "parked", "baggage") == "tenant=a%20b"
        await driver.settle(read(driver, OrderPlaced("ann", 1), "o1", 1, SAMPLED))
        (drained,) = [one for one in map(attributes, kept.named("process")) if one["projectionist.drained"]]
        assert {name: value for name, value in drained.items() if "baggage" in name} == {
            "projectionist.baggage.tenant": "a b"
        }
    async with live.connected() as connection:
        await unpack_all(connection, Statements("projectionist.outbox", "projectionist"))
    assert await inspection.value(live, "intents", "baggage") == "tenant=a%20b"


async def test_baggage_is_dropped_unless_its_member_is_allowed(live: ConsumerHarness, kept: Kept) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        for number, allowed in enumerate([(), ("tenant",)]):
            delivery = read(driver, OrderPlaced("ann", 1), f"o{number}", 1, SAMPLED)
            assert delivery.arrival is not None
            delivery.arrival.head = HEAD
            driver.context.tracer = BatchTracer(driver.consumer.definition, Telemetry(baggage=allowed))
            await driver.settle(delivery)
    none, one = map(attributes, kept.named("process"))
    assert [name for name in none if "baggage" in name] == []
    assert {name: value for name, value in one.items() if "baggage" in name} == {
        "projectionist.baggage.tenant": "a b"
    }


async def test_linked_instead_of_continued_the_work_is_a_trace_of_its_own(
    live: ConsumerHarness, kept: Kept
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        driver.context.tracer = BatchTracer(driver.consumer.definition, Telemetry(trace="link"))
        await driver.settle(
            read(driver, OrderPlaced("ann", 1), "o1", 1, SAMPLED), read(driver, OrderPaid(), "o1", 2, SAMPLED)
        )
    spans = kept.named("process")
    assert all(span.parent is None for span in spans)
    assert all(f"{span.links[0].context.trace_id:032x}" == TRACE for span in spans)
    paid = next(one for one in spans if attributes(one)["messaging.message.id"] == "o1:2")
    assert paid.context is not None
    assert await inspection.value(live, "intents", "traceparent") == tracing.written(paid.context)
    assert await live.value("select distinct traceparent from {s}.inbox") == SAMPLED


async def test_events_without_a_context_begin_a_trace_where_the_settings_say_so(
    live: ConsumerHarness, kept: Kept
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        driver.context.tracer = BatchTracer(driver.consumer.definition, Telemetry(sample=1))
        await driver.settle(
            read(driver, OrderPlaced("ann", 1), "o1", 1, None), read(driver, OrderPaid(), "o1", 2, UNSAMPLED)
        )
    (placed,) = kept.named("process")
    assert placed.parent is None
    assert attributes(placed)["messaging.message.id"] == "o1:1"


@pytest.mark.parametrize("intents", [False, True])
async def test_a_batch_that_is_rolled_back_leaves_no_span(
    live: ConsumerHarness, kept: Kept, intents: bool
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        reached, go_on = stalled(driver, fails=True)
        events = [read(driver, OrderPlaced("ann", 1), "o1", 1, SAMPLED)]
        if intents:
            events.append(read(driver, OrderPaid(), "o1", 2, SAMPLED))
        batch = asyncio.create_task(driver.settle(*events))
        await reached.wait()
        go_on.set()
        with pytest.raises(Stalled):
            await batch
        assert kept.named("") == []
        await driver.settle(*events)
    assert len(kept.named("process")) == len(events)
    assert len(kept.named("receive")) == len(kept.named("apply batch")) == 1


async def test_a_rebuild_is_one_span_and_its_events_have_none(live: ConsumerHarness, kept: Kept) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for number in range(5):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, headers={"traceparent": SAMPLED})
    await live.settle(s.Orders)
    assert len(kept.named("process")) == 5
    await Rebuild(definition(s.Orders), live.settings, live.nats, Logged("Orders")).run()
    (span,) = kept.named("rebuild")
    assert attributes(span) == {
        "projectionist.consumer": "Orders",
        "projectionist.replay": True,
        "projectionist.events": 5,
    }
    assert len(kept.named("process")) == 5
