"""Replay: what is settled stays settled and silent; what nobody has settled is told, or applied with its effects."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.batch.test_view_sets import histories, tables
from tests.support import inspection
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.view_sets import folded, view_set

from projectionist.core.nats import connections
from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.progress import Logged
from projectionist.runner.jetstream.stream_range import Range, span_of
from projectionist.runner.verify.replay import Replayed, Replayer

pytestmark = pytest.mark.asyncio

ACT = Act("me", "to see")


async def replay(
    rebuilds: RebuildHarness, cls: type, span: Range, policy: Any = None, *, dry_run: bool = False
) -> Replayed:
    settings = msgspec.structs.replace(rebuilds.harness.settings, consumer_defaults=Policy(replay=policy))
    client = await connections.connect(settings.nats, name="replayer")
    try:
        async with rebuilds.harness.pool.acquire() as connection:
            queries = Queries(connection, SCHEMA)
            given: tuple[Any, ...] = (queries, consumer_definition(cls), settings, client, Logged("replay"))
            return await Replayer(*given).run(span, ACT, dry_run=dry_run)
    finally:
        await client.close()


async def half_settled(rebuilds: RebuildHarness, s: Any) -> None:
    """Two events that live has settled, and one that nobody has."""
    harness = rebuilds.harness
    await harness.migrate(s.Orders, s.Mailer)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1, id="a")
    await harness.publish(OrderPaid(1), "o1", 2, id="b")
    await harness.settle(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o2", 1, id="c")
    await harness.publish(OrderPaid(1), "o2", 2, id="d")


async def test_replayed_settled_events_emit_nothing_and_unsettled_ones_are_left_to_live(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await half_settled(rebuilds, s)
    rows, effects = await harness.rows("orders"), await rebuilds.effects()

    told = await replay(rebuilds, s.Orders, Range(1, 4))

    assert (told.events, told.settled, told.unsettled) == (4, 2, 2)
    assert told.unsettled_named == ["order/o2 v1", "order/o2 v2"]
    assert await harness.rows("orders") == rows
    assert await rebuilds.effects() == effects
    await harness.settle(s.Orders)
    assert await inspection.count_intents(harness) == 2


async def test_where_it_is_allowed_unsettled_events_are_applied_once_with_their_effects(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await half_settled(rebuilds, s)
    told = await replay(rebuilds, s.Orders, Range(1, 4), "allow")
    assert (told.settled, told.unsettled, told.outcomes["applied"]) == (2, 2, 2)
    assert [row[1] for row in await harness.rows("orders")] == ["paid", "paid"]
    assert await inspection.count_intents(harness) == 2
    await harness.settle(s.Orders)
    assert await inspection.count_intents(harness) == 2
    assert await harness.states(s.Orders) == dict.fromkeys("abcd", "applied")
    assert await inspection.rows(harness, "audit", "action", "who", "reason", action="replay") == [
        ("replay", "me", "to see")
    ]


async def test_below_the_effects_mark_intents_are_counted_by_slot_and_not_made(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, effects="now")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.settle(s.Orders)
    await harness.pool.execute("delete from projectionist.inbox; delete from projectionist.positions")
    told = await replay(rebuilds, s.Orders, Range(1, 2), "allow")
    assert told.suppressed == {"Receipt": 1}
    assert await inspection.count_intents(harness) == 0


async def test_a_dry_run_tells_and_changes_nothing(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await half_settled(rebuilds, s)
    effects = await rebuilds.effects()
    told = await replay(rebuilds, s.Orders, Range(2, 9), "allow", dry_run=True)
    assert (told.settled, told.unsettled, told.outcomes) == (1, 2, {})
    assert await rebuilds.effects() == effects
    assert await inspection.count(harness, "audit", action="replay") == 0
    assert await inspection.count_running(harness) == 0, "nobody runs it any more"


async def test_a_reactor_is_not_replayed_unless_its_settings_say_so(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await half_settled(rebuilds, s)
    with pytest.raises(RebuildError, match="forbidden"):
        await replay(rebuilds, s.Mailer, Range(1, 4))
    with pytest.raises(RebuildError, match="forbidden"):
        await replay(rebuilds, s.Orders, Range(1, 4), "forbidden")
    assert (await replay(rebuilds, s.Mailer, Range(1, 4), "no-effects")).unsettled == 4


async def test_a_range_may_be_given_in_times(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    for n in range(5):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    js = harness.nats.jetstream()
    third = (await js.get_msg(harness.stream.name, 3)).time
    assert third is not None
    client = await connections.connect(harness.settings.nats, name="asks")
    try:
        name = harness.stream.name
        when = third.isoformat()
        assert await span_of(client, name, when, None) == Range(3, 5)
        assert await span_of(client, name, "2001-01-01T00:00:00Z", when) == Range(1, 2)
        assert await span_of(client, name, "2", "4") == Range(2, 4)
        assert await span_of(client, name, datetime(2999, 1, 1, tzinfo=UTC).isoformat(), None) == Range(6, 5)
    finally:
        await client.close()


async def test_the_command_says_what_is_left_to_the_runner(rebuilds: RebuildHarness, tmp_path: Path) -> None:
    s = shop(rebuilds.harness.stream)
    await rebuilds.harness.migrate(s.Spend)
    await half_settled(rebuilds, s)
    env = shop_app(tmp_path, rebuilds.harness)
    words = ("replay", "orders:app", "Orders", "--from", "1", "--reason", "to see")
    told = await run_projectionist(*words, cwd=tmp_path, **env)
    assert told.code == 3, told.err
    assert "2 not settled by anybody, left to the runner: order/o2 v1, order/o2 v2" in told.out
    told = await run_projectionist(*words, "--dry-run", "--to", "2", "--json", cwd=tmp_path, **env)
    assert (told.code, json.loads(told.out)["replayed"]["settled"]) == (0, 2)


async def test_what_is_replayed_to_a_set_is_applied_in_all_its_views_once(rebuilds: RebuildHarness) -> None:
    live, events = rebuilds.harness, list(histories(12, random.Random(4)))
    made = view_set(live.stream)
    sent = [(event, name, version, f"{name}:{version}") for name, version, event in events]
    await live.migrate(made.Shop)
    await live.publish_all(sent[:1])
    await live.settle(made.Shop)
    await live.publish_all(sent[1:])
    told = await replay(rebuilds, made.Shop, Range(1, len(events)), "no-effects", dry_run=True)
    assert (told.consumer, told.unsettled) == ("Shop", len(events) - 1)
    for _ in range(2):
        await replay(rebuilds, made.Shop, Range(1, len(events)), "allow")

    assert await tables(live) == folded(events)
