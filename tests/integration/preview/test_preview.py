"""`preview` shows what new code would make of the live rows, exactly, while live goes on, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.keyed_lines import LineAdded, keyed
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, view_of
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderRow, OrderShipped, Receipt, shop
from tests.support.writes import Writes, writes

from projectionist.core.nats import connections
from projectionist.projections import Projection, on
from projectionist.projections.compiled.definition import Definition
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.progress import Logged
from projectionist.runner.preview import preview as previewing
from projectionist.runner.preview.preview import Previewer
from projectionist.runner.preview.preview_result import PreviewResult

pytestmark = pytest.mark.asyncio


def options(rebuilds: RebuildHarness, **more: Any) -> dict[str, Any]:
    stream = rebuilds.harness.stream
    usual = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "table": "orders",
        "key": "order_id",
        "effects": "beginning",
    }
    return usual | more


def release(rebuilds: RebuildHarness, meet: Callable[[str], str], **more: Any) -> type:
    """`Orders` as its next release: what it makes of a note is left to the test."""

    class Orders(OrderRow, **options(rebuilds, **more)):
        """The next release."""

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(meet(event.text))

    return Orders


async def preview(
    rebuilds: RebuildHarness,
    cls: type | Definition,
    sample: int = 1000,
    aggregate: str | None = None,
    *,
    reveal: bool = False,
) -> PreviewResult:
    harness, one = rebuilds.harness, view_of(cls)
    client = await connections.connect(harness.settings.nats, name="previewer")
    try:
        async with harness.connected() as connection:
            await connection.execute("set default_transaction_read_only = on")
            given = (Queries(connection, SCHEMA), one, harness.settings, client, Logged(one.name))
            return await Previewer(*given, reveal=reveal).run(sample, aggregate)
    finally:
        await client.close()


async def some(rebuilds: RebuildHarness, s: Any, orders: int = 6) -> None:
    await rebuilds.harness.migrate(s.Orders, s.Spend)
    for n in range(orders):
        await rebuilds.harness.publish(OrderPlaced("ann" if n % 2 else "bob", 10), f"o{n}", 1)
        await rebuilds.harness.publish(OrderNoted(f"note {n}"), f"o{n}", 2)
        await rebuilds.harness.publish(OrderPaid(1), f"o{n}", 3)
    await rebuilds.harness.settle(s.Orders, s.Spend)


@pytest.mark.parametrize("a_row", [0, 500], ids=["by subject", "in one pass"])
async def test_a_planted_change_is_found_by_row_and_column(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, a_row: int
) -> None:
    monkeypatch.setattr(previewing, "A_ROW", a_row)
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)
    changed = release(rebuilds, lambda text: text.upper() if text == "note 3" else text)

    found = await preview(rebuilds, changed)

    assert (found.rows, found.differ, found.by_column, found.events) == (6, 1, {"history": 1}, 18)
    (change,) = found.changes
    assert (change.key, change.side, change.columns) == ("o3", "both", ["history"])
    assert (change.live, change.new) == (None, None), "values are masked"
    assert (found.failed, found.runs, found.older_rows, found.differs) == (0, False, False, True)
    assert found.intents == {"Receipt": 6}
    (change,) = (await preview(rebuilds, changed, reveal=True)).changes
    assert change.new == {"history": '["placed", "NOTE 3", "paid"]'}
    same = await preview(rebuilds, s.Orders)
    assert (same.differ, same.runs, same.differs) == (0, True, False)
    assert (await preview(rebuilds, changed, aggregate="order/o2")).differ == 0
    one = await preview(rebuilds, changed, aggregate="order/o3")
    assert (one.rows, one.differ) == (1, 1)
    with pytest.raises(RebuildError, match="belong to aggregates of type 'order'"):
        await preview(rebuilds, changed, aggregate="cart/o3")
    assert (await preview(rebuilds, changed, 2)).rows == 2


async def test_events_that_new_code_fails_on_are_listed_and_their_rows_not_compared(
    rebuilds: RebuildHarness,
) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)

    def poisoned(text: str) -> str:
        if text in ("note 1", "note 4"):
            raise ValueError(f"no {text} any more")
        return text

    found = await preview(rebuilds, release(rebuilds, poisoned))

    assert (found.failed, found.unfinished, found.rows, found.differ) == (2, 2, 4, 0)
    assert [(one.aggregate, one.version, one.seq, one.type) for one in found.failures] == [
        ("order/o1", 2, 5, "order.noted"),
        ("order/o4", 2, 14, "order.noted"),
    ]
    assert found.differs
    assert not any("any more" in one.text or "any more" in one.error for one in found.failures)
    found = await preview(rebuilds, release(rebuilds, poisoned), reveal=True)
    assert [one.text for one in found.failures] == [
        "ValueError: no note 1 any more",
        "ValueError: no note 4 any more",
    ]


async def test_an_event_whose_row_new_code_cannot_name_is_listed(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)

    def named(event: OrderPlaced) -> str:
        if event.customer == "bob":
            raise LookupError("who is bob?")
        return event.customer

    class Spend(Projection, **options(rebuilds, table="spend", key="customer")):
        """By customers that are known."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key=named)
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1
            self.cents += event.cents

    found = await preview(rebuilds, Spend, reveal=True)
    assert found.failed == 3
    assert "who is bob?" in found.failures[0].text


