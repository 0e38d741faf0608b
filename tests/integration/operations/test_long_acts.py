"""Rebuilds, verifies and replays as operations: seen, stopped from elsewhere, and told where their process is gone.

The windows: killed at its beginning and in the middle of it, stopped while it reads, interrupted, failed.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import WHY, operating, silence
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually

from projectionist.runner import App

pytestmark = pytest.mark.asyncio

SLOWLY = ("--throttle", "0.001")


async def placed(live: ConsumerHarness) -> Any:
    """A shop with three orders that Orders has applied."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    for n in range(3):
        await live.publish(OrderPlaced("ann", 5), f"o{n}", 1)
    await live.settle(made.Orders, made.Spend)
    return made


def at(live: ConsumerHarness, cli: Cli, **settings: str) -> Cli:
    """The command line with the app at hand."""
    return Cli(live, cli.folder, **environment(live, **settings))


async def states(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    """What operations there were, and how they ended."""
    return await inspection.rows(live, "operations", "kind", "outcome", order="number")


@pytest.mark.parametrize(
    "words",
    [
        ["rebuild", APP, "Orders"],
        ["verify", APP, "Orders", "--all"],
        ["replay", APP, "Orders", "--from", "1"],
    ],
)
async def test_a_long_act_is_an_operation_that_says_who_why_and_how_far(
    live: ConsumerHarness, cli: Cli, words: list[str]
) -> None:
    await placed(live)
    app = at(live, cli)
    await app.done(*words, *WHY)

    shown = await app.seen("operations", "show", "1")
    assert (shown["kind"], shown["chosen"], shown["state"]) == (words[0], {"consumer": "Orders"}, "done")
    assert (shown["who"], shown["reason"]) == ("ann", "the table is loaded")
    assert (shown["done"], shown["left"], bool(shown["phase"])) == (shown["matched"], 0, True)
    assert shown["done"] >= 3, "what was gone through in all phases"
    assert (await app.run("operations", "show", "1")).code == 0
    assert f"{words[0]} consumer=Orders" in await app.done("operations", "list")


@pytest.mark.parametrize("words", [["rebuild", APP, "Orders"], ["verify", APP, "Orders", "--all"]])
async def test_a_long_act_is_stopped_from_elsewhere(
    live: ConsumerHarness, cli: Cli, words: list[str]
) -> None:
    await placed(live)
    app = at(live, cli)
    async with operating(app, *words, *WHY, *SLOWLY, env=environment(live)) as child:
        await child.heard("long_act.beaten")
        [one] = (await app.seen("operations", "list", "--open"))["operations"]
        assert (one["kind"], one["is_carried_out"], one["state"].startswith("running")) == (
            words[0],
            True,
            True,
        )
        stop = ("operations", "stop", "1", "--actor", "bob", "--reason", "at night")
        assert "is asked to stop" in await app.done(*stop)
        ended = await child.ended()
    assert ended.code == 1
    assert "operation 1 was stopped: bob: at night" in ended.err
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "bob: at night")
    again = await app.done(*words)
    assert ("gone on with" in again) == (words[0] == "rebuild")
    assert await states(live) == [(words[0], "stopped"), (words[0], "done")]


@pytest.mark.parametrize("moment", ["long_act.begun", "rebuild.flushed"])
async def test_one_whose_process_is_gone_is_told_and_begun_again_not_taken_up(
    live: ConsumerHarness, cli: Cli, moment: str
) -> None:
    await placed(live)
    app = at(live, cli)
    async with operating(
        app, "rebuild", APP, "Orders", *WHY, kill_at={moment: 1}, env=environment(live)
    ) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await silence(live)
    ended = await app.run("status")
    assert (ended.code, "nobody carries it out since" in ended.out) == (3, True)
    assert "Begin it again" in ended.out
    refused = await app.refused("operations", "take-up", "1", *WHY)
    assert "operation 1 (rebuild) is not taken up" in refused
    await app.done("rebuild", APP, "Orders")
    assert (await app.seen("operations", "show", "1"))["note"] == "begun again by ann"
    assert await states(live) == [("rebuild", "stopped"), ("rebuild", "done")]


async def test_one_that_was_killed_just_now_is_begun_again_and_ends_the_row_of_the_other(
    live: ConsumerHarness, cli: Cli
) -> None:
    await placed(live)
    app, words = at(live, cli), ("rebuild", APP, "Orders")
    async with operating(app, *words, kill_at={"rebuild.flushed": 1}, env=environment(live)) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    again = await app.run(*words)
    assert (again.code, "gone on with" in again.out) == (0, True)
    assert "if that process is gone this one goes on within 10 s" in again.err
    assert await states(live) == [("rebuild", "stopped"), ("rebuild", "done")]
    assert (await app.seen("operations", "show", "1"))["note"] == "begun again by ann"


async def test_one_whose_process_is_gone_is_ended_by_hand(live: ConsumerHarness, cli: Cli) -> None:
    await placed(live)
    app = at(live, cli)
    killed = {"long_act.begun": 1}
    async with operating(app, "rebuild", APP, "Orders", kill_at=killed, env=environment(live)) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await silence(live)
    assert "operation 1 has ended" in await app.done("operations", "stop", "1", *WHY)
    assert "nobody carries it out" not in (await app.run("status")).out


async def test_one_that_is_interrupted_says_so(live: ConsumerHarness, cli: Cli) -> None:
    await placed(live)
    app = at(live, cli)
    async with operating(app, "verify", APP, "Orders", "--all", *SLOWLY, env=environment(live)) as child:
        await child.heard("long_act.beaten")
        child.signal(signal.SIGINT)
        assert (await child.ended()).code == 130
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], shown["note"], shown["reason"]) == ("stopped", "interrupted", "no reason given")


async def test_one_that_fails_says_why_without_content(live: ConsumerHarness, cli: Cli) -> None:
    await placed(live)
    await live.publish(OrderNoted("secret"), "o1", 2)
    await live.settle(shop(live.stream).Orders)
    app = at(live, cli, poison="secret")
    assert (await app.run("rebuild", APP, "Orders")).code == 1
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], bool(shown["note"]), "secret" in str(shown)) == ("failed", True, False)


async def test_a_rebuild_of_the_console_is_the_same_operation(live: ConsumerHarness, cli: Cli) -> None:
    s = await placed(live)
    async with serving(App(projections=[s.Orders]), live.settings, name="shop.app:app") as served:
        ann = await served.logged_in("ann")
        assert "has begun" in await ann.submit("/act/rebuild?consumer=Orders", reason="in doubt")

        async def done() -> bool:
            page = text_of(await ann.see("/operation?number=1"))
            return "rebuild of" in page and "Nobody has to act." in page and "Took" in page

        await eventually(done)
        assert "Orders" in text_of(await ann.see("/operations"))
    [one] = (await cli.seen("operations", "list"))["operations"]
    assert (one["kind"], one["who"], one["reason"], one["state"]) == ("rebuild", "ann", "in doubt", "done")
