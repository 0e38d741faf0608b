"""A consumer that is reset starts as new, without its earlier effects, and obeys what was decided before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.resetting import ACT, WHY, history
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.runner.admin.pause import pause

pytestmark = pytest.mark.asyncio


async def test_rows_inbox_and_positions_are_made_again_and_no_effect_is(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2)
    await live.settle(s.Orders, s.Spend)
    before, spend = await live.rows("orders"), await live.fetch("select * from {s}.inbox where consumer = 2")
    await live.value("update projectionist.orders__g1 set status = 'wrong' returning 1")

    done = await cli.seen("reset", "Orders", "--yes", *WHY)
    assert (done["positions"], done["inbox"], done["parked"], done["effects_from"]) == (1, 2, 0, 3)
    assert await live.rows("orders") == []
    assert await live.fetch("select * from {s}.inbox where consumer = 2") == spend

    await live.publish(OrderPlaced("bob", 7), "o2", 1)
    await live.publish(OrderPaid(7), "o2", 2)
    await live.settle(s.Orders, s.Spend)
    assert (await live.rows("orders"))[:1] == before
    assert await history(live, "o2") == ["placed", "paid"]
    assert await live.fetch("select id, count(*) from {s}.intents group by 1 order by 1") == [
        ("e2", 1),
        ("e4", 1),
    ]
    assert await live.value("select n from {s}.counters where outcome like 'suppressed%'") == 1
    [act] = (await cli.seen("audit", "--action", "reset"))["acts"]
    assert (act["who"], act["reason"], act["detail"]["inbox"]) == ("ann", "rows were edited by hand", 2)


async def test_the_type_whose_ids_are_keys_is_found_out_again(live: ConsumerHarness, cli: Cli) -> None:
    """A first event of a wrong type made its own type that one; then `subjects` were given that leave it out."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("bob", 9), "7", 1, headers={"ce-aggregatetype": "customer"})
    await live.publish(OrderPlaced("ann", 5), "8", 1)
    await live.settle(s.Orders)
    assert await inspection.own_type(live) == "customer"
    assert await live.head(s.Orders, "order/8") == (0, "waiting", 1)

    await live.nats.jetstream().delete_msg(live.stream.name, 1)
    await cli.done("reset", "Orders", "--partial", "--yes", *WHY)
    await live.settle(s.Orders)
    assert await inspection.own_type(live) == "order"
    assert await live.rows("orders") == [("8", "placed", 5, '["placed"]')]


async def test_a_reader_who_does_not_end_is_named_as_what_is_in_the_way(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli, s = Cli(live, tmp_path, PROJECTIONIST_POSTGRES__LOCK_S="0.2"), shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)
    async with live.pool.acquire() as reader, reader.transaction():
        await reader.fetch("select * from orders")
        assert "reading the rows of Orders" in await cli.refused("reset", "Orders", "--yes", *WHY)
    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await cli.done("reset", "Orders", "--yes", *WHY)


async def test_a_running_consumer_has_to_be_paused_and_then_is_reset_beside_its_processes(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for n in range(30):
        await live.publish(OrderPlaced("ann", n), f"o{n}", 1)
    async with live.running(s.Orders, processes=2):
        await live.settled(s.Orders)
        before = await live.rows("orders")
        await inspection.reaches(2, inspection.count_running, live)
        assert "2 processes run Orders. `projectionist pause Orders" in await cli.refused(
            "reset", "Orders", "--yes", *WHY
        )
        await cli.done("pause", "Orders", *WHY)
        await cli.done("reset", "Orders", "--yes", *WHY)
        assert await live.rows("orders") == []
        await live.publish(OrderPaid(), "o1", 2)
        await cli.done("resume", "Orders", *WHY)
        await inspection.reaches(31, inspection.count_inbox, live, state="applied")
        await live.settled(s.Orders)
    after = await live.rows("orders")
    assert len(after) == 30
    assert [row for row in after if row[0] != "o1"] == [row for row in before if row[0] != "o1"]
    assert await inspection.count_incidents(live) == 0


async def test_without_yes_it_says_what_would_go_and_does_nothing(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)

    ended = await cli.run("reset", "Orders", *WHY)
    assert ended.code == 2
    assert "1 positions, 1 inbox entries and 0 parked events would go" in ended.out
    assert "say --yes" in ended.err
    assert len(await live.rows("orders")) == 1


async def test_a_stream_that_has_lost_what_was_applied_is_refused_unless_that_is_accepted(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPlaced("bob", 5), "o2", 1)
    await live.settle(s.Orders)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=2)

    told = await cli.refused("reset", "Orders", "--yes", *WHY)
    assert "begins at sequence 2, no longer holds events that Orders has applied: order/o1" in told
    assert len(await live.rows("orders")) == 2
    await cli.done("reset", "Orders", "--yes", "--partial", *WHY)
    await live.settle(s.Orders)
    assert [row[0] for row in await live.rows("orders")] == ["o2"]