async def test_heads_that_new_code_would_mend_are_told_from_those_it_would_not(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.update({"first", "second", "third"})
    await harness.migrate(s.Orders)
    for n, text in enumerate(("first", "second", "third")):
        await harness.publish(OrderPlaced("ann", 10), f"o{n}", 1)
        await harness.publish(OrderNoted(text), f"o{n}", 2)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 6)

    def mended(text: str) -> str:
        if text == "second":
            raise ValueError("still cannot digest it")
        return text

    found = await preview(rebuilds, release(rebuilds, mended), reveal=True)

    assert (found.failed_heads, found.mended, found.failed, found.differ) == (3, 1, 0, 0)
    assert [(one.aggregate, one.version, one.mended, one.now) for one in found.heads] == [
        ("order/o0", 2, True, None),
        ("order/o1", 2, False, "ValueError: still cannot digest it"),
        ("order/o2", 2, None, "the stream no longer holds it"),
    ]
    assert found.heads[0].error == "ValueError: cannot digest first"
    for head in (await preview(rebuilds, release(rebuilds, mended))).heads:
        assert "digest" not in f"{head.error} {head.now}"


async def test_columns_that_are_new_gone_or_retyped_are_named_and_the_rest_compared(
    rebuilds: RebuildHarness,
) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)

    class Orders(Projection, **options(rebuilds)):
        """Without a history, with a customer, and money of another type."""

        order_id: str
        status: str = "new"
        cents: str = ""
        customer: str = ""

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.status, self.customer = "placed", event.customer

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Receipt:
            self.status = "settled"
            return Receipt(order_id=self.order_id)

    found = await preview(rebuilds, Orders, reveal=True)

    assert found.columns is not None
    columns = found.columns
    assert (columns.new, columns.gone, columns.retyped, columns.other_key) == (
        *(["customer"], ["history"], ["cents"]),
        False,
    )
    assert (found.differ, found.by_column) == (6, {"status": 6})
    assert (found.changes[0].live, found.changes[0].new) == ({"status": "paid"}, {"status": "settled"})


async def test_rows_that_would_come_and_go_are_told_where_rows_are_shared(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)

    class Spend(Projection, **options(rebuilds, table="spend", key="customer")):
        """Customers by another name."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key=lambda event: "anna" if event.customer == "ann" else event.customer)
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1
            self.cents += event.cents

    found = await preview(rebuilds, Spend)
    assert (found.rows, found.differ, found.only_live, found.only_new) == (3, 2, 1, 1)
    assert sorted((one.key, one.side) for one in found.changes) == [("ann", "live"), ("anna", "new")]
    assert (await preview(rebuilds, Spend, aggregate="order/o0")).rows == 1


@pytest.mark.parametrize("a_row", [0, 500], ids=["by subject", "in one pass"])
async def test_rows_with_keys_of_several_columns_are_compared_one_by_one(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, a_row: int
) -> None:
    monkeypatch.setattr(previewing, "A_ROW", a_row)
    harness = rebuilds.harness
    lines = keyed(harness.stream).Lines
    await harness.migrate(lines)
    for order in ("o1", "o2", "o3"):
        for line in (1, 2):
            await harness.publish(LineAdded(line, f"{order}-{line}", 2), order, line)
    await harness.settle(lines)

    class Lines(Projection, **options(rebuilds, table="lines", key=("order_id", "line_no"))):
        """Counts other than before, and fails on one line."""

        order_id: str
        line_no: int
        sku: str = ""
        pieces: int = 0

        @on(LineAdded)
        def added(self, event: LineAdded) -> None:
            if event.sku == "o2-1":
                raise ValueError("no such line")
            self.sku, self.pieces = event.sku, event.pieces + (event.sku == "o3-2")

    found = await preview(rebuilds, Lines)
    assert (found.rows, found.differ, found.by_column) == (4, 1, {"pieces": 1})
    assert [one.key for one in found.changes] == ['["o3",2]']
    assert (found.failed, found.unfinished) == (1, 2), "the line behind the one that fails is not reached"
    one = await preview(rebuilds, Lines, aggregate="order/o3")
    assert (one.rows, one.differ) == (2, 1)


async def test_it_is_said_when_live_rows_are_by_older_code_and_when_history_is_lost(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    second = release(rebuilds, lambda text: f"({text})")
    await harness.settle(second)
    third = release(rebuilds, lambda text: f"[{text}]")

    found = await preview(rebuilds, third)
    assert (found.runs, found.older_rows, found.differ) == (False, True, 6)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 2)
    found = await preview(rebuilds, third)
    assert (found.differ, found.undecidable) == (5, 1)
    assert [(one.key, one.lost) for one in found.undecidable_rows] == [("o0", "order/o0 v2")]


async def test_a_view_that_is_not_there_yet_and_one_without_own_rows_are_told_apart(
    rebuilds: RebuildHarness,
) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)

    class Carriers(Projection, **options(rebuilds, table="carriers", key="order_id")):
        """Nobody has run it."""

        order_id: str
        carrier: str = ""

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.carrier = "any"

        @on(OrderShipped)
        def shipped(self, event: OrderShipped) -> None:
            self.carrier = event.carrier

    found = await preview(rebuilds, Carriers)
    assert found.check is not None
    (made,) = found.check.consumers
    assert made.fold is not None
    assert (made.fold.rows, made.fold.events, found.differs) == (6, 6, False)
    assert "no rows that are folded one by one" in str((await preview(rebuilds, s.Journal)).left_out)

    class Renamed(OrderRow, formerly=("Orders",), **options(rebuilds)):
        """The same under another name."""

    assert "it is called 'Orders' in the database" in str((await preview(rebuilds, Renamed)).left_out)


async def test_it_is_exact_while_live_goes_on(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    changed = release(rebuilds, lambda text: text.upper() if text == "note 3" else text)
    async with harness.running(s.Orders, s.Spend, processes=2):
        for version in range(4, 9):
            for n in range(6):
                await harness.publish(OrderNoted("X"), f"o{n}", version)
                await harness.publish(OrderPlaced("ann", 1), f"n{version}-{n}", 1)
            found = await preview(rebuilds, changed)
            assert (found.differ, [one.key for one in found.changes], found.failed) == (1, ["o3"], 0)
            assert (await preview(rebuilds, s.Spend)).differ == 0


APP = """
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderRow, shop
from projectionist.projections import on
from projectionist.runner import App

