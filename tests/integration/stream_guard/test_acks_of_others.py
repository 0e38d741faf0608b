"""Acks that were not ours: noticed by what batches have put on record, and healed by reading again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, tuned
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.projections import Projection, on
from projectionist.runner.stream_guard import ack_audit, checkpoint_store

pytestmark = pytest.mark.asyncio

OPEN = "select count(*) from {s}.incidents where kind = 'acked_elsewhere' and closed is null"


class Thief:
    """Somebody who pulls from a durable and acks whatever comes, as `nats consumer next` does."""

    def __init__(self, harness: ConsumerHarness, durable: str) -> None:
        self._harness = harness
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{harness.stream.name}.{durable}"
        self.inbox = harness.nats.new_inbox()
        self.took: set[int] = set()

    async def ask(self, times: int = 1) -> None:
        """Order so many messages, one at a time."""
        for _ in range(times):
            await self._harness.nats.publish(
                self._next, b'{"batch":1,"expires":3000000000}', reply=self.inbox
            )

    async def ack(self, message: Msg) -> None:
        """Ack what came."""
        if message.reply:
            self.took.add(int(message.reply.split(".")[-4]))
            await self._harness.nats.publish(message.reply, b"+ACK")


@asynccontextmanager
async def thief(harness: ConsumerHarness) -> AsyncIterator[Thief]:
    durable = await inspection.durable_name(harness, "Orders")
    made = Thief(harness, durable)
    subscription = await harness.nats.subscribe(made.inbox, cb=made.ack)
    try:
        yield made
    finally:
        await subscription.unsubscribe()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("sequence", ["contiguous", "unordered", "monotonic"])
async def test_what_somebody_else_acks_while_a_runner_works_is_read_again_and_told(
    live: ConsumerHarness, sequence: Any, processes: int
) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders, processes=processes):
            await heard.wait("worker.running", processes)
            async with thief(live) as other:
                for number in range(30):
                    await other.ask(3)
                    await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
                assert other.took
                await eventually(lambda: count(live, 30))
                await heard.wait("stream_guard.acked_elsewhere")
                await live.settled(s.Orders)

    assert await live.unaccounted(s.Orders) == []
    assert await live.value(OPEN) >= 1
    await closed(live)


async def count(harness: ConsumerHarness, rows: int) -> bool:
    return len(await harness.rows("orders")) == rows


async def closed(harness: ConsumerHarness) -> None:
    """The incident is dealt with; whatever else the look at the end finds is not."""
    await harness.fetch("delete from {s}.incidents where kind = 'acked_elsewhere'")


async def test_what_somebody_else_acks_while_nobody_reads_is_read_by_the_next_start(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    async with thief(live) as other:
        for version in range(2, 5):
            await live.publish(OrderPaid(), "o1", version)
            await other.ask()
        await eventually(lambda: took(other, 3))

    await live.settle(s.Orders)

    assert (await live.head(s.Orders, "order/o1"))[0] == 4


async def at_rest(harness: ConsumerHarness) -> bool:
    """Whether the broker has nothing left to deliver, and every ack."""
    durable = await inspection.durable_name(harness)
    info = await harness.nats.jetstream().consumer_info(harness.stream.name, durable)
    return not info.num_pending and not info.num_ack_pending


async def took(other: Thief, messages: int) -> bool:
    return len(other.took) == messages


async def test_a_start_beside_others_reads_again_what_somebody_else_has_acked(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    tuned(live, run={"heartbeat_s": 60})  # whoever is at work looks at nothing meanwhile
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.running")
            async with thief(live) as other:
                while not other.took:
                    await other.ask(3)
                    await live.publish(OrderPlaced("ann", 1), f"o{heard.counts['batch.acked']}", 1)
                await eventually(lambda: at_rest(live))
            async with live.running(s.Orders):
                await heard.wait("stream_guard.acked_elsewhere")
                await live.settled(s.Orders)

    assert await live.unaccounted(s.Orders) == []
    await closed(live)


async def test_redeliveries_are_listed_and_taken_for_nobodys_acks(live: ConsumerHarness) -> None:
    live.needs_nats(2, 14, "moves durables")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    async with live.running(s.Orders, s.Spend):
        await live.settled(s.Orders, s.Spend)
    for name in await inspection.rows(live, "consumers", "durable"):
        await live.nats.request(f"$JS.API.CONSUMER.RESET.{live.stream.name}.{name[0]}", b'{"seq": 5}')

    with listening() as heard:
        async with live.running(s.Orders, s.Spend, processes=2):
            await load.more(20)
            await live.settled(s.Orders, s.Spend)
            await live.value_of("select min(floor) from {s}.floors", 80)
            assert heard.counts["stream_guard.acked_elsewhere"] == 0

    await load.check()
    assert await inspection.count_marks(live, "settled_batches") == 0


def between(stream: Stream) -> type[Projection]:
    """Orders alone, of a stream that holds others too."""

    class Mine(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="mine",
        key="order_id",
    ):
        order_id: str
        total: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.total += 1

    return Mine


async def test_what_comes_together_while_a_floor_stands_is_listed_in_steps_and_not_counted(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ack_audit, "MOST_BYTES", 7)
    monkeypatch.setattr(ack_audit, "MOST", 1)
    cls = between(live.stream)
    await live.migrate(cls)
    for number in range(20):
        await live.publish(OrderPlaced("ann", 1), f"x{number}", 1, place="other")
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    with listening() as heard:
        async with live.running(cls):
            await inspection.reaches(40, inspection.ack_floor, live)

    assert heard.counts["account.listed"] > 0
    assert await live.value(OPEN) == 0
    assert await inspection.count_marks(live, "settled_batches") == 0


@pytest.mark.parametrize("others", [False, True])
async def test_events_settled_above_a_standing_floor_take_few_rows_and_none_once_it_moves(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch, *, others: bool
) -> None:
    monkeypatch.setattr(checkpoint_store, "MOST_ROWS", 5)
    monkeypatch.setattr(checkpoint_store, "RUN", 10)
    cls = between(live.stream)
    await live.migrate(cls)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    await live.pool.execute("alter table projectionist.quarantine add constraint odd check (seq <> 1)")
    tuned(live, run={"heartbeat_s": 0.3}, policy={"ack_wait_s": 1.0}, rows=1)
    await live.publish(OrderPlaced("ann", 1), "odd", 1, id="odd")
    async with live.running(cls):
        for number in range(60):
            await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            if others:
                await live.publish(OrderPlaced("ann", 1), f"x{number}", 1, place="other")
        await live.value_of("select count(*) from mine", 60)
        await live.value_of("select count(*) <= 11 from {s}.settled_batches", True)
        assert await inspection.ack_floor(live) == 0
        await live.pool.execute("alter table projectionist.inbox drop constraint odd")
        await live.value_of("select floor >= $1 from {s}.floors", True, 120 if others else 61)
        await inspection.reaches(0, inspection.count_marks, live, "settled_batches")

    assert await live.value(OPEN) == 0
    assert await live.value("select count(*) from mine") == 61


async def test_what_has_piled_up_above_a_floor_is_joined_in_short_steps(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_store, "MOST_ROWS", 5)
    monkeypatch.setattr(checkpoint_store, "RUN", 10)
    monkeypatch.setattr(checkpoint_store, "AT_ONCE", 30)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    number, durable = (await inspection.rows(live, "consumers", "number", "durable"))[0]
    await live.fetch(
        "insert into {s}.settled_batches (consumer, incarnation, lowest, highest, seqs) "
        "select $1, 1, 18 * b + 1, 18 * b + 17, array(select 18 * b + 2 * k + 1 from generate_series(0, 8) k) "
        "from generate_series(0, 19) b",
        number,
    )
    settled = "select array_agg(seq order by seq) from {s}.settled_batches cross join unnest(seqs) as seq"
    before = await live.value(settled)
    floors = checkpoint_store.Floors(SCHEMA, "Orders", durable, live.stream.name)
    with listening() as heard:
        async with live.connected() as connection:
            await floors.join_settled(connection, number)

    assert heard.counts["floor.joined"] >= 180 // 30
    assert await live.value("select max(cardinality(seqs)) from {s}.settled_batches") == 10
    assert await live.value(
        "select count(*) filter (where cardinality(seqs) < 10) <= 5 from {s}.settled_batches"
    )
    assert await live.value(settled) == before


async def test_joining_ends_where_a_step_can_join_nothing(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two incarnations lie between each other, and no step takes enough of either to fill a row."""
    monkeypatch.setattr(checkpoint_store, "MOST_ROWS", 1)
    monkeypatch.setattr(checkpoint_store, "RUN", 5)
    monkeypatch.setattr(checkpoint_store, "AT_ONCE", 5)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    number, durable = (await live.fetch("select number, durable from {s}.consumers"))[0]
    await live.fetch(
        "insert into {s}.settled_batches (consumer, incarnation, lowest, highest, seqs)"
        " values ($1, 1, 1, 3, '{1,3}'), ($1, 2, 2, 4, '{2,4}'), ($1, 1, 11, 13, '{11,13}')",
        number,
    )
    floors = checkpoint_store.Floors(SCHEMA, "Orders", durable, live.stream.name)
    async with live.connected() as connection, asyncio.timeout(HANG_S):
        await floors.join_settled(connection, number)

    settled = "select incarnation, array_agg(seq order by seq) from {s}.settled_batches, unnest(seqs) as seq"
    assert await live.fetch(f"{settled} group by 1 order by 1") == [(1, [1, 3, 11, 13]), (2, [2, 4])]


