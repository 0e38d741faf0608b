"""Replay: what is settled stays settled and silent; what nobody has settled is told, or applied with its effects."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.process import run_projectionist
from tests.support.rebuilding import Yard, shop_app
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPaid, OrderPlaced, shop

from projectionist.core.nats import connections
from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.projections import definition
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.progress import Logged
from projectionist.runner.verify.replay import Range, Replayed, Replayer, span_of

pytestmark = pytest.mark.asyncio

ACT = Act("me", "to see")


async def replay(
    yard: Yard, cls: type, span: Range, policy: Any = None, *, dry_run: bool = False
) -> Replayed:
    settings = msgspec.structs.replace(yard.rig.settings, consumer_defaults=Policy(replay=policy))
    client = await connections.connect(settings.nats, name="replayer")
    try:
        async with yard.rig.pool.acquire() as connection:
            desk = Queries(connection, SCHEMA)
            given: tuple[Any, ...] = (desk, definition(cls), settings, client, Logged("replay"))
            return await Replayer(*given).run(span, ACT, dry_run=dry_run)
    finally:
        await client.close()


async def half_settled(yard: Yard, s: Any) -> None:
    """Two events that live has settled, and one that nobody has."""
    rig = yard.rig
    await rig.migrate(s.Orders, s.Mailer)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1, id="a")
    await rig.publish(OrderPaid(1), "o1", 2, id="b")
    await rig.settle(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o2", 1, id="c")
    await rig.publish(OrderPaid(1), "o2", 2, id="d")


async def test_settled_events_are_duplicates_and_emit_nothing_unsettled_ones_are_left_to_live(
    yard: Yard,
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await half_settled(yard, s)
    rows, effects = await rig.rows("orders"), await yard.effects()

    told = await replay(yard, s.Orders, Range(1, 4))

    assert (told.events, told.settled, told.unsettled) == (4, 2, 2)
    assert told.unsettled_named == ["order/o2 v1", "order/o2 v2"]
    assert await rig.rows("orders") == rows
    assert await yard.effects() == effects
    await rig.settle(s.Orders)
    assert await rig.value("select count(*) from {s}.intents") == 2


async def test_where_it_is_allowed_unsettled_events_are_applied_once_with_their_effects(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await half_settled(yard, s)
    told = await replay(yard, s.Orders, Range(1, 4), "allow")
    assert (told.settled, told.unsettled, told.outcomes["applied"]) == (2, 2, 2)
    assert [row[1] for row in await rig.rows("orders")] == ["paid", "paid"]
    assert await rig.value("select count(*) from {s}.intents") == 2
    await rig.settle(s.Orders)
    assert await rig.value("select count(*) from {s}.intents") == 2
    assert await rig.states(s.Orders) == dict.fromkeys("abcd", "applied")
    assert await rig.fetch("select verb, who, reason from {s}.audit where verb = 'replay'") == [
        ("replay", "me", "to see")
    ]


async def test_below_the_effects_mark_intents_are_counted_by_slot_and_not_made(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream, effects="now")
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.publish(OrderPaid(1), "o1", 2)
    await rig.settle(s.Orders)
    await rig.pool.execute("delete from projectionist.inbox; delete from projectionist.positions")
    told = await replay(yard, s.Orders, Range(1, 2), "allow")
    assert told.suppressed == {"Receipt": 1}
    assert await rig.value("select count(*) from {s}.intents") == 0


async def test_a_dry_run_tells_and_changes_nothing(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await half_settled(yard, s)
    effects = await yard.effects()
    told = await replay(yard, s.Orders, Range(2, 9), "allow", dry_run=True)
    assert (told.settled, told.unsettled, told.outcomes) == (1, 2, {})
    assert await yard.effects() == effects
    assert await rig.value("select count(*) from {s}.audit where verb = 'replay'") == 0
    assert await rig.value("select count(*) from {s}.runners where stopped is null") == 0, (
        "nobody runs it any more"
    )


async def test_a_reactor_is_not_replayed_unless_its_settings_say_so(yard: Yard) -> None:
    s = shop(yard.rig.stream)
    await half_settled(yard, s)
    with pytest.raises(RebuildError, match="forbidden"):
        await replay(yard, s.Mailer, Range(1, 4))
    with pytest.raises(RebuildError, match="forbidden"):
        await replay(yard, s.Orders, Range(1, 4), "forbidden")
    assert (await replay(yard, s.Mailer, Range(1, 4), "no-effects")).unsettled == 4


async def test_a_range_may_be_given_in_times(yard: Yard) -> None:
    rig = yard.rig
    for n in range(5):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    js = rig.nats.jetstream()
    third = (await js.get_msg(rig.stream.name, 3)).time
    assert third is not None
    client = await connections.connect(rig.settings.nats, name="asks")
    try:
        name = rig.stream.name
        when = third.isoformat()
        assert await span_of(client, name, when, None) == Range(3, 5)
        assert await span_of(client, name, "2001-01-01T00:00:00Z", when) == Range(1, 2)
        assert await span_of(client, name, "2", "4") == Range(2, 4)
        assert await span_of(client, name, datetime(2999, 1, 1, tzinfo=UTC).isoformat(), None) == Range(6, 5)
    finally:
        await client.close()


async def test_the_command_says_what_is_left_to_the_runner(yard: Yard, tmp_path: Path) -> None:
    s = shop(yard.rig.stream)
    await yard.rig.migrate(s.Spend)
    await half_settled(yard, s)
    env = shop_app(tmp_path, yard.rig)
    words = ("replay", "orders:app", "Orders", "--from", "1", "--reason", "to see")
    told = await run_projectionist(*words, cwd=tmp_path, **env)
    assert told.code == 3, told.err
    assert "2 not settled by anybody, left to the runner: order/o2 v1, order/o2 v2" in told.out
    told = await run_projectionist(*words, "--dry-run", "--to", "2", "--json", cwd=tmp_path, **env)
    assert (told.code, json.loads(told.out)["replayed"]["settled"]) == (0, 2)
