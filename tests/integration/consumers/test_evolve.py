"""Code and tables that change under running consumers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderRow, OrderShipped, mended, shop
from tests.support.waiting import listening

from projectionist.projections import Index, Projection, definition, on
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.consumers.registry import NotRegistered
from projectionist.runner.failures.retry_on_new_code import retry_failed
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio


def grown(stream: Stream) -> type:
    """`Orders` with a field, an index and a handler more."""

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        indexes=[Index("carrier")],
    ):
        carrier: str = "none"

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

        @on(OrderShipped)
        def shipped(self, event: OrderShipped) -> None:
            self.carrier = event.carrier

    return Orders


def retyped(stream: Stream) -> type:
    """`Orders` with a column of another type."""

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
    ):
        status: int = 0  # type: ignore[assignment] # that is the change

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    return Orders


async def test_an_added_field_becomes_a_column_and_a_users_own_view_goes_on(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    await live.publish(OrderShipped("ups"), "o1", 2)
    await live.settle(s.Orders)
    await live.pool.execute("create view mine as select order_id, status from orders")
    async with live.pool.acquire() as reader:
        prepared = await reader.prepare("select status from orders where order_id = 'o1'")
        assert await prepared.fetchval() == "placed"

        new = grown(live.stream)
        await live.migrate(new)
        assert await prepared.fetchval() == "placed"
    await live.publish(OrderShipped("dhl"), "o1", 3)
    await live.settle(new)

    assert await live.fetch("select * from mine") == [("o1", "placed")]
    assert await live.rows("orders") == [("o1", "placed", 500, '["placed"]', "dhl")]
    assert await live.value("select count(*) from pg_indexes where indexname = 'orders__g1_carrier'") == 1


def logged(handler: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(handler)
    def inner(self: Any, event: Any) -> None:
        return handler(self, event)

    return inner


def decorated(stream: Stream, divisor: int) -> type:
    """A handler under a user's decorator, which fails by zero."""

    class Decorated(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="decorated",
        key="order_id",
    ):
        order_id: str
        share: int = 0

        @on(OrderPlaced)
        @logged
        def placed(self, event: OrderPlaced) -> None:
            self.share = event.cents // divisor

    return Decorated


async def test_a_mended_handler_is_tried_again_also_under_a_decorator_of_the_users(
    live: ConsumerHarness,
) -> None:
    broken, repaired = decorated(live.stream, 0), decorated(live.stream, 4)
    await live.migrate(broken)
    await live.publish(OrderPlaced("ann", 100), "o1", 1)
    await live.settle(broken)
    assert await live.head(broken, "order/o1") == (0, "waiting", 1)

    async with live.running(repaired):
        await inspection.reaches("clear", inspection.head_state, live)
    assert await live.rows("decorated") == [("o1", 25)]


class Line(msgspec.Struct):
    quantity: int = 0


class Renamed(msgspec.Struct):
    amount: int = 0


class Longer(msgspec.Struct):
    quantity: int = 0
    gift: bool = False


def lined(stream: Stream, line: type[Any]) -> type:
    """Documents that hold structs."""

    class Lined(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="lined",
        key="order_id",
    ):
        order_id: str
        lines: list[Any] = []
        __annotations__["lines"] = list[line]  # type: ignore[valid-type]  # a name of this function says nothing to the class

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.lines.append(line(event.cents))

    return Lined


async def test_a_field_that_documents_lose_needs_a_rebuild_and_one_that_they_gain_does_not(
    live: ConsumerHarness,
) -> None:
    await live.migrate(lined(live.stream, Line))
    async with live.pool.acquire() as connection:
        models = ReadModels(connection, SCHEMA)
        (renamed,) = await models.plan([definition(lined(live.stream, Renamed))])
        (longer,) = await models.plan([definition(lined(live.stream, Longer))])
    assert renamed.rebuild == ("in the documents of column 'lines': lines[].quantity is gone",)
    assert longer.rebuild == ()
    with pytest.raises(NotRegistered, match="any other change takes `projectionist rebuild Lined`"):
        await live.settle(lined(live.stream, Renamed))

    await live.migrate(lined(live.stream, Longer))
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(lined(live.stream, Longer))
    assert await live.rows("lined") == [("o1", '[{"gift": false, "quantity": 5}]')]


