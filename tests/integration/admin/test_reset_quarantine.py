"""What stood in quarantine when a consumer is reset: tried again as it was corrected, and discarded for good."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.resetting import ACT, WHY
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
STATES = "select string_agg(state, ',' order by seq) from {s}.quarantine"


async def refusing(live: ConsumerHarness) -> None:
    """Have PostgreSQL refuse the event `odd`."""
    await live.pool.execute(
        "alter table projectionist.inbox add constraint odd check (id <> 'odd') not valid"
    )


async def holding(live: ConsumerHarness) -> None:
    """Have PostgreSQL hold it."""
    await live.pool.execute("alter table projectionist.inbox drop constraint odd")


async def decided(live: ConsumerHarness) -> None:
    """Have a decision about something else on record, so that batches repeat decisions after a reset."""
    await live.pool.execute(
        "insert into projectionist.decisions (consumer, kind, aggregate, version, upto, actor, reason)"
        " select number, 'accept_gap', 'order/other', 2, 2, 'ann', 'lost' from projectionist.consumers"
    )


async def read_anew(live: ConsumerHarness) -> None:
    """Have the stream delivered from its beginning by the next start."""
    durable = await inspection.durable_name(live)
    await live.nats.jetstream().delete_consumer(live.stream.name, durable)
    await live.pool.execute("delete from projectionist.floors")


async def states(live: ConsumerHarness, wanted: str) -> None:
    """Wait until what stands in quarantine has come so far."""

    async def there() -> bool:
        found = await live.value(STATES)
        assert found == wanted, f"quarantine has {found}, not {wanted}"
        return True

    await eventually(there)


async def refused(live: ConsumerHarness, sequence: str = "contiguous") -> type:
    """Orders, by which `odd` was refused and o2 was applied."""
    orders: type = shop(live.stream, sequence=sequence).Orders
    await live.migrate(orders)
    await refusing(live)
    version = 1 if sequence == "contiguous" else None
    await live.publish(OrderPlaced("ann", 1), "o1", version, id="odd")
    await live.publish(OrderPlaced("ann", 1), "o2", version)
    await live.settle(orders)
    return orders


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_a_reset_applies_what_was_refused_once_and_as_it_was_corrected(
    live: ConsumerHarness, cli: Cli, sequence: str
) -> None:
    orders = await refused(live, sequence)
    await holding(live)
    async with live.quarantine(orders) as verbs:
        data = b'{"customer": "bob", "cents": 99}'
        await verbs.edit((1, 1), ACT, data=data, headers={"ce-id": "even"})
    async with live.running(orders):
        await states(live, "released")
    before = await live.rows("orders")
    await cli.done("reset", "Orders", "--yes", *WHY)
    async with live.running(orders):
        await states(live, "released")
        await live.settled(orders)

    assert await live.rows("orders") == before
    assert "odd" not in await live.states(orders)


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
@pytest.mark.parametrize("decisions", [False, True])
async def test_a_reset_tries_what_waits_as_refused_out_of_quarantine(
    live: ConsumerHarness, cli: Cli, sequence: str, decisions: bool
) -> None:
    orders, rebuild = await refused(live, sequence), RebuildHarness(live)
    await holding(live)
    if decisions:
        await decided(live)
    await cli.done("reset", "Orders", "--yes", *WHY)
    async with live.running(orders):
        await states(live, "released")
        await live.settled(orders)

    before = await live.rows("orders")
    assert [row[0] for row in before] == ["o1", "o2"]
    assert (await rebuild.rebuild(orders)).views[0].compared.differences == []
    assert await live.rows("orders") == before


async def test_what_was_discarded_stays_so_through_resets_and_later_decisions(
    live: ConsumerHarness, cli: Cli
) -> None:
    orders = await refused(live)
    async with live.quarantine(orders) as verbs:
        await verbs.discard((1, 1), ACT)
    await decided(live)
    await cli.done("reset", "Orders", "--yes", *WHY)
    await live.settle(orders)
    await live.publish(OrderPlaced("ann", 1), "o3", 1, id="odd")
    await live.publish(OrderPlaced("ann", 1), "o4", 1)
    await live.settle(orders)
    async with live.quarantine(orders) as verbs:
        await verbs.discard((1, 3), ACT)
    await holding(live)
    await read_anew(live)
    await live.settle(orders)

    assert [row[0] for row in await live.rows("orders")] == ["o2", "o4"]
    assert await live.value(STATES) == "discarded,discarded"


async def test_what_was_discarded_unread_stays_so_and_its_gap_says_who_did_that(
    live: ConsumerHarness,
) -> None:
    """Also when another setting makes it readable, and when the stream is delivered anew."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", None, headers={"x-version": "1"})
    await live.publish(OrderPaid(1), "o1", None, headers={"x-version": "2"})
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard((1, 1), ACT)
        await verbs.retry((1, 2), ACT)
    headers = msgspec.structs.replace(live.policy.headers, version="x-version")
    policy = msgspec.structs.replace(live.policy, headers=headers)
    async with live.running(s.Orders, policy=policy):
        await states(live, "discarded,released")
        await inspection.reaches("waiting", inspection.head_state, live)
    told = await live.value("select detail from {s}.incidents where closed is null")
    assert "sequence 1 from the same subject was discarded before its version was read, by ann at 2" in told
    assert "never published" not in told

    await read_anew(live)
    await live.settle(s.Orders, policy=policy)
    assert await live.rows("orders") == []
    assert await live.value(STATES) == "discarded,released"


async def test_a_rebuild_keeps_what_was_applied_although_it_stands_in_quarantine(
    live: ConsumerHarness,
) -> None:
    """Put there by a process that had it as well, between this one's look and its claim."""
    orders, rebuild = await refused(live, "unordered"), RebuildHarness(live)
    await holding(live)
    async with live.quarantine(orders) as verbs:
        await verbs.retry((1, 1), ACT)
    async with live.running(orders):
        await states(live, "released")
        await live.settled(orders)
    before = await live.rows("orders")
    await live.pool.execute("update projectionist.quarantine set state = 'quarantined'")

    assert (await rebuild.verify(orders)).drifted == 0
    assert (await rebuild.rebuild(orders)).views[0].compared.differences == []
    assert await live.rows("orders") == before