async def test_a_reset_waits_for_the_open_batch(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs, live.pool.acquire() as holder, holder.transaction():
        await holder.execute(verbs._store._sql["lock_consumer_shared"], verbs._store._barrier)
        resetting = asyncio.create_task(cli.done("reset", "Orders", "--yes", *WHY))
        await live.blocked()
        assert len(await live.rows("orders")) == 1
    await resetting
    assert await live.rows("orders") == []


async def test_a_paused_consumer_may_be_reset_and_stays_paused(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.pool.acquire() as connection:
        await pause(connection, "projectionist", "Orders", ACT)
    await cli.done("reset", "Orders", "--yes", *WHY)
    assert await inspection.value(live, "consumers", "paused")


async def test_a_reset_that_dies_before_its_commit_has_changed_nothing(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2)
    await live.settle(s.Orders)
    before = await live.rows("orders")

    words = ("reset", "Orders", "--yes", *WHY)
    async with projectionist(*words, cwd=cli.folder, kill_at={"reset.written": 1}) as process:
        assert (await process.ended()).code == -9
    assert await live.rows("orders") == before
    await live.settle(s.Orders)  # the durable may deliver all again: it is known
    assert await live.rows("orders") == before
    assert await inspection.count_intents(live) == 1

    await cli.done(*words)
    await live.settle(s.Orders)
    assert await live.rows("orders") == before
    assert await inspection.count_intents(live) == 1


async def test_generations_that_were_kept_go_with_the_reset_and_an_open_build_refuses_it(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)
    await RebuildHarness(live).rebuild(s.Orders)
    assert len(await live.fetch("select 1 from {s}.generations where state = 'kept'")) == 1

    rebuilds = RebuildHarness(live)
    with dying("rebuild.flipped"):
        await rebuilds.rebuild(s.Orders)
    assert "a build of Orders is open" in await cli.refused("reset", "Orders", "--yes", *WHY)
    with dying("rebuild.given_up"):
        await rebuilds.give_up(s.Orders)
    assert "a build of Orders is open" in await cli.refused("reset", "Orders", "--yes", *WHY)
    await rebuilds.give_up(s.Orders)
    await cli.done("reset", "Orders", "--yes", *WHY)
    assert await inspection.rows(live, "generations", "state", order="state") == [
        *(("dropped",), ("dropped",), ("live",))
    ]
    await live.settle(s.Orders)
    assert await history(live, "o1") == ["placed"]


async def test_reactors_and_sql_projections_are_reset_too(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Mailer, s.Journal)
    await live.publish(OrderNoted("one"), "o1", 1, id="a")
    await live.publish(OrderPaid(5), "o1", 2, id="b")
    await live.settle(s.Mailer, s.Journal)
    for name in ("Mailer", "Journal"):
        await cli.done("reset", name, "--yes", *WHY)
    assert await live.rows("journal") == []
    await live.settle(s.Mailer, s.Journal)
    assert await live.rows("journal") == [("a", "one")]
    assert await live.states(s.Mailer) == {"a": "applied", "b": "applied"}
    assert await inspection.count_intents(live) == 1