async def test_a_new_handler_says_how_many_events_of_its_type_were_stepped_over(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in (1, 2, 3):
        await live.publish(OrderShipped("ups"), "o1", version)
    await live.settle(s.Orders)

    async with live.pool.acquire() as connection:
        (change,) = await ReadModels(connection, SCHEMA).plan([definition(grown(live.stream))])

    assert change.rebuild == ()
    assert change.notes == (
        "3 events of order.shipped were stepped over before it was handled: rebuild to include them",
    )


async def test_any_other_change_is_left_alone_and_says_that_a_rebuild_is_needed(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    cls = retyped(live.stream)
    async with live.pool.acquire() as connection:
        (change,) = await ReadModels(connection, SCHEMA).plan([definition(cls)])

    assert change.rebuild == ("column 'status' was text and is bigint",)
    assert change.statements == ()
    await live.migrate(cls, s.Spend)
    with pytest.raises(NotRegistered, match="any other change takes `projectionist rebuild Orders`"):
        await live.settle(cls)
    await live.settle(s.Orders)  # the old code still runs
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    with listening() as heard:
        async with live.running(cls, s.Spend, supervised=True):
            await heard.wait("worker.stuck")
            await live.settled(s.Spend)
    assert await live.rows("spend") == [("ann", 1, 1)], "the others of its process are served"


async def test_two_that_migrate_at_once_leave_one_consumer_and_one_table(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    ends = await asyncio.gather(*(live.migrate(s.Orders, s.Spend) for _ in range(4)), return_exceptions=True)

    assert [end for end in ends if end is not None] == []
    assert await inspection.rows(live, "consumers", "name", order="name") == [("Orders",), ("Spend",)]


async def test_old_code_goes_on_while_a_column_is_added_under_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 500), "o1", 1)
        await live.settled(s.Orders)
        await live.migrate(grown(live.stream))
        await live.publish(OrderPaid(), "o1", 2)
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]', "none")]


async def test_newer_code_stops_the_older_process_at_its_next_batch(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (old,):
        await old.settle(old.read(OrderPlaced("ann", 500), "o1", 1))
        async with batch_drivers(live, mended(live.stream)) as (new,):
            with pytest.raises(Superseded, match="newer code"):
                await old.settle(old.read(OrderPaid(), "o1", 2, seq=2))
            assert (await live.rows("orders"))[0][1] == "placed"
            await new.settle(new.read(OrderPaid(), "o1", 2, seq=2))

    assert (await live.rows("orders"))[0][1] == "paid"
    assert await inspection.rows(live, "audit", "action", "who") == [("adopt-code", "projectionist")]


async def test_a_running_process_of_older_code_ends_and_says_why(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)

    async def overtaken() -> None:
        async with live.running(s.Orders):
            await live.publish(OrderPlaced("ann", 500), "o1", 1)
            await live.settled(s.Orders)
            async with batch_drivers(live, mended(live.stream)):
                await live.publish(OrderPaid(), "o1", 2)
                await live.settled(s.Orders)

    with pytest.raises(Superseded, match="newer code"):
        await overtaken()

    assert await inspection.count_inbox(live) == 1


async def test_code_of_the_past_starts_only_when_it_is_said_to(live: ConsumerHarness) -> None:
    s, new = shop(live.stream), mended(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders):
        pass
    async with batch_drivers(live, new):
        pass

    with pytest.raises(Superseded, match="--allow-older-code"):
        await live.settle(s.Orders)
    live.access = DatabaseAccess(live.pool, SCHEMA, allow_older_code=True)
    await live.settle(s.Orders)
    assert await inspection.value(live, "views", "code") == definition(s.Orders).code
    assert await inspection.count(live, "code_fingerprints") == 2


async def test_a_superseded_process_does_not_rearm_what_the_newer_one_failed_on(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with (
        batch_drivers(live, s.Orders) as (old,),
        batch_drivers(live, mended(live.stream, digests=frozenset())) as (new,),
    ):
        await new.settle(new.read(OrderNoted("bad"), "o1", 1))

        assert await retry_failed(live.access, old.consumer, 10) == []

    assert await live.head(mended(live.stream), "order/o1") == (0, "waiting", 1)


async def test_a_paused_consumer_stands_still_until_it_is_resumed(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    await live.pool.execute("update projectionist.consumers set paused = true")
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.waiting", 2)
            assert await inspection.count(live, "runners") == 0
            await live.pool.execute("update projectionist.consumers set paused = false")
            await live.settled(s.Orders)

    assert len(await live.rows("orders")) == 1


async def test_a_consumer_that_is_paused_while_it_runs_applies_nothing_more(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders, policy=msgspec.structs.replace(live.policy, ack_wait_s=1)):
            await live.publish(OrderPlaced("ann", 500), "o1", 1)
            await live.settled(s.Orders)
            await live.pool.execute("update projectionist.consumers set paused = true")
            await live.publish(OrderPaid(), "o1", 2)
            await heard.wait("worker.waiting")
            assert await inspection.count_inbox(live) == 1
            await live.pool.execute("update projectionist.consumers set paused = false")
            await live.settled(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)


async def test_a_class_that_has_become_another_consumer_is_refused(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)

    with pytest.raises(NotRegistered, match="sequence='contiguous'"):
        await live.settle(shop(live.stream, sequence="monotonic").Orders)


async def test_a_consumer_that_was_never_migrated_says_what_to_run(live: ConsumerHarness) -> None:
    with pytest.raises(NotRegistered, match="Run `projectionist migrate`"):
        await live.settle(shop(live.stream).Orders)
