"""Events with several rows through their whole life: live, rebuilt, verified, mended, seen, and erased."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.rebuilding import RebuildHarness
from tests.support.several_rows import (
    Cancelled,
    Closed,
    LineAdded,
    Placed,
    Renamed,
    StockMoved,
    several,
)

from projectionist.core.settings.settings import BatchLimits
from projectionist.projections import Event
from projectionist.runner.batch import wanted_rows
from projectionist.runner.rebuild import build_state
from projectionist.runner.verify import verify as verifying

pytestmark = pytest.mark.asyncio

Told = tuple[Event, str, int]
ROADS = [("x", "y"), ("y", "z"), ("z", "x"), ("y", "x")]
BAD = Placed(("a", "b"), (1, -1))


def story(seed: int) -> list[Told]:
    """Orders that come with lines, grow, are renamed and cancelled, and stock between them; two come to a bad line."""
    chance = random.Random(seed)
    told: list[Told] = []
    for number in range(8):
        name = f"o-{number}"
        for version in range(1, chance.randint(4, 12)):
            skus = tuple(chance.choices("ab", k=chance.randint(0, 4)))
            events: list[Event] = [
                Placed(skus, tuple(chance.randint(0, 3) for _ in skus)),
                LineAdded(chance.randint(0, 5), chance.choice("ab")),
                Renamed(chance.choice("ab"), chance.choice("bc")),
                StockMoved(chance.choice("ab"), *chance.choice(ROADS), chance.randint(1, 9)),
                Cancelled(),
            ]
            event = BAD if number < 2 and version == 6 else chance.choices(events, [4, 2, 2, 3, 1])[0]
            told.append((event, name, version))
    return told


def folded(told: list[Told]) -> tuple[dict[str, Any], Counter[tuple[str, str]]]:
    """The rows of these events, and what was asked for, folded with no code of the product."""
    lines: dict[tuple[str, int], tuple[str, int]] = {}
    stock: dict[tuple[str, str], tuple[int, int]] = {}
    picked: Counter[tuple[str, str]] = Counter()
    stopped: set[str] = set()
    for event, name, version in sorted(told, key=lambda one: one[1:]):
        if isinstance(event, StockMoved):
            for place, change in ((event.source, -event.pieces), (event.target, event.pieces)):
                pieces, moves = stock.get((place, event.sku), (0, 0))
                stock[place, event.sku] = (pieces + change, moves + 1)
        if event == BAD:
            stopped.add(name)
        if name not in stopped:
            asked = told_lines({no: lines.pop((name, no)) for who, no in [*lines] if who == name}, event)
            picked.update((f"{name}-{version}", sku) for sku in asked[1])
            lines |= {(name, no): line for no, line in asked[0].items()}
    rows = {
        "lines": sorted((*key, *value) for key, value in lines.items()),
        "stock": sorted((*key, *value) for key, value in stock.items()),
    }
    return rows, picked


def told_lines(
    lines: dict[int, tuple[str, int]], event: Event
) -> tuple[dict[int, tuple[str, int]], list[str]]:
    """The lines of one order behind an event, and what it asks for."""
    if isinstance(event, Placed):
        lots = list(zip(event.skus, event.pieces, strict=True))
        added = {no: (sku, lines.get(no, ("", 0))[1] + pieces) for no, (sku, pieces) in enumerate(lots)}
        return {**lines, **added}, [sku for sku, pieces in lots if pieces]
    if isinstance(event, LineAdded):
        return {event.line_no: (event.sku, 0), **lines}, []
    if isinstance(event, Renamed):
        new = {event.old: event.new}
        return {no: (new.get(sku, sku), pieces) for no, (sku, pieces) in lines.items()}, []
    return ({}, [f"no {sku}" for sku, _ in lines.values()]) if isinstance(event, Cancelled) else (lines, [])


async def rows(rebuilds: RebuildHarness) -> dict[str, Any]:
    return {name: sorted(await rebuilds.harness.rows(name)) for name in ("lines", "stock")}


async def picked(rebuilds: RebuildHarness) -> Counter[tuple[str, str]]:
    """What was asked for: the event, and the article in the body."""
    found = await inspection.rows(rebuilds.harness, "intents", "id", "body")
    return Counter((id_, json.loads(body)["sku"]) for id_, body in found)


@pytest.mark.parametrize(("batch", "memory"), [(1, 1), (1_000, 200_000)], ids=["ones, spilled", "at once"])
async def test_an_order_with_its_lines_equals_an_independent_fold(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, batch: int, memory: int
) -> None:
    """Events come twice, late and to two processes, and both views are rebuilt while more of them come."""
    harness, s, told = rebuilds.harness, several(rebuilds.harness.stream), story(batch)
    chance = random.Random(batch)
    await harness.migrate(s.Lines, s.Stock)
    sent = [*told, *chance.sample(told, 9)]
    chance.shuffle(sent)
    late = [(Placed(("z", "z"), (2, 1)), "o-9", 1), (Cancelled(), "o-9", 2), (LineAdded(1, "y"), "o-9", 3)]
    moved = [(StockMoved("a", "x", "y", 4), "o-9", 4)]
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", memory)
    monkeypatch.setattr(verifying, "ROWS_AT_ONCE", memory)
    await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in sent])
    async with harness.running(s.Lines, s.Stock, processes=2, limits=BatchLimits(max_rows=batch)):
        await harness.settled(s.Lines, s.Stock)
        assert await rows(rebuilds) == folded(told)[0]

        for cls, more in ((s.Lines, late), (s.Stock, moved)):
            async with rebuilds.reading(cls) as building:  # which has to catch up with what comes meanwhile
                await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in more])
            assert (await building).views[0].compared.differences == []
            told = [*told, *more]
            await harness.settled(s.Lines, s.Stock)
            assert await rows(rebuilds) == folded(told)[0]
    assert await picked(rebuilds) == folded(told)[1]
    for cls in (s.Lines, s.Stock):
        for sample in (None, 100):
            found = await rebuilds.verify(cls, sample)
            assert (found.drifted, found.undecidable) == (0, 0)


async def test_one_bad_line_undoes_the_others_and_parks_what_follows(rebuilds: RebuildHarness) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Lines)
    await harness.publish_all(
        [
            (LineAdded(0, "x"), "o-1", 1, "1"),
            (BAD, "o-1", 2, "2"),
            (Cancelled(), "o-1", 3, "3"),
            (Placed(("c", "c"), (1, 1)), "o-2", 1, "4"),
        ]
    )
    await harness.settle(s.Lines)

    assert await harness.rows("lines", "1, 2") == [
        ("o-1", 0, "x", 0),
        ("o-2", 0, "c", 1),
        ("o-2", 1, "c", 1),
    ]
    assert await harness.head(s.Lines, "order/o-1") == (1, "waiting", 2)
    assert 'row ["o-1",1]: fewer than none' in await inspection.parked_error(harness)
    assert await picked(rebuilds) == {("4", "c"): 2}
    assert len(set(await inspection.rows(harness, "intents", "key"))) == 2


async def test_drift_is_found_told_and_mended_row_by_row(rebuilds: RebuildHarness) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Lines, s.Stock)
    await harness.publish_all(
        [
            (Placed(("a", "b", "c"), (1, 2, 3)), "o-1", 1, "1"),
            (Renamed("b", "x"), "o-1", 2, "2"),
            (StockMoved("a", "p", "q", 5), "o-1", 3, "3"),
            (Placed(("a", "b"), (1, 2)), "o-2", 1, "4"),
            (Cancelled(), "o-2", 2, "5"),
            (Closed("p"), "o-2", 3, "6"),
        ]
    )
    await harness.settle(s.Lines, s.Stock)
    whole = await rows(rebuilds)
    assert whole == {
        "lines": [("o-1", 0, "a", 1), ("o-1", 1, "x", 2), ("o-1", 2, "c", 3)],
        "stock": [("q", "a", 5, 1)],
    }
    await harness.pool.execute("update projectionist.lines__g1 set sku = 'b' where line_no = 1")
    await harness.pool.execute("insert into projectionist.lines__g1 values ('o-2', 1, 'b', 2)")
    await harness.pool.execute("insert into projectionist.stock__g1 values ('p', 'a', -5, 1)")

    for sample in (None, 100):
        lines, stock = [await rebuilds.verify(cls, sample) for cls in (s.Lines, s.Stock)]
        assert {(one.key, one.since) for one in lines.drifts} == {
            ('["o-1",1]', "order/o-1 v2"),
            ('["o-2",1]', "order/o-2 v2"),
        }
        assert [(one.key, one.since) for one in stock.drifts] == [('["p","a"]', "order/o-2 v3")]
    for cls, found in ((s.Lines, lines), (s.Stock, stock)):
        for one in found.drifts:
            mended = await rebuilds.mend(cls, one.key)
            assert (mended.changed is not None, mended.events) == (True, 2)
    assert await rows(rebuilds) == whole


async def test_a_thousand_orders_of_five_lines_take_as_many_statements_as_of_one(
    rebuilds: RebuildHarness,
) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Lines)
    taken = []
    async with batch_drivers(harness, s.Lines, drivers=1) as (driver,):
        for name, lines in (("warm", 1), ("one", 1), ("five", 5)):
            order = Placed(("a",) * lines, (0,) * lines)
            events = [driver.read(order, f"{name}-{n}", 1) for n in range(1_000)]
            events += [driver.read(Renamed("a", "b"), f"{name}-{n}", 2) for n in range(1_000)]
            connection = (await driver.session.ready())[0].connection
            asked: list[object] = []
            connection.add_query_logger(asked.append)
            await driver.settle(*events)
            connection.remove_query_logger(asked.append)
            taken.append(len(asked))
    assert taken[1] == taken[2]
    assert await harness.value("select count(*) from lines where sku = 'b'") == 7_000


async def test_workers_that_move_stock_in_opposite_directions_do_not_wait_in_a_circle(
    rebuilds: RebuildHarness,
) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Stock)
    async with batch_drivers(harness, s.Stock, drivers=2) as drivers:

        async def move(driver: Any, name: str, source: str, target: str) -> None:
            for number in range(12):
                order = f"{name}-{number}"
                read: list[Event] = [StockMoved(sku, source, target, 1) for sku in ("a", "b", "c")]
                if number % 4 == 3:
                    read.append(Closed("closed"))
                await driver.settle(
                    *(driver.read(event, order, version) for version, event in enumerate(read, 1))
                )

        await asyncio.gather(move(drivers[0], "l", "x", "y"), move(drivers[1], "r", "y", "x"))
    assert sorted(await harness.rows("stock")) == [(w, sku, 0, 24) for w in "xy" for sku in "abc"]
    assert await inspection.count_inbox(harness, state="applied") == 78


async def test_a_batch_with_too_many_rows_is_settled_in_parts_and_built_in_parts(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    monkeypatch.setattr(wanted_rows, "MOST_AT_ONCE", 10)
    await harness.migrate(s.Lines)
    await harness.publish_all(
        [(Placed(("a",) * 4, (1,) * 4), f"o-{n}", 1, f"{n}") for n in range(9)]
        + [(Renamed("a", "b"), f"o-{n % 3}", 2 + n // 3, f"r{n}") for n in range(9)]
    )
    await harness.settle(s.Lines)
    expected = [(f"o-{n}", no, "b" if n < 3 else "a", 1) for n in range(9) for no in range(4)]
    assert sorted(await harness.rows("lines")) == expected

    async with harness.running(s.Lines):
        async with rebuilds.reading(s.Lines) as building:
            await harness.publish_all([(Renamed("b", "c"), "o-1", v, f"c{v}") for v in range(5, 9)])
            await harness.settled(s.Lines)
        assert (await building).views[0].compared.differences == []
    assert (await rebuilds.verify(s.Lines)).drifted == 0


async def test_an_order_with_more_lines_than_an_event_may_have_is_named_and_loses_nothing(
    rebuilds: RebuildHarness,
) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Lines)
    await harness.publish(LineAdded(0, "x"), "o-1", 1)
    await harness.publish(LineAdded(0, "x"), "o-2", 1)
    await harness.settle(s.Lines)
    await harness.pool.execute(
        "insert into projectionist.lines__g1 select 'o-1', n, 'x', 1 from generate_series(1, 10000) n"
    )
    await harness.publish(Cancelled(), "o-1", 2)
    await harness.publish(Cancelled(), "o-2", 2)
    await harness.settle(s.Lines)

    assert await harness.value("select count(*) from lines") == 10_001
    assert await harness.head(s.Lines, "order/o-1") == (1, "waiting", 1)
    assert "more than 10,000 rows" in await inspection.parked_error(harness)
    assert await harness.head(s.Lines, "order/o-2") == (2, "clear", 0)
