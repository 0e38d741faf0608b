"""A view that is attached while processes run is built by one of them, and all of them write it from then on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.batch.test_view_sets import histories, tables
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.shop_app import SET_APP, environment
from tests.support.view_sets import Happened, Paid, Placed, folded, view_set
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

WHY = ("--reason", "ticket 7")
POISONED = {"o04", "o13", "o22", "o31"}
"""Orders of these histories that have an event which fails."""
OFTEN = "0.2"
"""Seconds between two heartbeats, and between two looks for views that join."""


async def publish(live: ConsumerHarness, events: list[Happened]) -> None:
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)


async def has_joined(live: ConsumerHarness) -> None:
    await inspection.reaches("live", inspection.value, live, "views", "state", name="Lines")


async def test_one_of_two_running_processes_builds_an_attached_view_and_both_write_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    """Events go on coming, while it is left out, while it is built, and behind that."""
    shop = view_set(live.stream)
    events = [one for one in histories(40, random.Random(9)) if one[0] not in POISONED]
    quarter = len(events) // 4
    parts = [events[at * quarter : (at + 1) * quarter] for at in range(3)] + [events[3 * quarter :]]
    cli, env = Cli(live, tmp_path), environment(live, batch__max_rows="30", run__heartbeat_s=OFTEN)
    await live.migrate(shop.Shop)
    async with projectionist("run", SET_APP, env=env), projectionist("run", SET_APP, env=env):
        await publish(live, parts[0])
        await live.settled(shop.Shop)
        await cli.done("views", "detach", "Shop.Lines", *WHY)
        await publish(live, parts[1])
        await live.settled(shop.Shop)
        assert "begin by themselves" in await cli.done("views", "attach", "Shop.Lines", *WHY)
        await publish(live, parts[2])
        await has_joined(live)
        await publish(live, parts[3])
        await live.settled(shop.Shop)

    assert await inspection.value(live, "views", "generation", name="Lines") == 2
    found, expected = await tables(live), folded(events)
    assert (found.summary, found.lines, found.spend) == (expected.summary, expected.lines, expected.spend)
    assert await live.unaccounted(shop.Shop) == []


async def test_status_and_doctor_say_what_becomes_of_a_view_that_is_left_out(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    shop, cli = view_set(live.stream), Cli(live, tmp_path, **environment(live))
    await live.migrate(shop.Shop)
    await publish(live, [("o1", 1, Placed("ann", (5,)))])
    await live.settle(shop.Shop)
    assert "Shop.Lines" not in (await cli.run("status")).out
    for act, told, step in (
        ("detach", "is left out", "projectionist views attach"),
        ("attach", "is not there yet", "projectionist rebuild APP"),
    ):
        await cli.done("views", act, "Shop.Lines", *WHY)
        (line,) = [one for one in (await cli.run("status")).out.splitlines() if "Shop.Lines" in one]
        assert (told in line, step in line) == (True, True), line
        examined = (await cli.run("doctor", SET_APP)).out
        assert (told in examined, f"{step} Shop.Lines" in examined) == (True, True), examined


async def test_a_view_that_history_breaks_is_told_until_it_is_left_out_again(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    """The others go on; once somebody has it stand aside, nobody tries it any more."""
    shop, cli = view_set(live.stream), Cli(live, tmp_path, **environment(live))
    await live.migrate(shop.Shop)
    async with projectionist("run", SET_APP, env=environment(live, run__heartbeat_s=OFTEN)) as running:
        await cli.done("views", "detach", "Shop.Lines", *WHY)
        await publish(live, [("o1", 1, Placed("ann", (-1,))), ("o1", 2, Paid(2))])
        await live.settled(shop.Shop)
        await cli.done("views", "attach", "Shop.Lines", *WHY)
        await running.announces("join.failed")
        await eventually(_tells(cli, lambda told: told == ["joining of Shop.Lines"]))
        await publish(live, [("o1", 3, Paid(3))])
        await live.settled(shop.Shop)
        await eventually(_left_out(cli))
        await eventually(_tells(cli, lambda told: not told))
    assert await live.rows("summary") == [("o1", "ann", 1, 5)]


def _tells(cli: Cli, wanted: Callable[[list[str]], bool]) -> Any:
    async def reached() -> bool:
        setbacks = (await cli.seen("status"))["setbacks"]
        return wanted([one["what"] for one in setbacks])

    return reached


def _left_out(cli: Cli) -> Any:
    """Give the build up and detach the view: refused while the process tries once more at that moment."""

    async def reached() -> bool:
        await cli.run("rebuild", SET_APP, "Shop.Lines", "--abort", *WHY)
        return (await cli.run("views", "detach", "Shop.Lines", *WHY)).code == 0

    return reached
