"""Lookups where events are lost, come twice, in disorder or late, and where what is looked up waits itself."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.integration.batch.test_set_lookups import histories, named, tables, without_numbers
from tests.integration.verify.test_replay import replay
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.looking_up import RATES, TABLE, Seen, Sold, looking_up
from tests.support.rebuilding import RebuildHarness
from tests.support.set_lookups import Folded, Happened, Left, Named, Ordered, Paid, folded, looking_set

from projectionist.core.operator import Act
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.settings.settings import Policy
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.jetstream.stream_range import Range

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "it is nowhere")
POLICY = Policy(gap_fetch_delay_ms=20, late_s=0)
FEW = Limits(max_rows=30)

Event = Sold | Seen


async def publish(live: ConsumerHarness, events: Iterable[Happened]) -> list[Happened]:
    """Store these events, each under an id of its own; what they were."""
    stored = list(events)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in stored)
    return stored


async def reaches(live: ConsumerHarness, head: str, *names: str) -> None:
    """Wait until these aggregates of the only consumer stand like this."""
    for name in names:
        await inspection.reaches(head, inspection.head_state, live, f"order/{name}")


def in_the_streams_order(sent: Iterable[Happened], given_up: set[tuple[str, int]]) -> Iterator[Happened]:
    """What was sent, once each, in the order of the stream as far as that of each aggregate allows."""
    held: dict[str, dict[int, Any]] = {}
    stands: Counter[str] = Counter()
    for name, version, event in sent:
        held.setdefault(name, {}).setdefault(version, event)
        while (name, stands[name] + 1) in given_up or stands[name] + 1 in held[name]:
            stands[name] += 1
            if (name, stands[name]) not in given_up:
                yield name, stands[name], held[name][stands[name]]


def rows_of(found: Folded) -> Folded:
    """The same without letters, which no rebuild writes."""
    return found._replace(letters=[])


async def test_what_waits_for_a_lost_event_is_looked_up_as_it_stands_until_it_goes_on(
    rebuilds: RebuildHarness,
) -> None:
    """By two runners. Of each customer something is lost or fails, and orders look them up before and after that."""
    live, chance = rebuilds.harness, random.Random(17)
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    sent = await publish(live, named())
    await live.settle(shop.Shop)
    renamed: dict[str, list[Happened]] = {
        "c0": [("c0", 2, Named("lost")), ("c0", 3, Named("anna"))],
        "c1": [("c1", 2, Named("")), ("c1", 3, Named("bert"))],
        "c2": [("c2", 2, Named("late")), ("c2", 3, Left())],
    }
    lost = {"c0": 2, "c2": 2, "o03": 2, "o07": 1, "o11": 3}
    orders = list(histories(36, chance))
    there = [*(one for some in renamed.values() for one in some), *orders]
    there = [one for one in there if lost.get(one[0]) != one[1]]
    shuffled = [*there, *chance.sample(there, len(there) // 5)]
    chance.shuffle(shuffled)
    missing = {
        (name, version): one for one in orders for name, version, _ in [one] if lost.get(name) == version
    }
    applied = [*sent, *(one for one in orders if one[1] < lost.get(one[0], 99))]
    sent += await publish(live, shuffled)

    async with live.running(shop.Shop, processes=2, limits=FEW, policy=POLICY):
        await live.settled(shop.Shop)
        await reaches(live, "waiting", *lost, "c1")
        assert without_numbers(await tables(live)) == without_numbers(folded(applied))

        async with live.verbs(shop.Shop) as verbs:
            await verbs.accept_gap("order/c0", 2, 2, ACT)
            await verbs.skip("order/c1", ACT)
        sent += await publish(live, renamed["c2"])
        await reaches(live, "clear", *renamed)
        applied += [renamed["c0"][1], renamed["c1"][1], *renamed["c2"]]
        assert without_numbers(await tables(live)) == without_numbers(folded(applied))

        async with live.verbs(shop.Shop) as verbs:
            await verbs.accept_gap("order/o03", 2, 2, ACT)
        sent += await publish(live, [missing["o07", 1], missing["o11", 3]])
        await reaches(live, "clear", "o03", "o07", "o11")
        applied += [one for one in orders if one[1] >= lost.get(one[0], 99) and one != missing["o03", 2]]
        sent += await publish(live, [renamed["c0"][0], missing["o03", 2]])  # too late
        more: list[Happened] = [(f"n{n}", 1, Ordered(f"c{n % 3}", (n + 1,))) for n in range(9)]
        more += [(f"n{n}", 2, Paid(f"c{n % 3}", 1)) for n in range(9)]
        sent, applied = sent + await publish(live, more), applied + more
        await live.settled(shop.Shop)

    assert without_numbers(await tables(live)) == without_numbers(folded(applied))
    seen = {row[1] for row in await live.rows("summary") if row[0].startswith("n")}
    assert seen == {"anna", "bert", ""}, "the third has left, and has paid since"
    late = await inspection.rows(live, "incidents", "aggregate", kind="late", order="aggregate")
    assert late == [("order/c0",), ("order/o03",)]
    assert await live.unaccounted(shop.Shop) == []

    before = await tables(live)
    replayed = await replay(rebuilds, shop.Shop, Range(1, len(sent)), "allow")
    assert (replayed.events, replayed.unsettled) == (len(sent), 0)
    assert await tables(live) == before
    for view in consumer_definition(shop.Shop).views[:3]:
        assert (await rebuilds.verify(view)).drifted == 0, view.name

    await rebuilds.rebuild(shop.Shop)
    given_up = {("c0", 2), ("c1", 2), ("o03", 2)}
    assert rows_of(await tables(live)) == rows_of(folded(in_the_streams_order(sent, given_up)))


async def test_a_replay_of_what_was_lost_on_the_way_looks_up_what_stands_by_then(
    rebuilds: RebuildHarness,
) -> None:
    """What live never got is applied by the replay, beside what it has settled, with the names of that moment."""
    live = rebuilds.harness
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    events = await publish(live, [*named(), *histories(6, random.Random(2))])
    await live.settle(shop.Shop)
    more: list[Happened] = [
        ("c0", 2, Named("anna")),
        ("n1", 2, Paid("c0", 4)),
        ("n1", 1, Ordered("c0", (1, 2))),
        ("c1", 2, Named("")),
        ("c1", 3, Named("bert")),
        ("n2", 1, Ordered("c1", (3,))),
    ]
    await publish(live, more)
    replayed = await replay(rebuilds, shop.Shop, Range(1, len(events) + len(more)), "allow")

    assert replayed.unsettled == len(more)
    await live.settle(shop.Shop)
    order = in_the_streams_order([*events, *more], set())
    assert without_numbers(await tables(live)) == without_numbers(folded(order))


def sales(chance: random.Random) -> Iterator[tuple[str, int, Event]]:
    """Orders that are sold to a country at a time, looked at, and sold again; of four the country has a bad row."""
    for number in range(30):
        poisoned = chance.randint(1, 5) if number % 9 == 4 else None
        for version in range(1, 6):
            country = "XX" if version == poisoned else chance.choice(["DE", "FR", "IT"])
            sold = version == poisoned or chance.random() < 0.7
            yield f"o{number:02}", version, Sold((country,), 1) if sold else Seen()


def taxed(applied: Iterable[tuple[Event, str, dict[str, str]]]) -> tuple[list[Any], list[tuple[str, str]]]:
    """The rows, and what was asked for: of events of an order, each with the rates of the moment it was applied."""
    rows: dict[str, tuple[str, int]] = {}
    asked: list[tuple[str, str]] = []
    for event, name, rates in applied:
        text, seen = rows.get(name, ("", 0))
        if isinstance(event, Seen):
            rows[name] = text, seen + 1
            continue
        known = [one for one in event.countries if one in rates]
        rows[name] = text + " ".join(f"{one}={rates[one]}" for one in known) + ";", seen
        asked += [(name, rates[one]) for one in known]
    return sorted((name, *row) for name, row in rows.items()), sorted(asked)


async def test_a_reference_table_is_as_of_the_moment_a_lost_event_is_given_up_or_found(
    live: ConsumerHarness,
) -> None:
    """Of three orders an event is lost, of three the rate that is looked up is bad; rates change while they wait."""
    s, chance = looking_up(live.stream), random.Random(23)
    both = s.Taxed, s.Receipts
    await live.pool.execute(TABLE)
    await live.pool.execute(f"{RATES}, ('XX', null, null, '[]')")
    await live.migrate(*both)
    lost, events = {"o03": 2, "o07": 1, "o11": 3}, list(sales(chance))
    there = [one for one in events if lost.get(one[0]) != one[1]]
    sent = [*there, *chance.sample(there, len(there) // 5)]
    chance.shuffle(sent)
    await publish(live, sent)
    stops = lost | {name: version for name, version, event in events if event == Sold(("XX",), 1)}
    before, after = {"DE": "0.1900", "FR": "0.2000"}, {"DE": "0.1600", "IT": "0.2200", "XX": "0.0500"}
    first = [(event, name, before) for name, version, event in events if version < stops.get(name, 99)]

    async with live.running(*both, processes=2, limits=FEW, policy=POLICY):
        await live.settled(*both)
        for name in stops:
            await inspection.reaches(["waiting"] * 2, heads, live, name)
        assert await found(live) == taxed(first)

        await live.pool.execute("update tax_rates set rate = 0.16 where country = 'DE'")
        await live.pool.execute("update tax_rates set rate = 0.05 where country = 'XX'")
        await live.pool.execute("delete from tax_rates where country = 'FR'")
        await live.pool.execute("insert into tax_rates values ('IT', 0.22, null, '[]')")
        for cls in both:
            async with live.verbs(cls) as verbs:
                await verbs.accept_gap("order/o03", 2, 2, ACT)
                for name in stops.keys() - lost.keys():
                    await verbs.retry(f"order/{name}", ACT)
        await publish(live, (one for one in events if lost.get(one[0]) == one[1] and one[0] != "o03"))
        for name in stops:
            await inspection.reaches(["clear"] * 2, heads, live, name)
        await live.settled(*both)

    then = [
        (event, name, after)
        for name, version, event in events
        if version >= stops.get(name, 99) and (name, version) != ("o03", 2)
    ]
    assert await found(live) == taxed([*first, *then])
    assert len(then) > 10


async def heads(live: ConsumerHarness, name: str) -> list[str]:
    """Where an order stands with each of the consumers."""
    return [head for (head,) in await inspection.rows(live, "positions", "head", aggregate=f"order/{name}")]


async def found(live: ConsumerHarness) -> tuple[list[Any], list[tuple[str, str]]]:
    """The rows, and what was asked for."""
    asked = await inspection.rows(live, "intents", "aggregate", "body")
    receipts = sorted((name.partition("/")[2], json.loads(body)["rate"]) for name, body in asked)
    return await live.rows("taxed"), receipts
