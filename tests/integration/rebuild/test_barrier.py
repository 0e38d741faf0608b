"""While somebody has a consumer for himself all its batches wait: for PostgreSQL alone, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.consumers.test_evolve import grown
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.peers import peer_takes
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import Heard, cancelled, listening

from projectionist.core import testpoints
from projectionist.core.operator import Act
from projectionist.core.postgres import connections
from projectionist.core.postgres.connections import Connection
from projectionist.core.retry_policy import RetryPolicy
from projectionist.projections import SqlProjection, Tx, definition, on
from projectionist.runner.admin.reset import CannotReset, Resetting
from projectionist.runner.admin.retire import CannotRetire, Retiring
from projectionist.runner.database import barrier
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.database.queries import Queries
from projectionist.runner.jetstream import stream_tail
from projectionist.runner.jetstream.api import BrokerError
from projectionist.runner.rebuild import catch_up
from projectionist.runner.rebuild.times import RebuildTimes
from projectionist.runner.stream_guard.adopt_stream import Adoption
from projectionist.runner.verify.recompute import recompute

pytestmark = pytest.mark.asyncio


class Asking:
    """Somebody who asks for the barrier as batches do, again and again."""

    def __init__(self) -> None:
        self._heard = Heard()

    async def run(self, live: ConsumerHarness, consumer: int) -> None:
        """Ask until cancelled."""
        async with live.pool.acquire() as connection:
            await connection.execute("set lock_timeout = 0")
            while True:
                async with connection.transaction():
                    await connection.execute(
                        "select pg_advisory_xact_lock_shared($1)", barrier_key(SCHEMA, consumer)
                    )
                self._heard.note("passed")
                await asyncio.sleep(0.005)

    async def passes(self) -> None:
        """Return when whoever asks from now on has got through."""
        await self._heard.wait("passed", self._heard.counts["passed"] + 2)


@asynccontextmanager
async def asking(live: ConsumerHarness, cls: type) -> AsyncIterator[Asking]:
    """Somebody asks inside the block, and has got through before it begins."""
    one = Asking()
    task = asyncio.create_task(one.run(live, await inspection.consumer_number(live, definition(cls).name)))
    try:
        await one.passes()
        yield one
    finally:
        await cancelled(task)


async def test_a_broker_frozen_at_the_swap_delays_no_batch_and_the_swap_ends_after_it(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_tail, "BEFORE", 5)
    s, rebuilds = shop(live.stream), RebuildHarness(live)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "bad", 1)
    await live.publish(OrderNoted("bad"), "bad", 2)
    for number in range(20):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    with listening() as heard:
        async with live.running(s.Orders), asking(live, s.Orders) as asked:
            await live.settled(s.Orders)
            async with rebuilds.frozen(s.Orders, "swap.asked") as building:
                s.trouble.poison.clear()
                with live.servers.nats_stopped():
                    async with live.verbs(s.Orders) as verbs:
                        await verbs.retry("order/bad", Act("ops", "it is mended"))
                    await inspection.reaches(
                        2, inspection.value, live, "positions", "version", aggregate="order/bad"
                    )
                    rebuilds.free(building)
                    await heard.wait("swap.left")
                    await asked.passes()
            await building

    assert heard.counts["swap.committed"] == 1
    assert await rebuilds.generation(s.Orders) == 2
    assert (await live.rows("orders"))[0] == ("bad", "placed", 1, '["placed", "bad"]')


async def test_a_swap_under_load_folds_what_came_last_without_asking_the_broker(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = RebuildTimes(holds=RetryPolicy(initial_s=10.0, maximum_s=10.0))  # however busy the machine is
    s, rebuilds = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    for number in range(20):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    with listening() as heard:
        async with live.running(s.Orders):
            await live.settled(s.Orders)
            async with rebuilds.frozen(s.Orders, "swap.asked", times=times) as building:
                for number in range(20):
                    await live.publish(OrderNoted("late"), f"o{number}", 2)
                await live.settled(s.Orders)
                monkeypatch.setattr(catch_up, "fetch", None)
            await building

    assert heard.counts["swap.left"] == 0
    assert [row[3] for row in await live.rows("orders")] == ['["placed", "late"]'] * 20
    assert await rebuilds.generation(s.Orders) == 2


HOLDS_ALONE = """
    select exists (
        select from pg_locks where pid = pg_backend_pid() and locktype = 'advisory' and mode = 'ExclusiveLock'
    )