made = shop(Stream({name!r}))


class Orders(OrderRow, stream={name!r}, subjects={subjects!r}, table="orders", key="order_id", effects="beginning"):
    @on(OrderNoted)
    def noted(self, event: OrderNoted) -> None:
        self.status = event.text


app = App(projections=[Orders, made.Spend, made.Journal])
"""


async def kept(harness: ConsumerHarness) -> Writes:
    """What was written, but for the operation that says of a preview that it is at work."""
    return [one for one in await writes(harness) if one[0] != "projectionist.operations"]


async def test_the_command_masks_values_writes_nothing_and_steers_no_terminal(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await some(rebuilds, s, 2)
    await harness.migrate(s.Journal)
    await harness.publish(OrderPlaced("ann", 10), "o9", 1)
    await harness.publish(OrderNoted("\x1b]0;secret\x07\x1b[2J"), "o9", 2)
    await harness.publish(OrderNoted("bad"), "o9", 3)
    await harness.settle(s.Orders, s.Spend)
    text = APP.format(name=harness.stream.name, subjects=harness.stream.subject("order", "{aggregate}"))
    (tmp_path / "next_release.py").write_text(text)
    env = {
        "PROJECTIONIST_POSTGRES__URL": harness.database,
        "PROJECTIONIST_NATS__URL": harness.servers.nats_url,
    }

    async def call(*words: str) -> tuple[int, str, str]:
        ended = await run_projectionist("preview", "next_release:app", *words, cwd=tmp_path, **env)
        return ended.code, ended.out, ended.err

    before = await kept(harness)
    code, out, err = await call()
    assert code == 3, err
    assert "Orders: 3 rows of generation 1 compared, 3 would differ; 8 events folded" in out
    assert "by column: history in 3, status in 1" in out
    assert "1 of 1 events that failed live were tried: 1 would go through" in out
    assert "Journal: it has no rows that are folded one by one" in out
    assert "secret" not in out
    code, out, _ = await call("Spend", "--json")
    (spend,) = json.loads(out)["previews"]
    assert (code, spend["rows"], spend["differ"]) == (0, 2, 0)
    assert await kept(harness) == before

    assert (await call("--reveal"))[0] == 2
    code, _, err = await call("Orders", "--aggregate", "o9")
    assert (code, "does not say its type" in err) == (1, True)
    code, out, _ = await call("Orders", "--aggregate", "order/o9", "--reveal", "--reason", "ticket 7")
    assert (code, "secret" in out) == (3, True)
    assert {one for one in out if not one.isprintable()} <= {"\n", "\t"}
    assert await inspection.rows(harness, "audit", "object", "reason", action="reveal") == [
        ("Orders: preview", "ticket 7")
    ]
