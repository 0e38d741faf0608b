"""Which intents are real, under which keys, and what happens to names that change."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderRow, Receipt, shop

from projectionist.outbox import Intent, intent_key
from projectionist.outbox.intents.intent import Slotted
from projectionist.projections import Envelope, Reactor, on
from projectionist.runner.consumers.intent_slots import SlotRenamed
from projectionist.runner.read_models.change_plan import ReadModelError

pytestmark = pytest.mark.asyncio


class Confirmation(Intent, provider="email"):
    """`Receipt` under another name, which does not say so."""

    order_id: str


class Bill(Intent, provider="email", formerly=("Receipt",)):
    """`Receipt` under another name."""

    order_id: str


def mailer(stream: Stream, intent: type[Intent]) -> type:
    """A reactor that sends `intent` for each payment."""
    subjects = stream.subject("order", "{aggregate}")
    if intent is Receipt:

        class Mailer(Reactor, stream=stream.name, subjects=subjects, effects="beginning"):
            @on(OrderPaid)
            def paid(self, event: OrderPaid, envelope: Envelope) -> Receipt:
                return Receipt(envelope.aggregate_id or "")

        return Mailer
    if intent is Bill:

        class Mailer(Reactor, stream=stream.name, subjects=subjects, effects="beginning"):  # type: ignore[no-redef] # its next release
            @on(OrderPaid)
            def paid(self, event: OrderPaid, envelope: Envelope) -> Bill:
                return Bill(envelope.aggregate_id or "")

        return Mailer

    class Mailer(Reactor, stream=stream.name, subjects=subjects, effects="beginning"):  # type: ignore[no-redef] # its next release
        @on(OrderPaid)
        def paid(self, event: OrderPaid, envelope: Envelope) -> Confirmation:
            return Confirmation(envelope.aggregate_id or "")

    return Mailer


def pair(stream: Stream, *, named: bool) -> type:
    """A reactor that sends two receipts for each payment, the second in a slot of its own if `named`."""

    class Pair(
        Reactor, stream=stream.name, subjects=stream.subject("order", "{aggregate}"), effects="beginning"
    ):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Iterator[Receipt | Slotted]:
            yield Receipt("one")
            yield Receipt("two").slot("copy") if named else Receipt("two")

    return Pair


async def test_by_default_events_from_before_the_first_start_stay_silent_and_are_counted(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream, effects="now")
    await live.migrate(s.Orders)
    for number in range(3):
        await live.publish(OrderPaid(), f"o{number}", 1)
    with caplog.at_level(logging.INFO, "projectionist.runner"):
        await live.settle(s.Orders)
    await live.publish(OrderPaid(), "o3", 1)
    await live.settle(s.Orders)

    assert len(await live.rows("orders")) == 4
    assert await inspection.rows(live, "intents", "id") == [("e4",)]
    suppressed = "select sum(n) from {s}.counters where outcome = 'suppressed_Receipt'"
    assert await live.value(suppressed) == 3
    assert (
        "side effects are made for events from sequence 4 on; the 3 older ones update rows only"
        in caplog.text
    )


async def test_the_mark_is_set_at_the_first_start_and_never_moves_by_itself(live: ConsumerHarness) -> None:
    s = shop(live.stream, effects="now")
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 1)
    async with batch_drivers(live, s.Orders):
        pass
    await live.publish(OrderPaid(), "o2", 1)
    async with batch_drivers(live, s.Orders):
        pass

    assert await inspection.rows(live, "views", "effects_incarnation", "effects_mark") == [(1, 2)]


async def test_from_the_beginning_every_event_has_its_effect(live: ConsumerHarness) -> None:
    s = shop(live.stream, effects="beginning")
    await live.migrate(s.Orders)
    for number in range(3):
        await live.publish(OrderPaid(), f"o{number}", 1)

    await live.settle(s.Orders)

    assert await inspection.count_intents(live) == 3


async def test_a_drain_across_the_mark_is_silent_below_it_and_real_above(live: ConsumerHarness) -> None:
    """Version 2 came before the mark, version 1, which it waited for, after it: one transaction, both sides."""
    s = shop(live.stream, effects="now")
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 2, id="below")
    await live.settle(s.Orders)
    await live.publish(OrderPaid(), "o1", 1, id="above")

    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert await inspection.rows(live, "intents", "id") == [("above",)]


async def test_an_intents_key_is_made_of_consumer_identity_and_slot(live: ConsumerHarness) -> None:
    await live.migrate(cls := mailer(live.stream, Receipt))
    await live.publish(OrderPaid(), "o1", 1, id="a")

    await live.settle(cls)

    assert await inspection.rows(
        live, "intents", "key", "source", "id", "aggregate", "version", "slot", "class", "state"
    ) == [
        (
            intent_key("Mailer", "shop", "a", "Receipt"),
            "shop",
            "a",
            "order/o1",
            1,
            "Receipt",
            "Receipt",
            "open",
        )
    ]


async def test_a_slot_renamed_without_a_word_is_refused_at_start(live: ConsumerHarness) -> None:
    await live.migrate(before := mailer(live.stream, Receipt))
    await live.settle(before)

    with pytest.raises(SlotRenamed, match=r'formerly=\("Receipt",\)'):
        await live.settle(mailer(live.stream, Confirmation))


async def test_a_slot_renamed_with_formerly_keeps_its_keys(live: ConsumerHarness) -> None:
    await live.migrate(before := mailer(live.stream, Receipt))
    await live.settle(before)
    await live.publish(OrderPaid(), "o1", 1, id="a")

    await live.settle(mailer(live.stream, Bill))

    assert await inspection.rows(live, "intents", "key", "slot", "class") == [
        (intent_key("Mailer", "shop", "a", "Receipt"), "Receipt", "Bill")
    ]


async def test_two_intents_of_one_class_need_a_slot_and_are_refused_without(live: ConsumerHarness) -> None:
    await live.migrate(cls := pair(live.stream, named=False))
    await live.publish(OrderPaid(), "o1", 1)

    await live.settle(cls)

    assert await live.head(cls, "order/o1") == (0, "waiting", 1)
    assert "slot" in await inspection.parked_error(live)
    assert await inspection.count_intents(live) == 0


async def test_two_intents_of_one_class_in_slots_of_their_own_are_two(live: ConsumerHarness) -> None:
    await live.migrate(cls := pair(live.stream, named=True))
    await live.publish(OrderPaid(), "o1", 1, id="a")

    await live.settle(cls)

    assert await live.fetch("select slot, key, convert_from(body, 'utf8') from {s}.intents order by seq") == [
        ("Receipt", intent_key("Pair", "shop", "a", "Receipt"), '{"order_id":"one"}'),
        ("copy", intent_key("Pair", "shop", "a", "copy"), '{"order_id":"two"}'),
    ]


async def test_a_key_with_other_content_is_an_incident_and_the_first_stands(live: ConsumerHarness) -> None:
    """The inbox had forgotten the event, and the code has changed: the second intent is not the first."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        event = driver.read(OrderPaid(), "o1", 1, id="a", seq=1)
        await driver.settle(event)
        assert await inspection.count_intents(live) == 1
        await live.pool.execute(
            "delete from projectionist.inbox; delete from projectionist.positions; "
            """update projectionist.intents set body = '{"order_id":"else"}', hash = 'else'"""
        )
        driver.context.positions.clear()
        await driver.settle(event)

    assert await live.fetch("select convert_from(body, 'utf8') from {s}.intents") == [
        ('{"order_id":"else"}',)
    ]
    assert await inspection.rows(live, "incidents", "kind", "seq", "id") == [("intent_reuse", 1, "a")]


async def test_a_consumer_renamed_without_a_word_is_refused_because_its_table_is_anothers(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)

    with pytest.raises(ReadModelError, match=r'formerly=\("Orders",\)'):
        await live.migrate(renamed(live.stream, ()))


async def test_a_consumer_renamed_with_formerly_keeps_inbox_positions_and_keys(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 1, id="a")
    await live.settle(s.Orders)

    await live.migrate(cls := renamed(live.stream, ("Orders",)))
    again = await live.publish(OrderPaid(), "o1", 1, id="a")
    await live.publish(OrderPaid(), "o1", 2, id="b")
    await live.settle(cls)

    assert await live.rows("orders") == [("o1", "paid", 0, '["paid", "paid"]')]
    assert await inspection.rows(live, "duplicates", "seq") == [(again,)]
    assert await inspection.rows(live, "intents", "key", order="seq") == [
        (intent_key("Orders", "shop", name, "Receipt"),) for name in ("a", "b")
    ]


def renamed(stream: Stream, formerly: tuple[str, ...]) -> type:
    """`Orders` under another name."""

    class Purchases(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        formerly=formerly,
    ):
        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    return Purchases