async def test_messages_of_others_between_ours_are_counted_and_not_listed(live: ConsumerHarness) -> None:
    cls = between(live.stream)
    await live.migrate(cls)
    with listening() as heard:
        async with live.running(cls):
            await live.publish(OrderPlaced("ann", 1), "first", 1)
            await inspection.reaches(1, inspection.value, live, "floors", "acked")
            listed = heard.counts["account.listed"]
            for number in range(20):
                await live.publish(OrderPlaced("ann", 1), f"x{number}", 1, place="other")
                await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await inspection.reaches(41, inspection.ack_floor, live)

    assert heard.counts["account.listed"] == listed
    assert await live.value("select count(*) from mine") == 21


async def test_a_durable_that_is_moved_ahead_before_its_first_message_loses_none(
    live: ConsumerHarness,
) -> None:
    live.needs_nats(2, 14, "moves durables")
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)

    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("stream_guard.recorded", 1)
            durable = await inspection.durable_name(live, "Orders")
            await live.nats.request(f"$JS.API.CONSUMER.RESET.{live.stream.name}.{durable}", b'{"seq": 6}')
            for number in range(5):
                await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await live.value_of("select count(*) from orders", 5)
    await closed(live)


async def test_what_is_deleted_from_the_stream_is_missed_by_nobody(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    for number in range(10):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    for seq in (1, 4, 10):
        await live.nats.jetstream().delete_msg(live.stream.name, seq)

    with listening() as heard:
        async with live.running(s.Orders):
            await live.value_of("select count(*) from orders", 7)
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 3)

    live.tampered = True  # three messages are gone
    assert await live.value(OPEN) == 0
