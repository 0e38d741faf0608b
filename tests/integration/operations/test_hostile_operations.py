"""Operations where something else is decided meanwhile, a step does not end, versions differ, or there is very much."""

from __future__ import annotations

import signal

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import (
    RETRY,
    WHY,
    attempts,
    begun_by_a_newer_version,
    failed_orders,
    operating,
    retried,
    silence,
)
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, shop
from tests.support.shop_app import environment

from projectionist.core.operator import MOST_ACTOR, MOST_REASON
from projectionist.core.postgres.connections import connect
from projectionist.runner import App
from projectionist.runner.operations.operation import MOST_TRIED
from projectionist.runner.operations.operation_store import Grant, OperationStore

pytestmark = pytest.mark.asyncio


async def test_what_somebody_skips_while_it_is_tried_has_not_got_through(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 3)
    s.trouble.poison -= {"bad 2", "bad 3"}
    async with operating(cli, *RETRY, pause_at={"operation.stepped": 1}) as child:
        await child.paused("operation.stepped")
        await cli.done("parked", "skip", "bad-1", *WHY)
        child.signal(signal.SIGCONT)
        async with live.running(s.Orders):
            assert (await child.ended()).code == 3
    shown = await cli.seen("operations", "show", "1")
    [skipped] = shown["not_done"]
    assert (skipped["id"], skipped["note"]) == ("bad-1", "somebody has decided about it meanwhile")
    assert (shown["done"], shown["refused"], shown["left"]) == (2, 1, 0)


async def test_what_was_tried_again_since_a_discard_began_is_not_discarded(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.update({"a", "b"})
    await live.migrate(s.Orders)
    for name in "ab":
        await live.publish(OrderNoted(name), name, None, id=name)
    await live.settle(s.Orders)
    discard = ("parked", "discard", "--cause", "failed", "--all", *WHY)
    async with operating(cli, *discard, pause_at={"operation.begun": 1}) as child:
        await child.paused("operation.begun")
        await cli.done("parked", "retry", "b", *WHY)
        async with live.running(s.Orders):
            await inspection.reaches(2, inspection.value, live, "parked", "attempts", id="b")
        child.signal(signal.SIGCONT)
        ended = await child.ended()
    assert (ended.code, "b: event 'b' was tried again meanwhile: 2 attempts, not 1" in ended.out) == (3, True)
    assert await attempts(live) == {"b": 2}


async def test_a_stop_while_a_step_stands_still_says_what_to_do(live: ConsumerHarness, cli: Cli) -> None:
    await failed_orders(live, 2)
    soon = Cli(live, cli.folder, PROJECTIONIST_POSTGRES__LOCK_S="0.2")
    async with operating(cli, *RETRY, pause_at={"operation.acting": 1}) as child:
        await child.paused("operation.acting")
        told = await soon.refused("operations", "stop", "1", *WHY)
        child.signal(signal.SIGINT)
        child.signal(signal.SIGCONT)
        await child.ended()
    assert "who carries operation 1 out stands still in the middle of a step" in told
    assert "try again then" in told


async def test_what_a_newer_version_has_begun_is_seen_and_stopped_but_not_taken_up(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await failed_orders(live, 1)
    await begun_by_a_newer_version(live)
    await silence(live)
    app = Cli(live, cli.folder, **environment(live))
    for words in (("operations", "list"), ("operations", "show", "1"), ("status",)):
        ended = await app.run(*words)
        assert (ended.code, "nobody carries it out" in ended.out) == (3, True), ended
    async with serving(App(projections=[s.Orders]), live.settings) as served:
        ann = await served.logged_in("ann")
        assert "letters retry" in text_of(await ann.see("/operations"))
        assert "letters retry" in text_of(await ann.see("/operation?number=1"))
    told = await cli.refused("operations", "take-up", "1", *WHY)
    assert "this version knows no operation like 1: retry_letters" in told
    assert await attempts(live) == {"bad-1": 1}
    assert "has ended" in await cli.done("operations", "stop", "1", *WHY)


async def test_no_more_are_made_due_than_somebody_tries(live: ConsumerHarness, cli: Cli) -> None:
    many = MOST_TRIED + 300
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for n in range(many):
        await live.publish(OrderNoted("bad"), "o", None, id=f"{n}")
    await live.settle(s.Orders)
    # Groups have samples of 1, 5, 20 and 100 in which something got through: all that is left is one sample.
    async with operating(cli, *RETRY[:-3], "1", "--rate", "1e9", pause_at={"operation.begun": 1}) as child:
        await child.paused("operation.begun")
        await live.pool.execute(f"delete from {SCHEMA}.operation_samples where sample > 0")
        await live.pool.execute(
            f"update {SCHEMA}.operation_samples set items = {many}; update {SCHEMA}.operation_items set sample = 0"
        )
        child.signal(signal.SIGCONT)
        ended = await child.ended()
    shown = await cli.seen("operations", "show", "1")
    assert (ended.code, shown["state"]) == (3, "nobody tried it")
    assert MOST_TRIED <= shown["tried"] < many
    assert f"{shown['tried']} done" in ended.out.replace(",", "")
    assert len(await retried(live)) == shown["tried"]


async def test_a_group_of_very_many_is_left_and_shown_without_counting_its_items(
    live: ConsumerHarness, cli: Cli
) -> None:
    await failed_orders(live, 3)
    async with operating(cli, *RETRY, kill_at={"operation.begun": 1}) as child:
        await child.ended()
    connection = await connect(live.settings.postgres, application_name="test")
    store, grant = OperationStore(connection, SCHEMA), Grant(1, 1)
    # Without its items nothing could be counted.
    await live.pool.execute(f"delete from {SCHEMA}.operation_items")
    sizes = [(one.sample, one.items, one.waiting) for one in await store.samples(1)]
    first = await store.standing(grant)
    assert first is not None
    async with store.step(grant):
        await store.leave(grant, first)
    assert (await store.standing(grant), sizes) == (None, [(0, 1, 1), (1, 2, 2)])
    assert [one.left for one in await store.samples(1)] == [1, 2]
    await connection.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--reason", "x" * (MOST_REASON + 1)], "a reason 2,000"),
        (["--reason", "x", "--actor", "a" * (MOST_ACTOR + 1)], "an actor has 200 characters at most"),
    ],
)
async def test_texts_that_no_row_takes_are_refused_with_what_to_do(
    live: ConsumerHarness, cli: Cli, words: list[str], told: str
) -> None:
    await failed_orders(live, 1)
    assert told in await cli.refused("parked", "skip", "bad-1", *words)
    assert await attempts(live) == {"bad-1": 1}
