"""Rows with keys of several columns through their whole life: live, rebuilt, verified, mended, read, and named."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from tests.support import inspection
from tests.support.keyed_lines import LineAdded, LineRemoved, Moved, keyed
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Stream

from projectionist.core.settings.settings import BatchLimits
from projectionist.projections import Event, Projection, on
from projectionist.projections.errors import BadValue
from projectionist.runner import App
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.rebuild import build_state
from projectionist.runner.rebuild.compare import Differs

pytestmark = pytest.mark.asyncio

Told = tuple[Event, str, int]
NOON = date(2026, 11, 19)
KEYED_OTHERWISE = "all rows of moves: their key is another one"


def story(seed: int) -> list[Told]:
    """Orders whose lines come, grow and go, and stock that moves, in an order that only aggregates keep."""
    chance = random.Random(seed)
    orders: dict[str, list[Event]] = {f"o-{n}": [] for n in range(6)}
    for events in orders.values():
        for _ in range(chance.randint(3, 9)):
            no, sku = chance.randint(1, 3), chance.choice("ab")
            events.append(
                chance.choice(
                    [
                        LineAdded(no, sku, chance.randint(1, 4)),
                        LineAdded(no, sku),
                        LineRemoved(no),
                        Moved(chance.choice(["main", "a/b"]), sku, NOON, UUID(int=no), 5),
                    ]
                )
            )
    told = [(event, name, at) for name, events in orders.items() for at, event in enumerate(events, 1)]
    chance.shuffle(told)
    return told


def folded(told: list[Told]) -> dict[str, Any]:
    """The rows of these events, folded with no code of the product."""
    lines: dict[tuple[str, int], tuple[str, int]] = {}
    stock: Counter[tuple[str, str]] = Counter()
    ledger: Counter[tuple[str, str, date, UUID]] = Counter()
    touched = set()
    for event, name, _ in sorted(told, key=lambda one: one[1:]):
        if isinstance(event, LineAdded):
            _, pieces = lines.get((name, event.line_no), ("", 0))
            lines[name, event.line_no] = (event.sku, pieces + event.pieces)
            stock["main", event.sku] -= event.pieces
            touched.add(("main", event.sku))
        elif isinstance(event, LineRemoved):
            lines.pop((name, event.line_no), None)
        elif isinstance(event, Moved):
            stock[event.warehouse, event.sku] += event.pieces
            ledger[event.warehouse, event.sku, event.day, event.batch] += event.pieces
            touched.add((event.warehouse, event.sku))
    return {
        "lines": sorted((*key, *value) for key, value in lines.items()),
        "stock": sorted((*key, stock[key]) for key in touched),
        "ledger": sorted((*key, value) for key, value in ledger.items()),
    }


async def rows(rebuilds: RebuildHarness) -> dict[str, Any]:
    return {name: sorted(await rebuilds.harness.rows(name)) for name in ("lines", "stock", "ledger")}


@pytest.mark.parametrize(("batch", "memory"), [(1, 1), (1_000, 200_000)], ids=["ones, spilled", "at once"])
async def test_live_and_rebuilt_rows_equal_an_independent_fold(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, batch: int, memory: int
) -> None:
    harness, s, told = rebuilds.harness, keyed(rebuilds.harness.stream), story(batch)
    classes = (s.Lines, s.Stock, s.Ledger)
    await harness.migrate(*classes)
    await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in told])
    async with harness.running(*classes, limits=BatchLimits(max_rows=batch)):
        await harness.settled(*classes)
        assert await rows(rebuilds) == folded(told)

        monkeypatch.setattr(build_state, "ROWS_AT_ONCE", memory)
        more: list[Told] = [
            (LineAdded(9, "z", 3), "o-9", 1),
            (Moved("main", "z", NOON, UUID(int=9), 1), "o-9", 2),
        ]
        for cls in classes:
            async with rebuilds.reading(cls) as building:  # which has to catch up with what comes meanwhile
                await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in more])
            assert (await building).views[0].compared.differences == []
            told, more = [*told, *more], []
            await harness.settled(*classes)
            assert await rows(rebuilds) == folded(told)
    for cls in classes:
        found = await rebuilds.verify(cls)
        assert (found.drifted, found.undecidable) == (0, 0)


async def test_drift_in_a_row_is_named_by_its_whole_key_and_mended_alone(rebuilds: RebuildHarness) -> None:
    harness, s, told = rebuilds.harness, keyed(rebuilds.harness.stream), story(7)
    classes = (s.Lines, s.Stock, s.Ledger)
    await harness.migrate(*classes)
    await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in told])
    await harness.settle(*classes)
    whole = folded(told)
    order, no, _, _ = whole["lines"][0]
    await harness.pool.execute(
        "update projectionist.lines__g1 set pieces = -1 where order_id = $1 and line_no = $2", order, no
    )
    await harness.pool.execute("update projectionist.stock__g1 set pieces = 99 where sku = 'a'")
    await harness.pool.execute("insert into projectionist.lines__g1 (order_id, line_no) values ('ghost', 1)")

    for sample in (None, 100):
        lines, stock = [await rebuilds.verify(cls, sample) for cls in (s.Lines, s.Stock)]
        assert {one.key for one in lines.drifts} == {f'["{order}",{no}]', '["ghost",1]'}
        assert {one.key for one in stock.drifts} == {
            f'["{place}","{what}"]' for place, what, _ in whole["stock"] if what == "a"
        }
    with pytest.raises(RebuildError, match="takes 2 values"):
        await rebuilds.mend(s.Lines, f'["{order}"]')
    with pytest.raises(RebuildError, match="write a JSON array"):
        await rebuilds.mend(s.Lines, order)
    for cls, found in ((s.Lines, lines), (s.Stock, stock)):
        for one in found.drifts:
            assert (await rebuilds.mend(cls, one.key)).changed is not None
    assert await rows(rebuilds) == whole


async def test_rows_get_and_lose_columns_of_their_key_by_a_rebuild(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    one, several, swapped = [
        moves(harness.stream, key) for key in ("sku", ("warehouse", "sku"), ("sku", "warehouse"))
    ]
    told: list[Told] = [
        (Moved("main", "a", NOON, UUID(int=1), 5), "o-1", 1),
        (Moved("other", "a", NOON, UUID(int=1), 7), "o-2", 1),
    ]
    await harness.migrate(one)
    await harness.publish_all([(e, a, v, f"{a}-{v}") for e, a, v in told])
    await harness.settle(one)

    for cls in (several, swapped, one, swapped, several):
        rebuilt = await rebuilds.rebuild(cls)
        whole = [("a", "", 12)] if cls is one else [("a", "main", 5), ("a", "other", 7)]
        assert sorted(await harness.rows("moves")) == whole
        [view] = rebuilt.views
        assert (view.compared.rows, view.compared.left_out) == (len(whole), [KEYED_OTHERWISE])
        assert (await rebuilds.verify(cls)).drifted == 0


def moves(stream: Stream, key: str | tuple[str, ...]) -> type:
    """The same table in releases that tell rows apart by other columns."""

    class Moves(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="moves",
        key=key,
    ):
        sku: str
        warehouse: str = ""
        pieces: int = 0

        @on(Moved, key=key)
        def moved(self, event: Moved) -> None:
            self.pieces += event.pieces

    return Moves


async def test_columns_may_bear_the_names_that_statements_use_themselves(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = rebuilds.harness
    cls = aliases(harness.stream)
    await harness.migrate(cls)
    for version in (1, 2):
        await harness.publish(Moved("main", "a", NOON, UUID(int=1), 5), "o-1", version)
        await harness.settle(cls)
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", 1)

    assert (await rebuilds.rebuild(cls)).views[0].compared.differences == []
    await harness.pool.execute("update projectionist.aliases__g2 set l = 7")
    assert [one.key for one in (await rebuilds.verify(cls)).drifts] == ['["main","a"]']
    with pytest.raises(Differs, match=r"aliases \[.*\]: l"):
        await rebuilds.rebuild(cls)


def aliases(stream: Stream) -> type:
    """A table whose columns are called like the tables and columns of the statements about it."""

    class Aliases(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="aliases",
        key=("t", "k1"),
    ):
        t: str
        k1: str
        b: int = 0
        l: int = 0  # noqa: E741 the alias of the live side
        w: int = 0
        k: int = 0
        u: int = 0
        d: int = 0
        r: int = 0
        place: int = 0
        key: int = 0
        order: int = 0

        @on(Moved, key=("warehouse", "sku"))
        def moved(self, event: Moved) -> None:
            self.b += event.pieces
            self.order += 1

    return Aliases


async def test_a_line_that_fails_blocks_its_order_alone_and_leaves_no_trace(rebuilds: RebuildHarness) -> None:
    harness, s = rebuilds.harness, keyed(rebuilds.harness.stream)
    await harness.migrate(s.Lines)
    await harness.publish_all(
        [
            (LineAdded(1, "a"), "o-1", 1, "1"),
            (LineAdded(2, "b", -1), "o-1", 2, "2"),
            (LineAdded(3, "c"), "o-1", 3, "3"),
            (LineAdded(1, "d"), "o-2", 1, "4"),
        ]
    )
    await harness.settle(s.Lines)

    assert await harness.rows("lines", "1, 2") == [("o-1", 1, "a", 1), ("o-2", 1, "d", 1)]
    assert await harness.head(s.Lines, "order/o-1") == (1, "waiting", 2)
    assert "fewer than none" in await inspection.parked_error(harness)


async def test_an_app_reads_a_row_by_the_values_of_its_key(rebuilds: RebuildHarness) -> None:
    harness, s = rebuilds.harness, keyed(rebuilds.harness.stream)
    await harness.migrate(s.Lines)
    await harness.publish_all([(LineAdded(1, "a", 4), "o-1", 1, "1")])
    await harness.settle(s.Lines)

    async with harness.connected() as connection:
        app = App(projections=[s.Lines])
        found = await app.read(s.Lines, ("o-1", 1), connection=connection)
        assert found == s.Lines(order_id="o-1", line_no=1, sku="a", pieces=4)
        assert await app.read(s.Lines, ("o-1", 2), connection=connection) is None
        with pytest.raises(BadValue, match="'order_id, line_no' takes 2 values"):
            await app.read(s.Lines, "o-1", connection=connection)
