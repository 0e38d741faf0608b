"""Random histories: whatever was shuffled, repeated, lost and sent again, poisoned and decided, the tables equal
an independent reckoning of the stream."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given, note
from hypothesis import strategies as st
from tests.support import inspection
from tests.support.boundary_harness import examples
from tests.support.consumer_harness import PATIENCE, ConsumerHarness, harness
from tests.support.deadlines import begin_anew
from tests.support.reference_fold import decisions, facts, reckon
from tests.support.servers import Servers
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop

from projectionist.core.operator import Act
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import Event

ACT = Act("ops", "history")
ROUNDS = 12
KINDS = ["bad", "fine", "paid", "shipped", "worse"]


class History(msgspec.Struct, frozen=True):
    """What the producer sends, and what operators do about it."""

    sent: list[tuple[str, int, str]]
    """(aggregate, version, event), in the order of sending, repeats included."""
    resent: list[tuple[str, int, str]]
    """What was lost at first."""
    acts: dict[str, str]
    """By aggregate: what is done when it waits for a person."""
    processes: int
    rows: int
    drain: int


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A few aggregates of a few events each."""
    events: list[tuple[str, int, str]] = []
    acts = {}
    for aggregate in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        kinds = draw(st.lists(st.sampled_from(KINDS), max_size=6))
        events += [(aggregate, version, kind) for version, kind in enumerate(["placed", *kinds], 1)]
        acts[aggregate] = draw(st.sampled_from(["mend", "skip", "edit", "leave"]))
    lost = draw(st.sets(st.sampled_from(events), max_size=3))
    again = draw(st.lists(st.sampled_from(events), max_size=6))
    sent = draw(st.permutations([*events, *again]))
    never = draw(st.booleans())
    return History(
        sent=[event for event in sent if event not in lost],
        resent=[] if never else sorted(lost),
        acts=acts,
        processes=draw(st.sampled_from([1, 2])),
        rows=draw(st.sampled_from([1, 3, 1000])),
        drain=draw(st.sampled_from([1, 2, 500])),
    )


@examples(few=12, many=200)
@given(history=histories())
def test_the_tables_equal_an_independent_reckoning_of_the_stream(servers: Servers, history: History) -> None:
    begin_anew()
    database, stream = servers.make_database(), servers.make_stream()
    try:
        asyncio.run(_live_through(servers, database, stream, history))
    finally:
        servers.drop_database(database)
        servers.delete_stream(stream)


async def _live_through(servers: Servers, database: str, stream: Any, history: History) -> None:
    async with harness(servers, database, stream) as live:
        s = shop(live.stream)
        s.trouble.poison.update(f"{kind} {aggregate}" for kind in ("bad", "worse") for aggregate in "abc")
        await live.migrate(s.Orders, s.Spend)
        options: dict[str, Any] = {
            "processes": history.processes,
            "policy": msgspec.structs.replace(PATIENCE, drain_batch_size=history.drain),
            "limits": Limits(max_rows=history.rows),
        }
        for phase in (history.sent, history.resent):
            await live.publish_all((_event(a, kind), a, v, f"{a}{v}") for a, v, kind in phase)
            await live.settle(s.Orders, s.Spend, **options)
            await _compare(live, s.trouble.poison)
        for _ in range(ROUNDS):
            if not await _act(live, s, history.acts):
                break
            await live.settle(s.Orders, s.Spend, **options)
            await _compare(live, s.trouble.poison)


def _event(aggregate: str, kind: str) -> Event:
    match kind:
        case "placed":
            return OrderPlaced("ann" if aggregate == "a" else "bob", 100)
        case "paid":
            return OrderPaid()
        case "shipped":
            return OrderShipped()
        case _:
            return OrderNoted(f"{kind} {aggregate}")


async def _act(live: ConsumerHarness, s: Any, acts: dict[str, str]) -> bool:
    """Do for every aggregate that cannot go on what its history says; whether anything was done."""
    done = False
    for cls in (s.Orders, s.Spend):
        stuck = await live.fetch(
            "select p.aggregate, p.version, p.head, e.source, e.id, e.version from {s}.positions p"
            " join lateral (select * from {s}.parked e where e.consumer = p.consumer and e.aggregate = p.aggregate"
            " order by e.version limit 1) e on true"
            " where p.consumer = (select number from {s}.consumers where name = $1)",
            cls.__name__,
        )
        async with live.verbs(cls) as verbs:
            for aggregate, version, head, source, name, first in stuck:
                act = acts[aggregate[-1]]
                note(f"{cls.__name__} {aggregate} {head} at {version}: {act}")
                match act:
                    case "leave":
                        continue
                    case _ if first > version + 1:
                        await verbs.accept_gap(aggregate, version + 1, first - 1, ACT)
                    case "edit":
                        await verbs.edit((source, name), b'{"text": "edited"}', b"digest", ACT)
                    case "skip":
                        await verbs.skip(aggregate, ACT)
                    case "mend":
                        s.trouble.poison.difference_update({f"bad {aggregate[-1]}", f"worse {aggregate[-1]}"})
                        await verbs.retry(aggregate, ACT)
                done = True
    return done


async def _compare(live: ConsumerHarness, poison: set[str]) -> None:
    stream = await facts(live)
    expected = reckon(stream, await decisions(live, "Orders"), poison)
    assert await live.rows("orders") == expected.orders
    positions = await live.fetch(
        "select aggregate, version from {s}.positions"
        " where consumer = (select number from {s}.consumers where name = 'Orders')"
    )
    assert dict(positions) == expected.positions
    assert set(await inspection.rows(live, "intents", "source", "id")) == expected.receipts
    assert await inspection.count_intents(live) == len(expected.receipts)
    spend = reckon(stream, await decisions(live, "Spend"))
    assert await live.rows("spend") == spend.spend
    await live.assert_sound()
