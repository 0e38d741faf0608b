"""Groups of parked events as operations: samples, what became of each, who may stop it, and what all see of it."""

from __future__ import annotations

import json
import signal

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.parked_operations import (
    RETRY,
    WHY,
    attempts,
    fail_more,
    failed_orders,
    lively,
    operating,
    retried,
)
from tests.support.shop import OrderNoted, OrderPaid, shop

from projectionist.core.settings.settings import BreakerLimits

pytestmark = pytest.mark.asyncio


def sizes(shown: dict[str, list[dict[str, int]]]) -> list[tuple[int, ...]]:
    """The samples of an operation: items, done, failed, left."""
    return [(one["items"], one["done"], one["failed"], one["left"]) for one in shown["samples"]]


async def test_a_group_is_retried_in_growing_samples_while_some_of_each_get_through(
    live: ConsumerHarness, cli: Cli
) -> None:
    tuned(live, policy={"breaker": BreakerLimits(open_s=1, maximum_s=1)})  # so many failures open it
    s = await failed_orders(live, 30)
    s.trouble.poison -= {f"bad {n}" for n in range(1, 31) if n not in (3, 12)}
    async with live.running(s.Orders):
        done = await cli.seen(*RETRY)

    assert (len(done["changed"]), done["failed"], done["left"]) == (30, ["bad-3", "bad-12"], 0)
    shown = await cli.seen("operations", "show", str(done["operation"]))
    assert sizes(shown) == [(1, 1, 0, 0), (5, 4, 1, 0), (20, 19, 1, 0), (4, 4, 0, 0)]
    assert (shown["who"], shown["reason"], shown["outcome"]) == ("ann", "the table is loaded", "done")
    assert [(one["id"], one["state"]) for one in shown["not_done"]] == [
        ("bad-3", "failed"),
        ("bad-12", "failed"),
    ]
    assert await attempts(live) == {"bad-3": 2, "bad-12": 2}
    acts = await inspection.rows(live, "audit", "action", "object", "who", order="number")
    assert acts[0] == ("begin-operation", "operation 1", "ann")
    assert len(acts) == 31


async def test_the_rest_of_a_group_is_left_alone_where_none_of_a_sample_gets_through(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 12)
    async with live.running(s.Orders):
        ended = await cli.run(*RETRY)
        assert ended.code == 3
        assert "retry: 1 done, 1 of them failed again" in ended.out
        assert "none of a sample got through, so the rest of its group was left alone; 11 left" in ended.err
        s.trouble.poison -= {"bad 1"}
        done = await cli.seen(*RETRY)

    again = [f"bad-{n}" for n in range(2, 7)]
    assert (done["changed"], done["failed"], done["left"]) == (["bad-1", *again], again, 6)
    shown = await cli.seen("operations", "list")
    assert [one["state"] for one in shown["operations"]] == ["stopped by its sample"] * 2


async def test_each_group_has_samples_of_its_own(live: ConsumerHarness, cli: Cli) -> None:
    s = await failed_orders(live, 3)
    await fail_more(live, s, 3, text="worse {}", first=4)
    await live.pool.execute(
        "update projectionist.parked set error_class = 'KeyError' where id in ('bad-4', 'bad-5', 'bad-6')"
    )
    s.trouble.poison -= {"worse 4", "worse 5", "worse 6"}
    async with live.running(s.Orders):
        done = await cli.seen(*RETRY)

    shown = await cli.seen("operations", "show", str(done["operation"]))
    assert sizes(shown) == [(1, 0, 1, 0), (2, 0, 0, 2), (1, 1, 0, 0), (2, 2, 0, 0)]
    assert sorted(await attempts(live)) == ["bad-1", "bad-2", "bad-3"]


async def test_what_nobody_tries_ends_the_operation_with_a_word(live: ConsumerHarness, cli: Cli) -> None:
    await failed_orders(live, 3)
    ended = await cli.run("parked", "retry", "--cause", "failed", "--all", *WHY, "--wait", "0", "--json")

    done = json.loads(ended.out)
    assert (ended.code, done["changed"], done["left"]) == (3, ["bad-1"], 2)
    assert "1 were not tried within 0 s: is the consumer running?" in done["note"]
    assert (await cli.seen("operations", "show", "1"))["state"] == "nobody tried it"


