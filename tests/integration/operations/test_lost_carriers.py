"""Operations whose process is killed or stands still: at no moment is an item lost, or acted on twice.

The windows: while it is put on record, between two items, in the middle of one, while it is looked what became of them.
"""

from __future__ import annotations

import signal

import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import (
    RETRY,
    WHY,
    attempts,
    failed_orders,
    lively,
    operating,
    retried,
    silence,
)
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually

from projectionist.core.operator import Act, TooLate
from projectionist.core.postgres.connections import connect
from projectionist.runner.operations.operation_store import OperationStore

pytestmark = pytest.mark.asyncio

TAKE_UP = ("operations", "take-up", "1", *WHY)
MOMENTS = [
    ("operation.begun", 1),
    ("operation.acting", 2),
    ("operation.stepping", 2),
    ("operation.stepped", 3),
    ("operation.judged", 1),
]


async def test_killed_while_it_is_put_on_record_nothing_of_it_is_there(
    live: ConsumerHarness, cli: Cli
) -> None:
    await failed_orders(live, 3)
    async with operating(cli, *RETRY, kill_at={"operation.beginning": 1}) as child:
        assert (await child.ended()).code == -signal.SIGKILL

    assert (await cli.seen("operations", "list"))["operations"] == []
    assert await inspection.rows(live, "audit", "action", who="ann") == []
    assert await attempts(live) == {"bad-1": 1, "bad-2": 1, "bad-3": 1}


@pytest.mark.parametrize(("moment", "time"), MOMENTS)
async def test_killed_at_any_moment_it_is_taken_up_and_comes_to_each_item_once(
    live: ConsumerHarness, cli: Cli, moment: str, time: int
) -> None:
    s = await failed_orders(live, 8)
    s.trouble.poison -= {f"bad {n}" for n in range(1, 8)}
    async with live.running(s.Orders):
        async with operating(cli, *RETRY, kill_at={moment: time}) as child:
            assert (await child.ended()).code == -signal.SIGKILL
        await silence(live)
        listed = await cli.run("operations", "list", "--open")
        assert (listed.code, "nobody carries it out" in listed.out) == (3, True)
        assert (await cli.run(*TAKE_UP)).code == 3

    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["done"], shown["failed"], shown["left"]) == ("done", 7, 1, 0)
    assert await attempts(live) == {"bad-8": 2}
    assert await retried(live) == [f"o{n}" for n in range(1, 9)]


async def test_status_and_doctor_tell_what_nobody_carries_out(live: ConsumerHarness, cli: Cli) -> None:
    await failed_orders(live, 3)
    shop = Cli(live, cli.folder, **environment(live))
    async with operating(cli, *RETRY, kill_at={"operation.begun": 1}) as child:
        await child.ended()
    await lively(live)
    assert "nobody carries it out" not in (await shop.run("status")).out
    await silence(live)

    for command in (("status",), ("doctor", APP)):
        ended = await shop.run(*command)
        assert ended.code == 3
        assert "nobody carries it out since" in ended.out, command
        assert "projectionist operations take-up 1 --reason" in ended.out, command


async def test_what_stood_still_longer_than_its_lease_does_nothing_more(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 4)
    s.trouble.poison.clear()
    async with (
        live.running(s.Orders),
        operating(cli, *RETRY, pause_at={"operation.stepped": 3}) as slow,
    ):
        await slow.paused("operation.stepped")
        await silence(live)
        async with operating(cli, *TAKE_UP, pause_at={"operation.taken": 1}) as other:
            await other.paused("operation.taken")
            slow.signal(signal.SIGCONT)
            lost = await slow.ended()
            other.signal(signal.SIGCONT)
            assert (await other.ended()).code == 0

    assert lost.code == 1
    assert "operation 1 is carried out by another process, or has ended" in lost.err
    assert (await cli.seen("operations", "show", "1"))["state"] == "done"
    assert await retried(live) == [f"o{n}" for n in range(1, 5)]


async def test_what_stands_still_in_the_middle_of_a_step_is_not_taken_up_and_goes_on(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 3)
    s.trouble.poison.clear()
    brief = msgspec.structs.replace(live.settings.postgres, lock_s=0.2)
    moments = {"operation.begun": 1, "operation.acting": 1}
    async with operating(cli, *RETRY, pause_at=moments) as child:
        await child.paused("operation.begun")
        await silence(live)
        child.signal(signal.SIGCONT)
        await child.paused("operation.acting")
        # Here and not by a command: within half a minute PostgreSQL ends the session that stands still.
        connection = await connect(brief, application_name="test")
        with pytest.raises(TooLate, match="stands still in the middle of a step"):
            await OperationStore(connection, brief.schema).take_up(1, Act("bob", "gone?"), "another")
        child.signal(signal.SIGCONT)
        await connection.close()
        async with live.running(s.Orders):
            assert (await child.ended()).code == 0
    assert await retried(live) == ["o1", "o2", "o3"]


@pytest.mark.parametrize(
    "moment", ["operation.begun", "operation.acting", "operation.stepped", "operation.judged"]
)
async def test_whoever_interrupts_the_command_stops_the_operation_and_the_row_says_so(
    live: ConsumerHarness, cli: Cli, moment: str
) -> None:
    s = await failed_orders(live, 3)
    s.trouble.poison.clear()
    async with (
        live.running(s.Orders),
        operating(cli, *RETRY[:-1], "0.001", pause_at={moment: 1}) as child,
    ):
        await child.paused(moment)
        child.signal(signal.SIGINT)
        child.signal(signal.SIGCONT)
        assert (await child.ended()).code == 130
        assert "operation 1 was interrupted" in child.err

    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "interrupted")
    tried = shown["matched"] - shown["left"] + sum(one["tried"] for one in shown["samples"])
    assert len(await retried(live)) == tried


async def test_one_that_nobody_carries_out_is_stopped_at_once(live: ConsumerHarness, cli: Cli) -> None:
    await failed_orders(live, 3)
    async with operating(cli, *RETRY, kill_at={"operation.begun": 1}) as child:
        await child.ended()
    await silence(live)
    assert "operation 1 has ended" in await cli.done("operations", "stop", "1", *WHY)

    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "ann: the table is loaded")
    assert await attempts(live) == {"bad-1": 1, "bad-2": 1, "bad-3": 1}


async def test_a_database_that_went_away_leaves_a_word_and_what_is_left_is_taken_up(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 3)
    s.trouble.poison.clear()
    async with operating(cli, *RETRY, pause_at={"operation.stepped": 1}) as child:
        await child.paused("operation.stepped")
        await live.pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'projectionist operation'"
        )

        async def gone() -> bool:
            query = (
                "select count(*) = 0 from pg_stat_activity where application_name = 'projectionist operation'"
            )
            return bool(await live.value(query))

        await eventually(gone)
        child.signal(signal.SIGCONT)
        assert (await child.ended()).code == 1
    shown = await cli.seen("operations", "show", "1")
    assert shown["state"] == "nobody carries it out"
    assert shown["note"]
    async with live.running(s.Orders):
        await cli.done(*TAKE_UP)
    assert (await cli.seen("operations", "show", "1"))["state"] == "done"
    assert await retried(live) == ["o1", "o2", "o3"]