"""


async def test_handlers_of_sql_that_take_long_do_not_run_under_the_barrier_for_long(
    live: ConsumerHarness,
) -> None:
    """What came since the last round is folded outside when it takes longer than the barrier may be held."""
    policy = {"stream": live.stream.name, "subjects": live.stream.subject("order", "{aggregate}")}
    times = RebuildTimes(holds=RetryPolicy(initial_s=0.5, maximum_s=10.0))  # ends on a slow machine too
    alone: list[bool] = []

    class Slow(SqlProjection, effects="beginning", **policy):
        """Takes its time over each note."""

        tables = {"slow": "note text primary key"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted) -> None:
            await tx.execute("select pg_sleep(0.1)")
            alone.append(await tx.fetchval(HOLDS_ALONE))
            await tx.execute("insert into {slow} (note) values ($1)", event.text)

    rebuilds = RebuildHarness(live)
    await live.migrate(Slow)
    await live.publish(OrderNoted("1"), "o1", 1)
    with listening() as heard:
        async with live.running(Slow):
            await live.settled(Slow)
            async with rebuilds.frozen(Slow, "swap.asked", times=times) as building:
                for version in range(2, 12):
                    await live.publish(OrderNoted(str(version)), "o1", version)
                await live.settled(Slow)
            await building

    assert heard.counts["swap.left"] >= 1
    assert alone.count(True) < 10, "it was cut off among those that had come since the last round"
    assert await live.value("select count(*)::int from slow") == 11
    assert await rebuilds.generation(Slow) == 2


@pytest.mark.parametrize("point", ["rebuild.opening", "rebuild.bulk_done", "swap.asked", "migrate"])
async def test_a_batch_that_stays_open_keeps_the_others_waiting_for_a_moment_at_a_time(
    live: ConsumerHarness, point: str
) -> None:
    s, rebuilds = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    number = await inspection.consumer_number(live)
    refused = "migrate.refused" if point == "migrate" else "barrier.refused"
    async with live.pool.acquire() as batch, asking(live, s.Orders) as asked:
        with listening() as heard:
            if point == "migrate":
                await _open(batch, number)
                changing: asyncio.Future[Any] = asyncio.ensure_future(live.migrate(grown(live.stream)))
            elif point == "rebuild.opening":
                await _open(batch, number)
                changing = asyncio.ensure_future(rebuilds.rebuild(s.Orders))
            else:
                async with rebuilds.frozen(s.Orders, point) as building:
                    await _open(batch, number)
                changing = building
            for many in range(1, 5):
                await heard.wait(refused, many)
                await asked.passes()
            await batch.execute("commit")
            await changing


async def _open(batch: Connection, consumer: int) -> None:
    await batch.execute("begin")
    await batch.execute("select pg_advisory_xact_lock_shared($1)", barrier_key(SCHEMA, consumer))


MANY = 200_000


async def test_batches_go_on_while_moved_aggregates_are_marked_and_the_marks_removed(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SESSION, "idle_in_transaction_session_timeout", "0")
    s, rebuilds = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    number = await inspection.consumer_number(live)
    await live.fetch(
        "insert into {s}.positions (consumer, aggregate, version, head) "
        "select $1, 'order/many' || n, 1, 'clear' from generate_series(1, $2) n",
        *(number, MANY),
    )
    async with live.running(s.Orders):
        # Each stands still inside its transaction, when all has been written: how long that took does not matter.
        async with rebuilds.frozen(s.Orders, "rebuild.marked", back_to=1) as going_back:
            await live.publish(OrderNoted("beside the marking"), "o1", 2)
            await rebuilds.settled(s.Orders)
            with dying("rebuild.flipped"):
                rebuilds.free(going_back)
                await going_back
        assert await inspection.count_marks(live, "dirty_marks") == MANY + 1
        async with rebuilds.frozen(s.Orders, "rebuild.cleared", restart=True) as giving_up:
            await live.publish(OrderNoted("beside the removal"), "o1", 3)
            await rebuilds.settled(s.Orders)
            assert await inspection.count_marks(live, "dirty_marks") == MANY + 1
            await live.fetch("delete from {s}.positions where aggregate like 'order/many%'")
        await giving_up

    assert await inspection.count_marks(live, "dirty_marks") == 0
    assert [row[3] for row in await live.rows("orders")] == [
        '["placed", "beside the marking", "beside the removal"]'
    ]


async def test_a_row_is_recomputed_without_the_broker_once_nothing_has_moved(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    await live.fetch("update {s}.orders__g1 set cents = 7")
    live.tampered = True

    with contextlib.ExitStack() as frozen:

        def hear(name: str) -> None:
            if name == "recompute.entered":
                frozen.enter_context(live.servers.nats_stopped())

        frozen.callback(testpoints.listen(hear))
        async with live.pool.acquire() as connection:
            done = await recompute(
                *(Queries(connection, SCHEMA), definition(s.Orders), live.settings, live.nats, "o1"),
                Act("ops", "somebody has written into it"),
            )

    assert done.changed is not None
    assert [row[2] for row in await live.rows("orders")] == [1]


@pytest.mark.parametrize("verb", ["adopt", "reset"])
async def test_verbs_ask_the_broker_before_they_keep_batches_waiting(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    s, holds = shop(live.stream), noted(monkeypatch)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    act = Act("ops", "the broker stands still")

    holds.clear()
    async with live.pool.acquire() as connection:
        with live.servers.nats_stopped():
            if verb == "adopt":
                asked: Awaitable[object] = Adoption(connection, live.nats, SCHEMA).adopt("Orders", act)
            else:
                asked = Resetting(connection, live.nats, SCHEMA).reset("Orders", act)
            with pytest.raises(BrokerError):
                await asked

    assert holds == []
    assert await inspection.count_inbox(live) == 1


@pytest.mark.parametrize("verb", [Resetting, Retiring])
async def test_what_a_verb_would_do_is_looked_up_beside_open_batches(
    live: ConsumerHarness, verb: type[Resetting | Retiring]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    number = await inspection.consumer_number(live)
    async with live.pool.acquire() as batch, live.connected() as connection:
        await _open(batch, number)
        planned = await verb(connection, live.nats, SCHEMA).plan("Orders")
        await batch.execute("commit")

    assert (planned.consumer, planned.positions, planned.inbox) == ("Orders", 1, 1)


@pytest.mark.parametrize("verb", [Resetting, Retiring])
async def test_a_verb_that_is_refused_counts_nothing_while_batches_wait(
    live: ConsumerHarness, verb: type[Resetting | Retiring]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders), live.pool.acquire() as somebody, live.connected() as connection:
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders)
        await somebody.execute("begin; lock table projectionist.decisions in access exclusive mode")
        act, one = Act("ops", "as often"), verb(connection, live.nats, SCHEMA)
        with pytest.raises((CannotReset, CannotRetire), match="1 processes run Orders"):
            await (one.reset("Orders", act) if isinstance(one, Resetting) else one.retire("Orders", act))
        await somebody.execute("rollback")


async def test_a_broker_frozen_while_a_durable_is_moved_delays_no_batch_for_long(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    durable = await inspection.durable_name(live)
    for version in (2, 3):
        await live.publish(OrderNoted("taken"), "o1", version)
        for message in await peer_takes(live.nats.jetstream(), live.stream.name, durable, 1):
            await message.ack_sync()

    moves: list[str] = []
    with contextlib.ExitStack() as frozen, listening() as heard:

        def hear(name: str) -> None:
            if name == "durable.moving":
                moves.append(name)
                if len(moves) == 1:
                    frozen.enter_context(live.servers.nats_stopped())

        frozen.callback(testpoints.listen(hear))
        async with live.running(s.Orders) as workers, asking(live, s.Orders) as asked:
            await heard.wait("worker.waiting")
            # It was its own deadline that has ended it, not the broker's, which is later.
            assert isinstance(workers[0].waits, barrier.BarrierTimeout)
            await asked.passes()
            frozen.close()
            await inspection.reaches(3, inspection.value, live, "positions", "version")
            await live.settled(s.Orders)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Collect for what and for how long the barrier is held from now on."""
    holds: list[tuple[str, float]] = []
    monkeypatch.setattr(barrier, "note", lambda what, seconds: holds.append((what, seconds)))
    return holds


