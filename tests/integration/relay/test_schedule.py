"""Intents that are sent later wait beside the outbox, enter it when they are due, and are taken back before that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from tests.support.outbox import made, scripted
from tests.support.scheduling import Scheduling, scheduling

from projectionist.core.operator import Act
from projectionist.outbox.admin.intent_actions import IntentActions, IntentFilter
from projectionist.outbox.admin.status import look
from projectionist.outbox.intents.staging import Guard

pytestmark = pytest.mark.asyncio

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PAST = -HOUR


@pytest_asyncio.fixture
async def shop(database: str) -> AsyncIterator[Scheduling]:
    async with scheduling(database) as made:
        yield made


async def test_what_is_due_later_is_in_no_lane_until_then(shop: Scheduling) -> None:
    later = await shop.wish(1, DAY)
    now = await shop.wish(2, None, slot="Receipt", class_name="Receipt")
    opener = shop.opener()
    await opener.step()
    assert (await shop.place(later), await shop.place(now)) == ("scheduled", "ready")

    await shop.passes(DAY + HOUR)
    await shop.catch_up()
    await opener.step()
    assert await shop.place(later) == "ready"


async def test_of_one_lane_those_that_are_due_enter_in_the_order_of_their_times(shop: Scheduling) -> None:
    second, first = await shop.wish(1, 2 * HOUR), await shop.wish(2, HOUR)
    await shop.opener().step()
    waiting = await shop.wish(3, None, slot="Receipt", class_name="Receipt")
    await shop.opener().step()
    await shop.passes(DAY)
    await shop.catch_up()
    await shop.opener().step()

    assert await shop.lane("order/1") == [waiting, first, second]


@pytest.mark.parametrize("state", ["scheduled", "ready", "leased", "held"])
async def test_what_has_not_begun_is_taken_back(shop: Scheduling, state: str) -> None:
    key = await shop.wish(1, PAST if state != "scheduled" else DAY)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    if state != "scheduled":
        await shop.put(key, state)
    await shop.cancel(2)
    await opener.step()

    assert await shop.place(key) == "cancelled"
    assert await shop.counted(2) == (True, 1, 0)
    assert await shop.lane("order/1") == []
    found = await IntentActions(shop.connection, "projectionist").show(key)
    assert (found["cancelled_by_source"], found["cancelled_by"]) == ("shop", "order/1:2")


@pytest.mark.parametrize(
    ("state", "attempt"),
    [("ready", 1), ("started", 1), ("unknown", 1), ("reconcile", 1), ("dead", 3), ("leased", 1)],
)
async def test_what_has_begun_goes_on_and_is_counted_as_late(
    shop: Scheduling, state: str, attempt: int
) -> None:
    key = await shop.wish(1, PAST)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    await shop.put(key, state, attempt)
    await shop.cancel(2)
    await opener.step()

    assert await shop.place(key) == state
    assert await shop.counted(2) == (True, 0, 1)


@pytest.mark.parametrize("state", ["sent", "discarded"])
async def test_what_is_settled_stays_as_it_is_and_is_counted_as_late(shop: Scheduling, state: str) -> None:
    key = await shop.wish(1, PAST)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    await shop.settle(key, state)
    await shop.cancel(2)
    await opener.step()

    assert await shop.place(key) == state
    assert await shop.counted(2) == (True, 0, 1)


async def test_a_relay_that_had_leased_what_is_taken_back_starts_nothing(shop: Scheduling) -> None:
    key = await shop.wish(1, PAST)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    found = await shop.senders.lease("stub", after="", most=10, steps=10, timeout_s=5.0)
    assert [each.request.key for each in found.leased] == [key]
    await shop.cancel(2)
    await opener.step()

    assert await shop.senders.start(found.leased, None) == []
    assert await shop.place(key) == "cancelled"


async def test_a_row_that_another_session_holds_is_judged_at_the_next_look(shop: Scheduling) -> None:
    """The row lock decides between a start and a cancel: here the start was first."""
    key = await shop.wish(1, PAST)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    await shop.cancel(2)
    async with shop.connection.transaction():
        await shop.put(key, "started", 1)
        await opener.step()
        assert await shop.counted(2) == (False, 0, 0)
    await opener.step()
    assert (await shop.place(key), await shop.counted(2)) == ("started", (True, 0, 1))


async def test_a_cancel_that_another_session_applies_keeps_out_what_it_is_about(shop: Scheduling) -> None:
    key, free = await shop.wish(1, PAST), await shop.wish(1, PAST, aggregate="order/2")
    await shop.cancel(2)
    await shop.stores[0].open()
    async with shop.held("cancels"):
        await shop.opener().step()
        assert (await shop.place(key), await shop.place(free)) == ("scheduled", "ready")
    await shop.opener().step()
    assert await shop.place(key) == "cancelled"
    assert await shop.counted(2) == (True, 1, 0)


async def test_what_was_held_while_its_cancel_was_applied_does_not_enter_when_it_is_free(
    shop: Scheduling,
) -> None:
    key, store = await shop.wish(1, PAST), shop.stores[0]
    await shop.cancel(2)
    await store.open()
    due = await store.look()
    async with shop.held("schedule"):
        assert await store.cancel() == (1, 1)
    assert await store.promote(due) == 0
    await shop.opener().step()
    assert await shop.place(key) == "cancelled"


async def test_a_cancel_is_about_its_own_slot_class_aggregate_and_lower_versions_alone(
    shop: Scheduling,
) -> None:
    mine = await shop.wish(3, DAY)
    others = [
        await shop.wish(2, DAY, slot="second"),
        await shop.wish(3, DAY, slot="Notice", class_name="Notice"),
        await shop.wish(3, DAY, aggregate="order/2"),
        await shop.wish(4, DAY),
        await shop.wish(5, DAY),
    ]
    await shop.cancel(4)
    await shop.opener().step()

    assert await shop.place(mine) == "cancelled"
    assert {await shop.place(key) for key in others} == {"scheduled"}


async def test_a_cancel_is_about_what_its_own_view_has_asked_for(shop: Scheduling) -> None:
    key = await shop.wish(1, DAY, view=7)
    opener = shop.opener()
    await shop.cancel(2, view=8)
    await opener.step()
    assert (await shop.place(key), await shop.counted(2)) == ("scheduled", (True, 0, 0))

    await shop.cancel(3, view=7)
    await opener.step()
    assert (await shop.place(key), await shop.counted(3)) == ("cancelled", (True, 1, 0))


@pytest.mark.parametrize(("asked", "taken_back"), [(None, 7), (7, None)], ids=["an intent", "a cancel"])
async def test_what_is_from_before_views_were_on_record_is_taken_back_and_takes_back(
    shop: Scheduling, asked: int | None, taken_back: int | None
) -> None:
    """Else an upgrade would send every reminder whose Cancel comes after it."""
    key = await shop.wish(1, DAY, view=asked)
    opener = shop.opener()
    await shop.cancel(2, view=taken_back)
    await opener.step()
    assert (await shop.place(key), await shop.counted(2)) == ("cancelled", (True, 1, 0))


async def test_an_intent_of_a_class_that_was_renamed_since_is_taken_back(shop: Scheduling) -> None:
    key = await shop.wish(1, DAY)
    await shop.cancel(2, names=("Nudge", "Reminder"))
    await shop.opener().step()
    assert await shop.place(key) == "cancelled"


async def test_nothing_is_promoted_before_its_consumer_has_caught_up_with_its_time(shop: Scheduling) -> None:
    waits = await shop.wish(1, HOUR)
    sends = await shop.wish(2, HOUR, slot="Notice", class_name="Notice", guard=Guard.CLOCK)
    opener = shop.opener()
    await opener.step()
    await shop.passes(DAY)
    await shop.catch_up(DAY)
    await opener.step()
    assert (await shop.place(waits), await shop.place(sends)) == ("scheduled", "ready")
    assert await shop.reasons() == {"behind"}

    await shop.catch_up()
    await opener.step()
    assert await shop.place(waits) == "ready"


async def test_what_is_parked_of_its_aggregate_holds_an_intent(shop: Scheduling) -> None:
    held, free = await shop.wish(1, PAST), await shop.wish(1, PAST, aggregate="order/2")
    await shop.park("order/1", 2)
    opener = shop.opener()
    await opener.step()
    await opener.step()
    assert (await shop.place(held), await shop.place(free)) == ("scheduled", "ready")
    assert await shop.reasons() == {"parked"}

    await shop.cancel(2)
    await shop.unpark("order/1", 2)
    await shop.passes(HOUR)
    await shop.catch_up()
    await opener.step()
    assert await shop.place(held) == "cancelled"


async def test_what_could_not_be_opened_holds_the_intents_of_its_consumer(shop: Scheduling) -> None:
    """A Cancel may be in it."""
    key = await shop.wish(1, PAST)
    opener = shop.opener()
    await opener.step()
    await shop.connection.execute(
        "insert into projectionist.staged_intents (consumer, incarnation, intents, encoded) values (1, 1, 1, 'x')"
    )
    await opener.step()
    await opener.step()
    assert await shop.place(key) == "scheduled"
    assert await shop.reasons() == {"refused"}

    await shop.connection.execute("delete from projectionist.staged_intents")
    await opener.step()
    assert await shop.place(key) == "ready"


async def test_another_due_under_the_same_key_is_an_incident_and_the_first_stands(shop: Scheduling) -> None:
    key = await shop.wish(1, DAY)
    await shop.wish(1, 2 * DAY, key=key)
    await shop.opener().step()

    assert [left < DAY for left in await shop.left()] == [True]
    assert await shop.incidents() == ["intent_reuse"]


async def test_what_is_too_late_is_discarded_unless_it_has_begun(shop: Scheduling) -> None:
    keys = [await shop.wish(n, HOUR, aggregate=f"order/{n}", expires=HOUR) for n in range(1, 4)]
    opener = shop.opener()
    await opener.step()
    await shop.passes(HOUR)
    await shop.catch_up()
    await shop.connection.execute(
        "update projectionist.schedule set look = look + interval '1 day' where aggregate = 'order/3'"
    )
    await opener.step()
    await shop.put(keys[0], "started", 1)
    assert [await shop.place(key) for key in keys] == ["started", "ready", "scheduled"]

    await shop.passes(DAY)
    await shop.catch_up()
    await opener.step()
    assert [await shop.place(key) for key in keys] == ["started", "discarded", "discarded"]


async def test_an_operator_discards_and_sends_at_once_what_is_scheduled(shop: Scheduling) -> None:
    gone, sent = await shop.wish(1, DAY), await shop.wish(2, DAY, slot="second")
    actions = IntentActions(shop.connection, "projectionist")
    listed = await actions.each(IntentFilter(), 10)
    assert [(row["key"], row["state"]) for row in listed] == [(gone, "scheduled"), (sent, "scheduled")]
    assert (await actions.show(gone))["waits_for"] == "its time"

    await actions.discard([gone], Act("ann", "moved away"))
    await actions.retry([sent], Act("ann", "asked for it"))
    assert (await shop.place(gone), await shop.place(sent)) == ("discarded", "ready")
    [leased] = (await shop.senders.lease("stub", after="", most=10, steps=10, timeout_s=5.0)).leased
    due = leased.request.due
    assert due is not None
    assert (
        leased.request.created < due < leased.request.created + HOUR
    )  # sooner than asked for: now, and not tomorrow
    await shop.senders.put_back([leased])
    await shop.passes(2 * DAY)
    await shop.catch_up()
    await shop.opener().step()
    assert (await shop.place(gone), await shop.place(sent)) == ("discarded", "ready")


async def test_after_a_failover_only_what_was_due_before_it_is_doubted(shop: Scheduling) -> None:
    before, after = await shop.wish(1, PAST), await shop.wish(2, HOUR, slot="second")
    opener = shop.opener()
    await opener.step()
    await shop.connection.execute(
        """insert into projectionist.relay_owner (token, epoch, doubted, since)
        values (gen_random_uuid(), 2, 1000, clock_timestamp())"""
    )
    await opener.step()
    await shop.passes(2 * HOUR)
    await shop.connection.execute("update projectionist.relay_owner set since = since - interval '2 hours'")
    await shop.catch_up()
    await opener.step()
    assert await shop.epochs() == {before: None, after: 2}


async def test_what_is_overdue_is_told_with_what_it_waits_for(shop: Scheduling) -> None:
    await shop.wish(1, DAY)
    await shop.wish(1, -DAY, aggregate="order/2")
    await shop.catch_up(2 * DAY)
    await shop.opener().step()
    status = await look(shop.connection, "projectionist")
    assert {(one.consumer, one.waits_for, one.count) for one in status.scheduled} == {
        ("Shop", "its time", 1),
        ("Shop", "behind", 1),
    }
    [trouble] = status.troubles
    assert trouble.about == "Shop"
    assert trouble.text.endswith("wait until it has settled what was published before")


async def test_a_relay_sends_what_is_due_unasked(shop: Scheduling) -> None:
    stub = scripted()
    sent, cancelled = await shop.wish(1, timedelta(seconds=1)), await shop.wish(1, DAY, aggregate="order/2")
    await shop.cancel(2, aggregate="order/2")
    await shop.catch_up(-DAY)
    async with shop.harness.relaying(made(stub)):
        await shop.harness.becomes(sent, "sent")
    assert stub.executions == {sent: 1}
    assert await shop.place(cancelled) == "cancelled"
