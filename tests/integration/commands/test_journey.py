"""`projectionist journey`: everything on record about an event, and what is no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.keyed_lines import LineAdded, keyed
from tests.support.retention import age, purge, sent
from tests.support.several_rows import Cancelled, Closed, Placed, StockMoved, several
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, KEYED_APP, SEVERAL_APP, environment

from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "ticket 7")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def journey(cli: Cli, *words: str) -> dict[str, Any]:
    """The one event's journey."""
    [one] = (await cli.seen("journey", *words))["events"]
    assert isinstance(one, dict)
    return one


def passages(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each consumer made of it."""
    return {each["consumer"]: each for each in one["consumers"]}


async def test_an_applied_event_is_told_from_its_arrival_to_its_intent(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend, s.Mailer)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    envelope = {
        "ce-correlationid": "c-4",
        "ce-causationid": "e1",
        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    }
    seq = await live.publish(OrderPaid(5), "o1", 2, id="paid", headers=envelope)
    await live.publish(OrderPaid(5), "o1", 2, id="paid", headers=envelope)
    await live.settle(s.Orders, s.Spend, s.Mailer)

    one = await journey(cli, "paid")
    assert (one["source"], one["type"], one["aggregate"], one["version"]) == (
        "shop",
        "order.paid",
        "order/o1",
        2,
    )
    assert (one["correlation"], one["causation"], one["trace"]) == ("c-4", "e1", TRACE)
    found = passages(one)
    assert sorted(found) == ["Mailer", "Orders", "Spend"]
    orders = found["Orders"]
    assert (orders["state"], orders["seq"], orders["rows"]) == ("applied", seq, ["public.orders o1"])
    assert orders["stream"] == live.stream.name
    assert orders["received"] <= orders["processed"]
    assert orders["pid"] is not None
    assert [(b["kind"], b["seq"]) for b in orders["beside"]] == [("duplicate", seq + 1)]
    [intent] = orders["intents"]
    assert (intent["slot"], intent["provider"], intent["state"]) == ("Receipt", "email", "ready")
    assert found["Spend"]["state"] == "ignored"
    assert found["Spend"]["rows"] == []
    assert len(found["Mailer"]["intents"]) == 1

    assert (await cli.seen("journey", "--intent", intent["key"]))["events"][0]["id"] == "paid"
    text = await cli.done("journey", "paid")
    for told in (
        "order.paid paid of shop: order/o1 version 2",
        TRACE,
        "duplicate",
        "Receipt to email: ready",
    ):
        assert told in text


async def test_what_waits_says_for_whom_and_what_was_done_about_it(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    s.trouble.poison.add("bad")
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2, id="bad")
    await live.publish(OrderPaid(5), "o1", 3, id="behind")
    await live.settle(s.Orders)

    parked = passages(await journey(cli, "bad"))["Orders"]["parked"]
    assert (parked["waits"], parked["attempts"], "error" in parked) == (True, 1, False)
    assert "waits      for a person or new code: ValueError [" in await cli.done("journey", "bad")
    told = await cli.done("journey", "bad", "--reveal", *WHY)
    assert "waits      for a person or new code: ValueError: cannot digest bad" in told
    acts = (await cli.seen("audit", "--action", "reveal"))["acts"]
    assert [act["object"] for act in acts] == ["Orders: shop/bad"]

    await cli.done("parked", "skip", "bad", *WHY)
    await live.settle(s.Orders)
    skipped = await journey(cli, "bad")
    [passage] = skipped["consumers"]
    assert (passage["state"], passage["parked"]) == ("skipped", None)
    assert [(b["kind"], b["what"], b["who"], b["why"]) for b in passage["beside"]] == [
        ("decision", "skip", "ann", "ticket 7")
    ]
    assert [(act["action"], act["who"]) for act in skipped["acts"]] == [("reveal", "ann"), ("skip", "ann")]
    behind = passages(await journey(cli, "behind"))["Orders"]
    assert (behind["state"], behind["verdict"]) == ("applied", "blocked")
    assert "after it was parked" in await cli.done("journey", "behind")


async def test_what_stood_in_quarantine_is_part_of_the_journey(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("ann", 5), "o1", None, id="bad")
    await live.settle(s.Orders)
    [passage] = (await journey(cli, "bad"))["consumers"]
    assert passage["state"] == "quarantined"

    await cli.done("quarantine", "edit", str(seq), "--header", "ce-aggregateversion=1", *WHY)
    async with live.running(s.Orders):
        await inspection.reaches(1, inspection.count_quarantined, live, state="released")
    edited = await journey(cli, "bad")
    [passage] = edited["consumers"]
    assert passage["state"] == "applied"
    assert {(b["kind"], b["what"]) for b in passage["beside"]} == {
        ("quarantine", "released: version"),
        ("decision", "edit"),
    }
    assert [act["action"] for act in edited["acts"]] == ["edit"]


async def test_an_aggregate_is_told_with_its_newest_events_and_what_is_no_longer_there(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    for version in range(2, 6):
        await live.publish(OrderNoted(str(version)), "o1", version, id=f"n{version}")
    await live.publish(OrderNoted("8"), "o1", 8, id="n8")
    async with live.running(s.Orders):
        await inspection.reaches("lost", inspection.value, live, "positions", "finding")
    [one] = (await cli.seen("journey", "--aggregate", "order/o1", "--limit", "2"))["consumers"]
    assert (one["consumer"], one["version"], one["head"], one["parked"], one["removed"]) == (
        *("Orders", 5, "waiting", 1, 0),
    )
    assert [event["id"] for event in one["events"]] == ["n5", "n8"]

    live.tampered = True  # as retention would
    await live.value("delete from {s}.inbox where version in (1, 2) and state = 'applied' returning 1")
    [one] = (await cli.seen("journey", "--aggregate", "order/o1", "--consumer", "Orders"))["consumers"]
    assert one["removed"] == 2
    text = await cli.done("journey", "--aggregate", "order/o1")
    assert "2 of its versions are no longer in the inbox: retention has removed them" in text
    unseen = await cli.refused("journey", "--aggregate", "order/none")
    assert "no consumer has seen aggregate 'order/none'. It is written" in unseen
    assert "`projectionist journey --aggregate order/o1` shows" in await cli.refused("journey", "order/o1")


async def test_what_retention_has_removed_is_said_where_anything_is_left(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2, id="paid")
    await live.publish(OrderPaid(5), "o1", 2, id="paid")
    await live.settle(s.Orders)
    live.tampered = True
    await live.value("delete from {s}.inbox where id = 'paid' returning 1")

    [passage] = (await journey(cli, "paid"))["consumers"]
    assert (passage["state"], len(passage["intents"]), len(passage["beside"])) == ("", 1, 1)
    assert "retention has removed it" in passage["note"]
    assert "no consumer knows event 'nothing'" in await cli.refused("journey", "nothing")
    assert "no intent has the key 'nothing'" in await cli.refused("journey", "--intent", "nothing")
    assert "journey takes one thing" in await cli.refused("journey")


async def test_what_retention_has_moved_to_the_archive_is_told_from_there(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2, id="paid")
    await live.settle(s.Orders)
    await sent(live)
    before = await journey(cli, "paid")
    await age(live, 400)
    await purge(live, s.Orders, archive="table")
    assert await inspection.count(live, "inbox", id="paid") == 0
    assert await inspection.count_intents(live) == 0

    one = await journey(cli, "paid")
    [passage], [known] = one["consumers"], before["consumers"]
    assert passage["archived"]
    assert (one["aggregate"], one["version"]) == ("order/o1", 2)
    for name in ("state", "seq", "rows", "batch"):
        assert passage[name] == known[name]
    [intent] = passage["intents"]
    assert (intent["slot"], intent["state"]) == ("Receipt", "sent")
    assert (await cli.seen("journey", "--intent", intent["key"]))["events"] == [one]
    assert "retention has moved it from the inbox to the archive" in await cli.done("journey", "paid")
    [orders] = (await cli.seen("journey", "--aggregate", "order/o1"))["consumers"]
    assert [(event["version"], event["archived"]) for event in orders["events"]] == [(1, True), (2, True)]


async def test_what_retention_has_moved_to_files_is_told_from_there(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, folder = shop(live.stream), tmp_path / "archive"
    own = Cli(live, tmp_path, more=f'[retention]\narchive = "files"\narchive_folder = "{folder}"\n')
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2, id="paid")
    await live.settle(s.Orders, s.Spend)
    await sent(live)
    before = await journey(own, "paid")
    await age(live, 400)
    await purge(live, s.Orders, s.Spend, archive="files", archive_folder=str(folder))
    assert await inspection.count_inbox(live) == 0

    one = await journey(own, "paid")
    found, known = passages(one), passages(before)
    assert sorted(found) == sorted(known)
    for consumer, passage in found.items():
        assert passage["archived"]
        for name in ("state", "seq", "rows", "batch"):
            assert passage[name] == known[consumer][name]
    [intent] = found["Orders"]["intents"]
    assert (intent["slot"], intent["state"]) == ("Receipt", "sent")
    assert passages((await own.seen("journey", "--intent", intent["key"]))["events"][0]) == found

    [orders, _] = (await own.seen("journey", "--aggregate", "order/o1"))["consumers"]
    assert [(event["version"], event["archived"]) for event in orders["events"]] == [(1, True), (2, True)]
    assert "2 of those below come from the archive" in await own.done("journey", "--aggregate", "order/o1")

    moved = tmp_path / "moved"
    folder.rename(moved)
    refused = await own.refused("journey", "paid")
    assert "no consumer knows event 'paid'" in refused
    assert f"{folder} is no folder here" in refused
    assert f"{folder} is no folder here" in await own.refused("journey", "--intent", intent["key"])
    assert passages((await own.seen("journey", "paid", "--archive", str(moved)))["events"][0]) == found
    assert "--archive: nowhere is no folder" in await own.refused("journey", "paid", "--archive", "nowhere")
    for path in moved.glob("intents/*"):
        path.write_bytes(b'{"id": "paid"}\n')
    ended = await own.run("journey", "paid", "--archive", str(moved))
    assert (ended.code, "Receipt" in ended.out) == (0, False)
    assert "1 lines are not what retention writes" in ended.err


async def test_a_row_that_aggregates_share_is_named_where_its_event_can_be_read(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, cli = shop(live.stream), Cli(live, tmp_path, **environment(live))
    await live.migrate(s.Orders, s.Spend, s.Journal)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="placed")
    await live.publish(OrderNoted("hm"), "o1", 2, id="noted")
    await live.settle(s.Orders, s.Spend, s.Journal)

    found = passages(await journey(cli, "placed"))
    assert (found["Orders"]["rows"], found["Orders"]["row_note"]) == (["public.orders o1"], "")
    assert found["Spend"]["rows"] == ["public.spend"]
    assert "name the app with --app" in found["Spend"]["row_note"]
    named = passages(await journey(cli, "placed", "--app", APP))
    assert {name: (one["rows"], one["row_note"]) for name, one in named.items() if one["rows"]} == {
        "Orders": (["public.orders o1"], ""),
        "Spend": (["public.spend ann"], ""),
    }
    assert "  rows       public.spend ann\n" in await cli.done("journey", "placed", "--app", APP)
    journal = passages(await journey(cli, "noted", "--app", APP))["Journal"]
    assert journal["rows"]
    assert "which rows is on no record" in journal["row_note"]

    live.tampered = True
    await live.nats.jetstream().purge_stream(live.stream.name)
    text = await cli.done("journey", "placed", "--app", APP)
    assert "rows       public.spend (which row is in the event, and the stream no longer holds it)" in text
    assert "there is no module nowhere" in await cli.refused("journey", "placed", "--app", "nowhere:app")
    lost = Cli(live, tmp_path, **environment(live, app="nowhere:app"))
    ended = await lost.run("journey", "placed")
    assert (ended.code, "nowhere:app cannot be loaded" in ended.err) == (0, True)


async def test_a_row_with_a_key_of_several_columns_is_named_as_far_as_it_is_known(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, cli = keyed(live.stream), Cli(live, tmp_path, **environment(live))
    await live.migrate(s.Lines, s.Stock)
    await live.publish(LineAdded(2, "a"), "o-1", 1, id="added")
    await live.settle(s.Lines, s.Stock)

    found = passages(await journey(cli, "added"))
    assert (found["Lines"]["rows"], found["Stock"]["rows"]) == (['public.lines ["o-1", …]'], ["public.stock"])
    named = passages(await journey(cli, "added", "--app", KEYED_APP))
    assert {name: one["rows"] for name, one in named.items()} == {
        "Lines": ['public.lines ["o-1",2]'],
        "Stock": ['public.stock ["main","a"]'],
    }


async def test_a_condition_that_did_not_hold_is_told_of_its_event(live: ConsumerHarness, cli: Cli) -> None:
    class Large(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="large",
        key="order_id",
    ):
        order_id: str
        cents: int = 0

        @on(OrderPlaced, when=lambda row, event: event.cents > 100)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = event.cents

    await live.migrate(Large)
    for name, cents, seen in (("o1", 5, True), ("o2", 500, False)):
        await live.publish(OrderPlaced("ann", cents), name, 1, id=name)
        await live.settle(Large)
        [passage] = (await journey(cli, name))["consumers"]
        assert (passage["state"], passage["idle"], passage["rows"] == []) == ("applied", seen, seen)
    assert "the condition (when=) of its handler did not hold" in await cli.done("journey", "o1")
    assert await inspection.count_outcomes(live, "condition_false") == 1
    assert await inspection.value(live, "counters", "type", outcome="condition_false") == "order.placed"


async def test_the_events_of_a_flow_are_found_where_correlation_is_indexed(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    flow = {"ce-correlationid": "c-4"}
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a", headers=flow)
    await live.publish(OrderPlaced("bob", 5), "o2", 1, id="b")
    await live.publish(OrderPaid(5), "o1", 2, id="c", headers=flow | {"ce-causationid": "a"})
    await live.settle(s.Orders, s.Spend)

    off = Cli(live, tmp_path)
    assert "correlation ids are not indexed. Set correlation_index" in await off.refused(
        "journey", "--correlation", "c-4"
    )
    on = Cli(live, tmp_path, PROJECTIONIST_POSTGRES__CORRELATION_INDEX="true")
    assert (await on.run("migrate", "--check")).code == 3
    assert "create index concurrently inbox_correlation" in await on.done("migrate", "--plan")
    await on.done("migrate")
    assert (await on.run("migrate", "--check")).code == 0
    events = (await on.seen("journey", "--correlation", "c-4"))["events"]
    assert [
        (e["id"], e["causation"], {p["consumer"]: p["state"] for p in e["consumers"]}) for e in events
    ] == [
        ("a", None, {"Orders": "applied", "Spend": "applied"}),
        ("c", "a", {"Orders": "applied", "Spend": "ignored"}),
    ]
    [intent] = [one for event in events for passage in event["consumers"] for one in passage["intents"]]
    assert (intent["slot"], intent["provider"], intent["state"]) == ("Receipt", "email", "ready")
    text = await on.done("journey", "--correlation", "c-4")
    assert "Receipt to email: ready" in text
    assert (await on.seen("journey", "--correlation", "c-4", "--limit", "1"))["more"]
    assert (
        "these are 1 of 2 that there are: --limit"
        in (await on.run("journey", "--correlation", "c-4", "--limit", "1")).err
    )
    assert (await on.seen("journey", "--correlation", "nothing"))["events"] == []
    plan = await live.fetch("explain select 1 from {s}.inbox where correlation = 'c-4'")
    assert plan
    assert "drop index" in await off.done("migrate")
    assert (await off.run("migrate", "--check")).code == 0


async def test_the_events_of_a_trace_are_found_where_traces_are_indexed(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    came = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a", headers=came)
    await live.publish(OrderPlaced("bob", 5), "o2", 1, id="b")
    await live.settle(s.Orders)

    off = Cli(live, tmp_path)
    assert "trace ids are not indexed. Set trace_index" in await off.refused("journey", "--trace", TRACE)
    on = Cli(live, tmp_path, PROJECTIONIST_POSTGRES__TRACE_INDEX="true")
    assert "create index concurrently inbox_trace" in await on.done("migrate", "--plan")
    await on.done("migrate")
    assert [one["id"] for one in (await on.seen("journey", "--trace", TRACE.upper()))["events"]] == ["a"]
    assert "drop index" in await off.done("migrate")


async def test_an_intent_that_a_producer_has_added_leads_back_to_it(live: ConsumerHarness, cli: Cli) -> None:
    await live.value(
        "insert into {s}.intents (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash)"
        " values ('k-1', 0, 'till', 'sale-9', 'Receipt', 'Receipt', 'email', 'email', 'pass', '{}', '') returning 1"
    )
    [one] = (await cli.seen("journey", "--intent", "k-1"))["events"]
    [passage] = one["consumers"]
    assert (one["id"], passage["consumer"], len(passage["intents"])) == ("sale-9", "a producer", 1)
    assert "not by a handler" in passage["note"]
    assert "a producer: has asked for it (added" in await cli.done("journey", "--intent", "k-1")
    live.tampered = True  # no consumer has applied what it is of


async def test_the_rows_of_an_event_are_named_by_their_keys_or_by_what_they_are_below(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, cli = several(live.stream), Cli(live, tmp_path, **environment(live))
    await live.migrate(s.Lines, s.Stock)
    await live.publish(Placed(("a",) * 7, (0,) * 7), "o-1", 1, id="placed")
    await live.publish(Cancelled(), "o-1", 2, id="cancelled")
    await live.publish(StockMoved("a", "x", "y", 1), "o-1", 3, id="moved")
    await live.publish(Closed("x"), "o-1", 4, id="closed")
    await live.publish(Placed((), ()), "o-1", 5, id="empty")
    await live.settle(s.Lines, s.Stock)

    for event, consumer, named in (
        ("placed", "Lines", ", ".join(f'["o-1",{no}]' for no in range(5)) + " and 2 more"),
        ("cancelled", "Lines", '["o-1", …]'),
        ("moved", "Stock", '["x","a"], ["y","a"]'),
        ("closed", "Stock", '["x", …]'),
    ):
        found = passages(await journey(cli, event, "--app", SEVERAL_APP))[consumer]
        assert found["rows"] == [f"public.{consumer.lower()} {named}"]
    empty = passages(await journey(cli, "empty", "--app", SEVERAL_APP))["Lines"]
    assert (empty["idle"], empty["rows"]) == (True, [])
