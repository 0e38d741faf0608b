"""`events check` reads all of a stream as consumers would, and names each thing that they would fail on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop

from projectionist.core import testpoints
from projectionist.projections import Event, Projection, definition, on, upcast
from projectionist.runner.history.progress import Logged
from projectionist.runner.preview import check_fold, event_check
from projectionist.runner.preview.check_result import ConsumerCheck, StreamCheck, TroubleKind, TypeCheck
from projectionist.runner.preview.event_check import check_events

pytestmark = pytest.mark.asyncio

STEERS = "\x1b]0;title\x07\x1b[2J"


class Moved(Event, type="stock.moved", schema=3):
    """An event whose body has changed twice."""

    sku: str
    amount: int


@upcast("stock.moved", schema=2)
def with_amount(body: dict[str, Any]) -> dict[str, Any]:
    """The second step; the first was never written."""
    return {**body, "amount": 1}


def stock(harness: ConsumerHarness) -> type:
    """A read model by sku, which refuses some of them."""

    def uncursed(event: Moved) -> str:
        if event.sku == "cursed":
            raise LookupError("no such sku")
        return event.sku

    class Stock(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        table="stock",
        key="sku",
    ):
        """One row a sku."""

        sku: str
        amount: int = 0

        @on(Moved, key=uncursed)
        def moved(self, event: Moved) -> None:
            self.amount += event.amount

    return Stock


async def check(harness: ConsumerHarness, *consumers: type, **options: Any) -> StreamCheck:
    given = [definition(one) for one in consumers]
    return await check_events(harness.nats, given, harness.settings, Logged("check"), **options)


def of_type(one: ConsumerCheck, name: str, schema: int = 1) -> TypeCheck:
    return next(each for each in one.types if (each.type, each.schema) == (name, schema))


async def test_each_planted_defect_of_a_mixed_stream_is_found_by_type_and_schema(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    orders, by_sku = shop(harness.stream).Orders, stock(harness)
    head = {"ce-type": "stock.moved", "ce-source": "shop", "ce-aggregatetype": "order"}

    async def moved(body: bytes, aggregate: str, schema: int) -> int:
        names = {"ce-id": aggregate, "ce-aggregateid": aggregate, "ce-aggregateversion": "1"}
        return await harness.publish_raw(body, head | names | {"ce-schemaversion": str(schema)}, aggregate)

    await harness.publish(OrderPlaced("ann", 5), "o1", 1)
    await harness.publish(OrderShipped(), "o1", 2)
    await harness.publish_raw(b"{}", {"ce-id": "x"}, "o2")
    await harness.publish_raw(b"{}", {"ce-id": "y"}, "o3")
    bad = await harness.publish_raw(
        b'{"customer": 7}',
        head
        | {"ce-type": "order.placed", "ce-id": "bad", "ce-aggregateid": "o4", "ce-aggregateversion": "1"},
        "o4",
    )
    await moved(b'{"sku": "a", "amount": 2}', "s1", 3)
    await moved(b'{"sku": "a"}', "s2", 2)
    lost = await moved(b"{}", "s3", 1)
    newer = await moved(b"{}", "s4", 4)
    cursed = await moved(b'{"sku": "cursed", "amount": 2}', "s5", 3)

    found = await check(harness, orders, by_sku)
    of_orders, of_stock = found.consumers

    assert (found.messages, found.troubled) == (10, True)
    assert [
        (one.text.partition(":")[0], one.count, one.first.seq) for one in of_orders.unreadable.listed
    ] == [("type", 2, 3)]
    (wrong,) = of_type(of_orders, "order.placed").troubles.listed
    assert (wrong.kind, wrong.count, wrong.first.seq) == (TroubleKind.BODY, 1, bad)
    assert of_type(of_orders, "order.placed").event == "tests.support.shop.OrderPlaced"
    assert of_type(of_orders, "stock.moved", 3).event is None
    upcasted = of_type(of_stock, "stock.moved", 2)
    assert (upcasted.upcasters, upcasted.lacks, upcasted.troubles.count) == (
        [f"{__name__}.with_amount"],
        None,
        0,
    )
    assert of_type(of_stock, "stock.moved", 1).lacks == "there is no step from schema 1 to 2"
    assert of_type(of_stock, "stock.moved", 4).lacks == "this code knows schema 3"
    for schema, seq in ((1, lost), (4, newer)):
        (wrong,) = of_type(of_stock, "stock.moved", schema).troubles.listed
        assert (wrong.kind, wrong.first.seq) == (TroubleKind.BODY, seq)
    (wrong,) = of_type(of_stock, "stock.moved", 3).troubles.listed
    assert (wrong.kind, wrong.first.seq) == (TroubleKind.KEY, cursed)
    assert "key= raised LookupError" in wrong.text
    assert [(one.type, one.messages, one.first.seq) for one in found.unhandled] == [("order.shipped", 1, 2)]
    assert of_orders.fold is None


async def test_ids_of_two_types_of_aggregates_as_keys_are_bad_keys(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.publish(OrderPlaced("ann", 5), "o1", 1)
    await harness.publish(OrderPlaced("ann", 5), "o1", 1, kind="cart", place="order")

    (found,) = (await check(harness, s.Orders)).consumers

    (wrong,) = of_type(found, "order.placed").troubles.listed
    assert (wrong.kind, wrong.first.aggregate) == (TroubleKind.KEY, "cart/o1")


async def test_handlers_that_fail_are_found_with_fold_and_stop_their_aggregate_alone(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    for order in ("o1", "o2", "o3"):
        await harness.publish(OrderPlaced("ann", 5), order, 1)
    await harness.publish(OrderPaid(), "o2", 3)
    await harness.publish(OrderPaid(), "o1", 2)
    await harness.publish(OrderPaid(), "o1", 2)
    bad = await harness.publish(OrderNoted("bad"), "o1", 3)
    await harness.publish(OrderNoted("behind it"), "o1", 4)
    await harness.publish(OrderShipped(), "o3", 2)
    await harness.publish(OrderNoted("after one that nobody handles"), "o3", 3)

    for at_once in (1_000, 2):
        monkeypatch.setattr(check_fold, "ROWS_AT_ONCE", at_once)
        found = await check(harness, s.Orders, s.Spend, s.Mailer, s.Journal, fold=True)
        orders, spend, mailer, journal = found.consumers
        (wrong,) = of_type(orders, "order.noted").troubles.listed
        assert (wrong.kind, wrong.text, wrong.count, wrong.first.seq) == (
            TroubleKind.HANDLER,
            "ValueError: cannot digest bad",
            1,
            bad,
        )
        assert orders.fold is not None
        assert (orders.fold.events, orders.fold.rows, orders.fold.blocked) == (5, 3, 1)
        assert (orders.fold.held_aggregates, orders.fold.intents) == (1, {"Receipt": 1})
        assert spend.fold is not None
        assert (spend.fold.events, spend.fold.rows, spend.troubled) == (3, 1, 0)
        assert mailer.fold is not None
        assert (mailer.fold.rows, mailer.fold.intents, mailer.troubled) == (0, {"Receipt": 1}, 1)
        assert (journal.fold, journal.not_folded) == (None, event_check.SQL_OF_ITS_OWN)


async def test_hostile_bodies_and_handlers_are_trouble_and_end_nothing(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    head = {
        "ce-type": "order.noted",
        "ce-source": "shop",
        "ce-aggregatetype": "order",
        "ce-aggregateversion": "1",
    }

    class Orders(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
    ):
        """Ends the process, if it may."""

        order_id: str

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            raise SystemExit(event.text)

    for n, body in enumerate(
        (b"[" * 100_000, b'{"text": "' + b"x" * 600_000 + b'"}', b"\xff\x00", b'{"text": "\xed"}')
    ):
        await harness.publish_raw(body, head | {"ce-id": f"h{n}", "ce-aggregateid": f"h{n}"}, f"h{n}")
    await harness.publish(OrderNoted("bye"), "o1", 1)
    policy = msgspec.structs.replace(harness.settings.consumer_defaults, max_event_bytes=500_000)
    harness.settings = msgspec.structs.replace(harness.settings, consumer_defaults=policy)

    found = await check(harness, Orders, s.Spend, fold=True)

    orders, spend = found.consumers
    troubles = of_type(orders, "order.noted").troubles
    assert (troubles.count, found.messages) == (5, 5)
    assert [one.text for one in troubles.listed if one.kind is TroubleKind.HANDLER] == ["SystemExit: bye"]
    assert all(len(one.text) < 500 for one in troubles.listed)
    (unseen,) = of_type(spend, "order.noted").troubles.listed
    assert "max_event_bytes" in unseen.text, "of a type that nobody handles too: it may have to be parked"


async def test_a_stream_of_any_number_of_types_and_errors_takes_bounded_memory(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    monkeypatch.setattr(event_check, "MOST_TYPES", 3)
    monkeypatch.setattr("projectionist.runner.preview.check_result.MOST_TROUBLES", 2)
    for n in range(6):
        await harness.publish(OrderPlaced("ann", 5), f"o{n}", 1, headers={"ce-type": f"t{n}"})
    for n in range(4):
        await harness.publish(OrderPlaced("ann", 5), f"o{n}", 2, headers={"ce-schemaversion": str(n + 2)})

    (found,) = (await check(harness, s.Orders)).consumers

    assert [(one.type, one.messages) for one in found.types] == [("t0", 1), ("t1", 1), ("t2", 1), ("*", 7)]
    assert (len(found.types[3].troubles.listed), found.types[3].troubles.more) == (2, 2)
    assert found.troubled == 4


def resident_kb() -> int:
    """How much memory this process has."""
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())]))


async def test_a_hundred_thousand_messages_take_memory_for_aggregates_alone(rebuilds: RebuildHarness) -> None:
    harness, many = rebuilds.harness, 100_000
    s = shop(harness.stream)
    for start in range(0, many, 20_000):
        numbers = range(start, start + 20_000)
        await harness.publish_all(
            [(OrderPlaced("ann", 1), f"o{n % 10}", n // 10 + 1, f"e{n}") for n in numbers]
        )
    sizes: list[int] = []
    stop = testpoints.listen(lambda name: sizes.append(resident_kb()) if name == "events.checked" else None)
    try:
        found = await check(harness, s.Spend, fold=True)
    finally:
        stop()
    (spend,) = found.consumers
    assert spend.fold is not None
    assert (found.messages, spend.fold.events, spend.fold.rows, found.troubled) == (many, many, 1, False)
    assert len(sizes) > 10
    assert max(sizes) - sizes[0] < 40_000, "kept whole they take 160 MB"


async def test_payloads_are_masked_unless_revealed_for_a_reason_and_steer_no_terminal(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    env = shop_app(tmp_path, harness)
    await harness.publish(OrderPlaced("ann", 5), "o1", 1)
    data = msgspec.json.encode({"customer": STEERS, "cents": "secret"})
    await harness.publish_raw(
        data,
        {
            "ce-id": "bad",
            "ce-type": "order.placed",
            "ce-source": "shop",
            "ce-aggregatetype": "order",
            "ce-aggregateid": "o2",
            "ce-aggregateversion": "1",
        },
        "o2",
    )
    await harness.publish_raw(b"\xff\x1b[2J", {"ce-id": "\x1b[2J"}, "o3")

    async def call(*words: str) -> tuple[int, str, str]:
        ended = await run_projectionist("events", "check", "orders:app", *words, cwd=tmp_path, **env)
        return ended.code, ended.out, ended.err

    code, out, _ = await call()
    assert code == 3
    assert "order.placed schema 1: 2, read as tests.support.shop.OrderPlaced" in out
    assert "body: 1 x EventError" in out
    assert "secret" not in out
    code, out, err = await call("--reveal")
    assert (code, "needs a reason" in err) == (2, True)
    code, out, err = await call("--reveal", "--reason", "ticket 7")
    assert (code, "'Orders' is not in the database" in err) == (1, True)
    await harness.migrate(s.Orders, s.Spend)
    code, out, _ = await call("--reveal", "--reason", "ticket 7")
    assert code == 3
    assert "secret" in out
    assert {one for one in out if not one.isprintable()} <= {"\n", "\t"}
    code, out, _ = await call("--reveal", "--reason", "ticket 7", "--json", "--consumer", "Spend")
    (spend,) = json.loads(out)["checked"][0]["consumers"]
    assert "secret" in spend["types"][0]["troubles"]["listed"][0]["first"]["payload"]
    recorded = await harness.fetch("select who <> '', object, reason from {s}.audit where action = 'reveal'")
    assert recorded == [
        (True, "Orders: events check", "ticket 7"),
        (True, "Spend: events check", "ticket 7"),
        (True, "Spend: events check", "ticket 7"),
    ]


async def test_it_needs_no_database_and_begins_where_it_is_told(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli = Cli(live, tmp_path)
    shop_app(tmp_path, live)
    (tmp_path / "projectionist.toml").write_text(f'[nats]\nurl = ["{live.servers.nats_url}"]\n')
    await live.publish(OrderNoted("a"), "o1", 1, headers={"ce-schemaversion": "9"})
    await live.publish(OrderPlaced("ann", 5), "o2", 1)

    ended = await cli.run("events", "check", "orders:app", "--json")
    assert (ended.code, json.loads(ended.out)["checked"][0]["messages"]) == (3, 2), ended.err
    ended = await cli.run("events", "check", "orders:app", "--from", "2", "--stream", live.stream.name)
    assert (ended.code, ended.out.splitlines()[0]) == (0, f"{live.stream.name} 2..2: 1 messages")
    assert "--fold begins with the first event" in await cli.refused(
        "events", "check", "orders:app", "--from", "2", "--fold"
    )
    assert "none of these consumers reads" in await cli.refused(
        "events", "check", "orders:app", "--stream", "X"
    )