async def test_what_waits_for_missing_versions_is_looked_for_again_and_not_judged(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for n in (1, 2):
        await live.publish(OrderPaid(), f"o{n}", 3, id=f"paid-{n}")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        for n in (1, 2):
            await inspection.reaches(
                "lost", inspection.value, live, "positions", "finding", aggregate=f"order/o{n}"
            )
    done = await cli.seen("parked", "retry", "--cause", "gap", "--all", *WHY)

    assert (done["changed"], done["left"], done["note"]) == (["paid-1", "paid-2"], 0, "")


@pytest.mark.parametrize(("act", "state"), [("skip", "skipped"), ("discard", "discarded")])
async def test_a_group_is_decided_about_as_one_operation(
    live: ConsumerHarness, cli: Cli, act: str, state: str
) -> None:
    s = shop(live.stream, **({"sequence": "unordered"} if act == "discard" else {}))
    s.trouble.poison.update({"a", "b", "c"})
    await live.migrate(s.Orders)
    for name in "abc":
        await live.publish(OrderNoted(name), name, None if act == "discard" else 1, id=name)
    await live.settle(s.Orders)

    done = await cli.seen("parked", act, "--cause", "failed", "--all", *WHY)
    assert (done["changed"], done["left"]) == (["a", "b", "c"], 0)
    await live.settle(s.Orders)
    assert await live.states(s.Orders) == dict.fromkeys("abc", state)
    assert (await cli.seen("operations", "show", "1"))["state"] == "done"


async def test_what_has_moved_since_an_operation_began_is_refused_and_told(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 3)
    async with operating(cli, *RETRY, pause_at={"operation.begun": 1}) as child:
        await child.paused("operation.begun")
        await cli.done("parked", "skip", "bad-2", *WHY)
        s.trouble.poison.clear()
        child.signal(signal.SIGCONT)
        async with live.running(s.Orders):
            assert (await child.ended()).code == 3
    shown = await cli.seen("operations", "show", "1")
    assert [(one["id"], one["state"]) for one in shown["not_done"]] == [("bad-2", "refused")]
    assert (shown["done"], shown["refused"], shown["left"]) == (2, 1, 0)


async def test_it_is_watched_and_stopped_from_elsewhere(live: ConsumerHarness, cli: Cli) -> None:
    s = await failed_orders(live, 8)
    s.trouble.poison.clear()
    slow = (*RETRY[:-1], "0.001")
    async with live.running(s.Orders), operating(cli, *slow) as child:
        await inspection.reaches(1, inspection.value, live, "operations", "done")
        [listed] = (await cli.seen("operations", "list", "--open"))["operations"]
        assert (listed["number"], listed["ended"]) == (1, None)
        async with operating(cli, "operations", "watch", "1", "--json") as watching:
            told = await cli.done("operations", "stop", "1", "--actor", "bob", "--reason", "not yet")
            assert "is asked to stop" in told
            ended, watched = await child.ended(), await watching.ended()
    assert (ended.code, watched.code) == (3, 3)
    assert json.loads(watched.out)["number"] == 1
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"], shown["done"]) == ("stopped", "bob: not yet", 1)
    assert "operation 1 has ended: stopped" in await cli.refused("operations", "stop", "1", *WHY)
    assert await retried(live) == ["o1"]


async def test_one_that_somebody_carries_out_or_that_has_ended_is_not_taken_up(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 2)
    s.trouble.poison.clear()
    take_up = ("operations", "take-up", "1", *WHY)
    async with operating(cli, *RETRY, pause_at={"operation.begun": 1}) as child:
        await child.paused("operation.begun")
        await lively(live)
        assert "carries operation 1 out, and gave a sign of life" in await cli.refused(*take_up)
        child.signal(signal.SIGCONT)
        async with live.running(s.Orders):
            await child.ended()
    assert "operation 1 has ended: done" in await cli.refused(*take_up)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "1"], "list takes no number"),
        (["show"], "show takes the number of one"),
        (["show", "7"], "there is no operation 7"),
        (["stop", "7"], "stop needs a reason"),
        (["stop", "7", *WHY], "there is no operation 7"),
        (["take-up", "7", *WHY], "there is no operation 7"),
        (["list", "--limit", "0"], "--limit is not below one"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_the_next_step(
    cli: Cli, words: list[str], told: str
) -> None:
    assert told in await cli.refused("operations", *words)


async def test_an_operation_on_nothing_is_none(live: ConsumerHarness, cli: Cli) -> None:
    await live.migrate(shop(live.stream).Orders)
    done = await cli.seen(*RETRY)

    assert (done["operation"], done["changed"]) == (None, [])
    assert (await cli.seen("operations", "list"))["operations"] == []
    assert await inspection.rows(live, "audit", "action", who="ann") == []