async def test_every_hold_of_the_barrier_is_measured(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, rebuilds, holds = shop(live.stream), RebuildHarness(live), noted(monkeypatch)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    rebuilt = await rebuilds.rebuild(s.Orders)

    assert {"join", "open", "catch up", "swap"} <= {what for what, _ in holds}
    assert rebuilt.held_s == max(seconds for what, seconds in holds if what in ("open", "catch up", "swap"))


async def test_whoever_holds_the_barrier_too_long_is_undone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    number = await inspection.consumer_number(live)
    async with live.pool.acquire() as connection:
        with pytest.raises(barrier.BarrierTimeout, match="nothing was changed"):
            await pausing_for(connection, number, 10)
        assert not await connection.fetchval("select paused from projectionist.consumers")


async def test_a_build_whose_opening_took_too_long_once_is_opened_again(live: ConsumerHarness) -> None:
    """The server was slow for a moment: that says nothing about the build."""
    s, rebuilds = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    await live.pool.execute("""
        create sequence openings;
        create function slow_at_first() returns trigger language plpgsql as $$ begin
            if nextval('public.openings') = 1 then perform pg_sleep(600); end if;
            return new;
        end $$;
        create trigger slow_at_first before insert on projectionist.builds
        for each row execute function slow_at_first()""")

    with listening() as heard:
        await rebuilds.rebuild(s.Orders)

    assert heard.counts["rebuild.lock_wait"] == 1
    assert await live.pool.fetchval("select last_value from openings") == 2


async def pausing_for(connection: Connection, number: int, seconds: float) -> None:
    async with barrier.alone(connection, SCHEMA, number, "test", within_s=0.1):
        await connection.execute("update projectionist.consumers set paused = true")
        await connection.execute("select pg_sleep($1)", seconds)
