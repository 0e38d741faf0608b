"""What waits for a person, or has nobody to carry it out, is seen by whoever looks: exit code 3, and the next step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import Outbox, answer, made, outbox, scripted
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import eventually, listening

from projectionist.core.telemetry import instruments, metrics
from projectionist.ops.doctor.check import Check
from projectionist.ops.doctor.examine import examine
from projectionist.outbox.admin import status
from projectionist.outbox.providers import Outcome, Smtp
from projectionist.projections import definition
from projectionist.runner import App
from projectionist.runner.telemetry.state_metrics import StateMetrics

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def intents(live: ConsumerHarness) -> AsyncIterator[Outbox]:
    live.tampered = True  # intents without events
    async with outbox(live.database) as made:
        yield made


def texts(shown: dict[str, Any]) -> list[str]:
    return [f"{one['about']}: {one['text']}" for one in shown["attention"]]


async def examined(live: ConsumerHarness, *classes: type) -> list[Check]:
    app = App(projections=classes, providers={"email": Smtp})
    found = await examine(app, app.definitions, live.settings)
    return [one for one in found.checks if one.level == "attention"]


async def test_where_all_is_well_nothing_is_to_be_done(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        ended = await cli.run("status", "--json")
    assert ended.code == 0, ended.out
    assert (await cli.run("outbox", "list")).code == 0


async def test_without_order_an_event_that_failed_for_good_is_seen_everywhere(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.refused.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("bad"), "o1", 1)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        ended = await cli.run("status")
        shown = await cli.seen("status")
        async with live.pool.acquire() as connection:
            await StateMetrics([definition(s.Orders)], live.settings).look(connection, live.nats)
        found = [one.name for one in await examined(live, s.Orders) if one.about == "Orders"]
    assert ended.code == 3
    assert "stuck" in found
    assert (
        "Orders: 1 waiting for new code or a person. `projectionist parked list --consumer Orders`"
        in ended.out
    )
    assert texts(shown) == ["Orders: 1 waiting for new code or a person"]
    told = {(one["projectionist.state"]): n for n, one in metrics.shown(instruments.HEADS)}
    assert told == {"waiting": 1}
    [(age, _)] = metrics.shown(instruments.PARKED_AGE)
    assert 0 < age < 60


@pytest.mark.parametrize(
    ("statement", "told", "remedy"),
    [
        ("select 1", "Orders: no process runs it", "`projectionist run`"),
        (
            "update {s}.consumers set paused = true returning 1",
            "Orders: paused",
            "`projectionist resume Orders --reason …`",
        ),
        (
            (
                "update {s}.consumer_breakers set state = 'open', reason = '3 keys failed',"
                " until = now() + interval '1 hour' returning 1"
            ),
            "Orders: the breaker is open: 3 keys failed",
            "It closes when some keys go through, or by `projectionist breaker reset Orders --reason …`",
        ),
    ],
)
async def test_what_nobody_applies_is_seen(
    live: ConsumerHarness, cli: Cli, statement: str, told: str, remedy: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    await live.value(statement)

    ended = await cli.run("status")
    assert ended.code == 3
    assert f"{told}. {remedy}\n" in ended.out
    assert texts(await cli.seen("status")) == [told]
    assert [one for one in await examined(live, s.Orders) if one.about == "Orders"]


async def test_intents_without_a_relay_are_seen_by_all_who_look_and_a_relay_is_shown(
    live: ConsumerHarness, cli: Cli, intents: Outbox
) -> None:
    await intents.want("email")
    told = "email: 1 intent waits, and no relay runs that sends them"

    for command in (("status",), ("outbox", "list"), ("outbox", "list", "--each")):
        ended = await cli.run(*command)
        assert (ended.code, f"{told}. `projectionist relay`" in ended.out) == (3, True), command
        assert texts(await cli.seen(*command)) == [told]
    assert [one.found for one in await examined(live) if one.about == "outbox"] == [told.partition(": ")[2]]

    with listening() as heard:
        async with intents.relaying(made(scripted(), "email")):
            await heard.wait("relay.beat")
            shown = await cli.seen("status")
            [relay] = shown["outbox"]["relays"]
            assert (relay["providers"], relay["silent_s"] < 20) == (["email"], True)
            assert texts(shown) == []
            assert f"{relay['host']}:{relay['pid']}" in await cli.done("status")
    assert (await cli.seen("status"))["outbox"]["relays"] == []


async def test_intents_that_wait_for_a_person_and_circuits_that_are_open_are_seen(
    live: ConsumerHarness, cli: Cli, intents: Outbox
) -> None:
    stub = scripted()
    key = await intents.want()
    stub.script[key] = [answer(Outcome.REFUSED, reason="quota used up", status="402")]
    async with intents.relaying(made(stub)):
        await intents.all_become("dead")
    await intents.connection.execute(
        f"insert into {SCHEMA}.circuits (provider, destination, state, until) values ('stub', 'x', 'open', 'infinity')"
    )
    wanted = ["stub: 1 intent is dead", "stub: 1 circuit is open, after failures"]
    assert texts(await cli.seen("status")) == wanted
    assert texts(await cli.seen("outbox", "list")) == wanted
    assert (await cli.run("status")).code == (await cli.run("outbox", "list")).code == 3
    assert len([one for one in await examined(live) if one.about == "outbox"]) == 2


async def test_a_relay_that_is_killed_is_shown_as_silent_and_counts_for_nothing(
    live: ConsumerHarness, intents: Outbox
) -> None:
    await intents.want("email")
    await intents.connection.execute(
        f"insert into {SCHEMA}.relays (instance, host, pid, providers, beat)"
        " values (gen_random_uuid(), 'web-1', 7, '{email}', now() - interval '1 minute')"
    )
    async with live.pool.acquire() as connection:
        found = await status.look(connection, SCHEMA)
    assert [(one.name, one.waiting, one.relays) for one in found.providers] == [("email", 1, 0)]
    told = {one.name: one.mend for one in await examined(live) if one.about in ("outbox", "relays")}
    assert set(told) == {"email", "web-1:7"}


async def test_a_count_that_reached_its_bound_says_so(live: ConsumerHarness, intents: Outbox) -> None:
    for _ in range(3):
        await intents.want("email")
    async with live.pool.acquire() as connection:
        few = await status.look(connection, SCHEMA, most=2)
        all_of_them = await status.look(connection, SCHEMA, most=4)
    assert few.troubles[0].text == "2 or more intents wait, and no relay runs that sends them"
    assert all_of_them.troubles[0].text == "3 intents wait, and no relay runs that sends them"


async def test_a_process_that_was_killed_is_one_thing_to_look_at(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.settle(s.Orders, s.Spend)
    await live.value(
        "insert into {s}.runners (consumer, instance, host, pid, beat)"
        " select number, gen_random_uuid(), 'web-1', 4711, now() - interval '10 minutes' from {s}.consumers returning 1"
    )
    async with live.running(s.Orders, s.Spend):
        await eventually(
            lambda: live.value("select count(*) = 2 from {s}.runners where stopped is null and pid <> 4711")
        )
        [one] = [one for one in await examined(live, s.Orders, s.Spend) if one.name == "web-1:4711"]
    assert (one.about, "it ran Orders, Spend" in one.found) == ("processes", True)
