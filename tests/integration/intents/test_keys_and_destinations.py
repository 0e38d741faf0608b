"""Names that keys, addresses and counters are made of: one name never stands for two things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderPaid, Receipt

from projectionist.outbox import Intent
from projectionist.outbox.intents.intent import MOST_PLACE, Slotted
from projectionist.projections import Envelope, Reactor, on
from projectionist.runner.read_models.change_plan import ReadModelError

pytestmark = pytest.mark.asyncio


class Parcel(Intent, provider="parcels", destination="to", order_by="lane"):
    """An intent whose address and order come from fields."""

    to: str | None = None
    lane: str | None = None


def mailer(stream: Stream, **keywords: Any) -> type:
    """A reactor that sends a receipt for each payment."""

    class Mailer(
        Reactor,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        **({"effects": "beginning"} | keywords),
    ):
        @on(OrderPaid)
        def paid(self, event: OrderPaid, envelope: Envelope) -> Receipt:
            return Receipt(envelope.aggregate_id or "")

    return Mailer


async def test_the_name_that_a_renamed_consumers_keys_are_made_of_is_not_given_to_another(
    live: ConsumerHarness,
) -> None:
    """Both would make the same intent keys, and the second one's effects would vanish without a word."""
    await live.migrate(mailer(live.stream))
    await live.migrate(mailer(live.stream, name="Sender", formerly=("Mailer",)))

    with pytest.raises(ReadModelError, match="intent keys of 'Sender'"):
        await live.migrate(mailer(live.stream))

    back = mailer(live.stream, formerly=("Sender",))
    await live.migrate(back)
    await live.publish(OrderPaid(), "o1", 1)
    await live.settle(back)
    assert await inspection.count_intents(live) == 1


async def test_silent_intents_are_counted_by_few_names_whatever_slots_a_handler_makes_up(
    live: ConsumerHarness,
) -> None:
    """A row a slot, an hour and a process would grow with the stream."""

    class Lines(
        Reactor,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
    ):
        @on(OrderPaid)
        def paid(self, event: OrderPaid, envelope: Envelope) -> list[Slotted]:
            return [Receipt("line").slot(f"{envelope.aggregate_id} line {n}") for n in range(3)]

    for number in range(4):
        await live.publish(OrderPaid(), f"o{number}", 1)
    await live.migrate(Lines)
    await live.settle(Lines)

    assert await live.fetch("select outcome, n from {s}.counters where outcome like 'suppressed%'") == [
        ("suppressed_Receipt", 12)
    ]


def sends(live: ConsumerHarness, parcel: Callable[[OrderPaid], Parcel]) -> type[Reactor]:
    """A reactor that answers each payment with this parcel."""

    class Sender(
        Reactor,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        @on(OrderPaid)
        def paid(self, event: OrderPaid, envelope: Envelope) -> Parcel:
            return parcel(event)

    return Sender


async def test_an_intent_without_an_address_or_an_order_gets_neither_from_the_word_none(
    live: ConsumerHarness,
) -> None:
    sender = sends(live, lambda event: Parcel(to="north" if event.cents else None))
    await live.migrate(sender)
    async with batch_drivers(live, sender) as (driver,):
        await driver.settle(driver.read(OrderPaid(cents=1), "o1", 1), driver.read(OrderPaid(), "o2", 1))

    assert await inspection.rows(live, "intents", "destination", "ordering") == [("north", None)]
    assert await inspection.rows(live, "positions", "aggregate", "head", order="aggregate") == [
        ("order/o1", "clear"),
        ("order/o2", "waiting"),
    ]
    assert "destination" in await inspection.parked_error(live)


async def test_an_intent_that_cannot_be_stored_fails_its_event_alone(
    live: ConsumerHarness,
) -> None:
    """A staged intent that is refused when it is unpacked would stop every relay, for good."""
    odd = "".join(chr(0x100 + n * 7919 % 40000) for n in range(2000))
    parcels = {
        1: Parcel(to=odd),
        2: Parcel(to="north", lane=odd),
        3: Parcel(to="no\0rth"),
        4: Parcel(to="north", lane="x" * 9_000_000),
        5: Parcel(to="n" * MOST_PLACE, lane=odd[:300]),
    }

    sender = sends(live, lambda event: parcels[event.cents])
    await live.migrate(sender)
    async with batch_drivers(live, sender) as (driver,):
        await driver.settle(*(driver.read(OrderPaid(cents=n), f"o{n}", 1) for n in parcels))

    assert await inspection.count_intents(live) == 1, "they are opened"
    assert await live.fetch("select aggregate, head from {s}.positions where head <> 'clear' order by 1") == [
        (f"order/o{n}", "waiting") for n in range(1, 5)
    ]
    assert await live.value("select count(*) from {s}.parked where error like 'Parcel%'") == 4
