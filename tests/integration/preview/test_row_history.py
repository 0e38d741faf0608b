"""`row` shows a row as it was: what its events up to that moment make of it, and never a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support import inspection
from tests.support.keyed_lines import LineAdded, LineRemoved, keyed
from tests.support.process import run_projectionist
from tests.support.rebuilding import ACT, RebuildHarness, shop_app, view_of
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop
from tests.support.writes import writes

from projectionist.core.nats import connections
from projectionist.projections import Projection, on
from projectionist.projections.compiled.definition import Definition
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.progress import Logged
from projectionist.runner.preview.row_history import PastRow, row_at

pytestmark = pytest.mark.asyncio


async def row(
    rebuilds: RebuildHarness, cls: type | Definition, key: str, at: str | None = None, *, states: int = 1
) -> PastRow:
    harness = rebuilds.harness
    client = await connections.connect(harness.settings.nats, name="looker")
    try:
        async with harness.connected() as connection:
            queries = Queries(connection, SCHEMA)
            given = (queries, view_of(cls), harness.settings, client, key, Logged("row"), at)
            return await row_at(*given, states=states)
    finally:
        await client.close()


def folded(events: list[Any]) -> dict[str, Any] | None:
    """An order by the plainest of means."""
    made: dict[str, Any] | None = None
    for event in events:
        match event:
            case OrderPlaced():
                made = {"status": "placed", "cents": event.cents, "history": ["placed"]}
            case OrderPaid():
                assert made is not None
                made = made | {"status": "paid", "history": [*made["history"], "paid"]}
            case OrderNoted():
                assert made is not None
                made = made | {"history": [*made["history"], event.text]}
    return made


def told(then: PastRow) -> dict[str, Any] | None:
    if then.row is None:
        return None
    return {name: value for name, value in then.row.items() if name != "order_id"} | {
        "history": json.loads(then.row["history"])
    }


LEDGER = [
    OrderPlaced("ann", 7),
    OrderNoted("a"),
    OrderShipped(),
    OrderPaid(),
    OrderNoted("b"),
    OrderNoted("c"),
]


async def test_a_row_at_each_version_is_what_a_prefix_of_the_ledger_makes(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for version in (1, 3, 2, 2, 5, 4, 6):  # one comes twice, two in no order
        await harness.publish(LEDGER[version - 1], "o1", version, id=f"e{version}")
        await harness.publish(OrderPlaced("bob", 1), f"other{version}", 1, id=f"o{version}")
    await harness.settle(s.Orders)

    for version in range(len(LEDGER) + 1):
        then = await row(rebuilds, s.Orders, "o1", str(version))
        assert told(then) == folded(LEDGER[:version]), version
        assert (then.lost, then.waiting) == (None, [])
    then = await row(rebuilds, s.Orders, "o1", states=3)
    assert (told(then), then.differs, then.events, then.earlier_states) == (folded(LEDGER), False, 5, 2)
    assert [(one.event, one.id) for one in then.states] == [
        ("order/o1 v4", "e4"),
        ("order/o1 v5", "e5"),
        ("order/o1 v6", "e6"),
    ]
    assert then.states[0].changed is not None
    assert then.states[0].changed.keys() == {"status", "history"}


async def test_by_sequence_an_event_counts_when_those_before_it_of_the_row_are_there(
    rebuilds: RebuildHarness,
) -> None:
    """Of the row: version 3 touches no row, so nothing of one has to wait for it."""
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    seqs = {version: await harness.publish(LEDGER[version - 1], "o1", version) for version in (1, 4, 2, 3)}
    await harness.settle(s.Orders)

    async def at(seq: int) -> dict[str, Any] | None:
        return told(await row(rebuilds, s.Orders, "o1", f"seq:{seq}"))

    assert await at(seqs[1]) == await at(seqs[4]) == folded(LEDGER[:1])
    assert await at(seqs[2]) == await at(seqs[3]) == folded(LEDGER[:4])


async def test_decisions_are_repeated_and_deleted_rows_are_none(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 7), "o1", 1)
    await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderNoted("good"), "o1", 3)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with harness.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await rebuilds.settled(s.Orders)

    for version, texts in ((1, []), (2, []), (3, ["good"])):
        found = told(await row(rebuilds, s.Orders, "o1", str(version)))
        assert found is not None
        assert found["history"] == ["placed", *texts]
    assert (await row(rebuilds, s.Orders, "o1", "0")).row is None


async def test_a_row_that_aggregates_share_is_told_by_sequence_and_by_time(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    for n in range(1, 6):
        await harness.publish(OrderPlaced("ann" if n != 3 else "bob", n), f"o{n}", 1)
    await harness.settle(s.Spend)
    stored = (await harness.nats.jetstream().get_msg(harness.stream.name, 4)).time
    assert stored is not None

    for at, cents in (("seq:2", 3), ("seq:3", 3), ("seq:4", 7), (stored.isoformat(), 7), (None, 12)):
        then = await row(rebuilds, s.Spend, "ann", at)
        assert then.row == {"customer": "ann", "orders": {3: 2, 7: 3, 12: 4}[cents], "cents": cents}
    assert (await row(rebuilds, s.Spend, "ann", "2001-01-01T00:00:00Z")).row is None
    with pytest.raises(RebuildError, match="belong to no single aggregate"):
        await row(rebuilds, s.Spend, "ann", "2")


async def test_a_row_with_a_key_of_several_columns_is_told_by_version(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    lines = keyed(harness.stream).Lines
    await harness.migrate(lines)
    ledger = [LineAdded(1, "a", 2), LineAdded(2, "b"), LineAdded(1, "a", 3), LineRemoved(1)]
    for version, event in enumerate(ledger, 1):
        await harness.publish(event, "o1", version)
    await harness.settle(lines)

    for version, pieces in ((0, None), (1, 2), (2, 2), (3, 5), (4, None)):
        then = await row(rebuilds, lines, '["o1", 1]', str(version))
        assert (then.row and then.row["pieces"]) == pieces, version
    with pytest.raises(RebuildError, match="has applied order/o1 up to version 4, not 5"):
        await row(rebuilds, lines, '["o1", 2]', "5")
    await harness.nats.jetstream().delete_msg(harness.stream.name, 3)
    assert (await row(rebuilds, lines, '["o1", 1]', "2")).lost is None
    assert (await row(rebuilds, lines, '["o1", 1]', "3")).lost == "order/o1 v3"


async def test_what_cannot_be_told_is_said_and_never_guessed(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    for version, event in enumerate(LEDGER, 1):
        await harness.publish(event, "o1", version)
    await harness.publish(OrderPlaced("ann", 1), "o2", 1)
    await harness.settle(s.Orders, s.Spend)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 4)

    for at in ("1", "3", "seq:3"):
        then = await row(rebuilds, s.Orders, "o1", at)
        assert (then.lost, told(then)) == (None, folded(LEDGER[: int(at[-1])])), at
    for late in ("4", "6", "seq:4", None):
        then = await row(rebuilds, s.Orders, "o1", late)
        assert (then.lost, then.row, then.states) == ("order/o1 v4", None, []), late
    assert (await row(rebuilds, s.Orders, "o2", "1")).lost is None
    assert (await row(rebuilds, s.Spend, "ann", "seq:1")).lost is None, "its type touches no row of this one"

    await harness.nats.jetstream().delete_msg(harness.stream.name, 7)
    assert (await row(rebuilds, s.Spend, "ann", "seq:1")).lost == "order/o2 v1", "it may not be the only one"
    await harness.nats.jetstream().delete_msg(harness.stream.name, 1)
    assert (await row(rebuilds, s.Spend, "ann", "seq:6")).lost == "order/o1 v1"
    assert (await row(rebuilds, s.Orders, "o1", "1")).lost == "order/o1 v1"


async def test_what_live_has_not_applied_is_not_in_the_row_and_is_named(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 7), "o1", 1)
    bad = await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderNoted("behind"), "o1", 3)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)

    then = await row(rebuilds, s.Orders, "o1", f"seq:{bad}")
    assert (told(then), then.waiting) == (folded(LEDGER[:1]), ["order/o1 v2"])
    with pytest.raises(RebuildError, match="has applied order/o1 up to version 1, not 2"):
        await row(rebuilds, s.Orders, "o1", "2")
    with pytest.raises(RebuildError, match="it ends at 3"):
        await row(rebuilds, s.Orders, "o1", "seq:4")


async def test_the_command_tells_people_and_programs_and_writes_nothing(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    env = shop_app(tmp_path, harness)
    await harness.migrate(s.Orders, s.Spend)
    await harness.publish(OrderPlaced("ann", 7), "o1", 1)
    await harness.publish(OrderNoted("\x1b]0;title\x07\x1b[2J"), "o1", 2)
    await harness.settle(s.Orders, s.Spend)
    before = await writes(harness)

    async def call(*words: str) -> tuple[int, str]:
        ended = await run_projectionist("row", "orders:app", *words, cwd=tmp_path, **env)
        return ended.code, ended.out or ended.err

    code, out = await call("Orders", "o1", "--at", "1")
    assert (code, out.splitlines()[0]) == (
        0,
        "Orders o1 at 1: 1 events, the last order/o1 v1 (sequence 1); 1 came later",
    )
    assert "cents     ***" in out
    assert '"changed": null' not in (await call("Orders", "o1", "--json"))[1]
    code, out = await call("Orders", "o1", "--history")
    assert (code, "changed" in out, "title" in out) == (0, True, False)
    assert await writes(harness) == before
    assert (await call("Orders", "o1", "--reveal"))[0] == 2
    code, out = await call("Orders", "o1", "--history", "--reveal", "--reason", "ticket 7")
    assert (code, "title" in out) == (0, True)
    assert {one for one in out if not one.isprintable()} <= {"\n", "\t"}
    assert out.count("order/o1 v") == 3
    code, out = await call("Orders", "o1", "--at", "0")
    assert (code, out) == (0, "Orders o1 at 0: no row: 0 events; 2 came later\n")
    code, out = await call("Orders", "urn:order:1")
    assert (code, "no event makes one" in out) == (1, True), "a key may hold a colon"
    code, out = await call("Orders", "nobody")
    assert (code, out) == (1, "Orders nobody: there is no such row, and no event makes one\n")
    code, out = await call("Orders", "o1", "--at", "yesterday")
    assert (code, "is not an RFC 3339 time" in out) == (1, True)
    code, out = await call("Spend", "ann", "--at", "seq:1", "--json", "--reveal", "--reason", "ticket 8")
    assert (code, json.loads(out)["row"]["row"]["cents"]) == (0, 7)
    revealed = [("Orders: row o1", "ticket 7"), ("Spend: row ann", "ticket 8")]
    assert await inspection.rows(harness, "audit", "object", "reason", action="reveal") == revealed
    await harness.pool.execute(f"update {SCHEMA}.orders__g1 set cents = 8")
    code, out = await call("Orders", "o1")
    assert (code, "the live row is another one" in out) == (3, True)


async def test_no_version_is_meant_where_no_event_was_applied_yet(rebuilds: RebuildHarness) -> None:
    lines = keyed(rebuilds.harness.stream).Lines
    await rebuilds.harness.migrate(lines)
    with pytest.raises(RebuildError, match="Lines has applied no event yet"):
        await row(rebuilds, lines, '["o-1",1]', "1")
    assert (await row(rebuilds, lines, '["o-1",1]')).is_unknown


async def test_a_row_is_told_by_code_with_a_column_or_a_key_that_live_lacks(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await harness.migrate(keyed(harness.stream).Lines)
    await harness.publish(LineAdded(1, "a"), "o-1", 1)
    await harness.settle(keyed(harness.stream).Lines)
    policy = {"stream": harness.stream.name, "subjects": harness.stream.subject("order", "{aggregate}")}

    class Lines(Projection, table="lines", key=("order_id", "line_no"), **policy):
        order_id: str
        line_no: int
        sku: str = ""
        pieces: int = 0
        note: str = "new"

        @on(LineAdded)
        def added(self, event: LineAdded) -> None:
            self.sku, self.pieces = event.sku, event.pieces

    then = await row(rebuilds, Lines, '["o-1",1]')
    assert then.row is not None
    assert (then.row["note"], then.differs) == ("new", False)
    for sample in (None, 1):
        with pytest.raises(RebuildError, match="have no column note: they cannot be compared"):
            await rebuilds.verify(Lines, sample)

    by_order = other_key(policy)
    then = await row(rebuilds, by_order, "o-1")
    assert then.row is not None
    assert (then.row["line_no"], then.differs) == (1, False)
    with pytest.raises(RebuildError, match="have the key order_id, line_no: they cannot be compared"):
        await rebuilds.verify(by_order)


def other_key(policy: dict[str, str]) -> type:
    """The lines of an order in one row."""

    class Lines(Projection, table="lines", key="order_id", **policy):
        order_id: str
        line_no: int = 0
        sku: str = ""
        pieces: int = 0

        @on(LineAdded)
        def added(self, event: LineAdded) -> None:
            self.line_no, self.sku, self.pieces = event.line_no, event.sku, 7

    return Lines
