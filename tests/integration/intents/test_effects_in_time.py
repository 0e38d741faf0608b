"""What handlers schedule and take back, through consumers, streams and relays as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.resetting import WHY
from tests.support.retention import age, purge
from tests.support.scheduling import Scheduling, scheduling
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced
from tests.support.waiting import eventually

from projectionist.core.testpoints import listen
from projectionist.outbox import Cancel, Intent, IntentReused, Outbox, Scheduled
from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio

DAY = timedelta(days=1)
TOMORROW = datetime.now(UTC).replace(microsecond=0) + DAY


class Reminder(Intent, provider="stub"):
    """A reminder."""

    order: str


def reminders(stream: Stream) -> type:
    """A projection that reminds a day after the order, unless it is paid, and postpones by a note."""

    class Reminders(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="reminded",
        key="order",
        effects="beginning",
    ):
        order: str
        paid: bool = False

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> Scheduled:
            return Reminder(self.order).at(TOMORROW)

        @on(OrderNoted)
        def postponed(self, event: OrderNoted) -> Iterator[Cancel | Scheduled]:
            yield Reminder(self.order).after(2 * DAY)
            yield Cancel(Reminder)

        @on(OrderPaid)
        def settled(self, event: OrderPaid) -> Cancel:
            self.paid = True
            return Cancel(Reminder)

    return Reminders


@pytest_asyncio.fixture
async def schedule(live: ConsumerHarness) -> AsyncIterator[Scheduling]:
    async with scheduling(live.database, registered=True) as made:
        yield made


async def test_a_runner_that_is_down_over_the_due_time_costs_no_reminder(
    live: ConsumerHarness, cli: Cli, schedule: Scheduling
) -> None:
    consumer, opener = reminders(live.stream), schedule.opener()
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderPlaced("bob", 1), "o2", 1)
    await live.settle(consumer)
    await opener.step()
    await live.publish(OrderPaid(), "o1", 2)
    await schedule.passes(2 * DAY)
    await opener.step()
    assert await schedule.reasons() == {"behind"}

    await live.settle(consumer)
    await opener.step()
    paid, unpaid = await schedule.keys()
    assert (await schedule.place(paid), await schedule.place(unpaid)) == ("cancelled", "ready")
    wished, taken = await cli.done("journey", "e1"), await cli.done("journey", "e3")
    assert "taken back by event e3" in wished
    assert "Reminder: 1 taken back, 0 too late" in taken
    assert "scheduled for" in await cli.done("journey", "e2")


async def test_a_reschedule_replaces_what_was_scheduled_and_stays(
    live: ConsumerHarness, schedule: Scheduling
) -> None:
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("later"), "o1", 2, headers={"ce-time": TOMORROW.isoformat()})
    await live.settle(consumer)
    await schedule.opener().step()
    old, new = await schedule.keys()
    assert (await schedule.place(old), await schedule.place(new)) == ("cancelled", "scheduled")
    assert await schedule.counted(2, "order/o1") == (True, 1, 0)


async def test_an_event_without_a_time_fails_where_its_time_is_needed(live: ConsumerHarness) -> None:
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("later"), "o1", 2)
    await live.settle(consumer)
    assert [text for (text,) in await inspection.rows(live, "parked", "error")] == [
        "Reminder.after(2 days, 0:00:00): its event says no time; publish it with one, or use at(…)"
    ]
    assert await live.rows("reminded") == [("o1", False)]


async def test_a_rebuild_schedules_nothing_and_takes_nothing_back(rebuilds: RebuildHarness) -> None:
    live = rebuilds.harness
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderPlaced("bob", 1), "o2", 1)
    await live.publish(OrderPaid(), "o2", 2)
    await live.settle(consumer)
    async with scheduling(live.database, registered=True) as schedule:
        await schedule.opener().step()
        asked = await schedule.asked()
        assert asked == (2, 1)
        rebuilt = await rebuilds.rebuild(consumer)
        await schedule.opener().step()
        assert rebuilt.silent == {"Reminder": 2, "Cancel(Reminder)": 1}
        assert await schedule.asked() == asked


async def test_a_reset_asks_what_becomes_of_what_is_scheduled(
    live: ConsumerHarness, cli: Cli, schedule: Scheduling
) -> None:
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(consumer)

    assert "--scheduled keep" in await cli.refused("reset", "Reminders", "--yes", *WHY)
    done = await cli.seen("reset", "Reminders", "--yes", "--scheduled", "keep", *WHY)
    assert (done["scheduled"], done["kept"]) == (1, True)
    [key] = await schedule.keys()
    assert await schedule.place(key) == "scheduled"
    await cli.seen("reset", "Reminders", "--yes", "--scheduled", "discard", *WHY)
    await live.settle(consumer)
    assert await schedule.place(key) == "discarded"


async def test_what_was_taken_back_is_purged_like_what_was_sent(
    live: ConsumerHarness, schedule: Scheduling
) -> None:
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    for number in (1, 2):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    await live.publish(OrderPaid(), "o1", 2)
    await live.settle(consumer)
    await schedule.opener().step()
    _, waiting = await schedule.keys()
    await age(live, 60)
    await purge(live, consumer)
    assert await schedule.keys() == [waiting]
    assert await schedule.asked() == (1, 0)
    assert await schedule.reasons() == {"its time"}


async def test_a_floor_that_is_written_but_not_committed_vouches_for_nothing(
    live: ConsumerHarness, schedule: Scheduling
) -> None:
    """Floor and time stand in one row: whoever dies between the two has written neither."""
    consumer = reminders(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(consumer)
    before = await schedule.floor()

    class Died(Exception):
        pass

    def die(name: str) -> None:
        if name == "floor.written":
            raise Died

    await live.publish(OrderPaid(), "o1", 2)
    stop = listen(die)
    try:
        await live.settle(consumer)
    finally:
        stop()
    assert await schedule.floor() == before

    async def moved() -> bool:
        floor, caught_up = await schedule.floor()
        return (floor, caught_up) > before and caught_up > before[1]

    async with live.running(consumer):
        await eventually(moved)


async def test_a_producer_schedules_by_the_clock(schedule: Scheduling) -> None:
    shop, opener = Outbox("checkout"), schedule.opener()
    async with schedule.connection.transaction():
        key = await shop.add(schedule.connection, Reminder("o1").at(TOMORROW), id="o1-asked")
        again = await shop.add(schedule.connection, Reminder("o1").at(TOMORROW), id="o1-asked")
        with pytest.raises(IntentReused):
            await shop.add(schedule.connection, Reminder("o1").at(TOMORROW + DAY), id="o1-asked")
        with pytest.raises(ValueError, match="has no event whose time would count"):
            await shop.add(schedule.connection, Reminder("o1").after(DAY), id="other")
        with pytest.raises(ValueError, match="more than ten years"):
            await shop.add(schedule.connection, Reminder("o1").at(TOMORROW + 5000 * DAY), id="other")
    assert key == again
    await opener.step()
    assert await schedule.place(key) == "scheduled"
    await schedule.passes(2 * DAY)
    await opener.step()
    assert await schedule.place(key) == "ready"
