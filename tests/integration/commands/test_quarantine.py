"""`projectionist quarantine`, `incidents` and `audit`: what could not be read, what must not be explained away, and
who has done what about both."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "ticket 7")


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop with two events that lack their version (sequences 2 and 3), and one that says its id twice (4, 5)."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    await live.publish(OrderPaid(5), "o1", None, id="b")
    await live.publish(OrderPaid(5), "o2", None, id="c", headers={"ce-subject": "private"})
    await live.publish(OrderNoted("first"), "o3", 1, id="d")
    await live.publish(OrderNoted("second"), "o3", 1, id="d")
    await live.settle(made.Orders)
    return made


async def released(live: ConsumerHarness, count: int) -> None:
    await inspection.reaches(count, inspection.count_quarantined, live, state="released")


async def test_the_list_is_grouped_by_what_is_alike(cli: Cli, s: Any) -> None:
    ended = await cli.run("quarantine", "list", "--json")
    assert ended.code == 3
    groups = json.loads(ended.out)["groups"]
    assert [(g["count"], g["consumers"], g["cause"], g["sample"]) for g in groups] == [
        (2, ["Orders"], "version", 2),
        (1, ["Orders"], "identity_reuse", 5),
    ]
    entries = (await cli.seen("quarantine", "list", "--each", "--cause", "version"))["entries"]
    assert [(e["seq"], e["id"], e["attempts"]) for e in entries] == [(2, "b", 0), (3, "c", 0)]
    assert groups[0]["why"] in await cli.done("quarantine", "list")
    assert (await cli.seen("quarantine", "list", "--error", groups[1]["why"]))["groups"] == groups[1:]


async def test_an_incarnation_that_no_stream_has_is_not_there(cli: Cli, s: Any) -> None:
    told = await cli.refused("quarantine", "show", "2", "--incarnation", str(2**62))
    assert told.startswith("nothing of sequence 2 was put into quarantine")


async def test_one_entry_is_shown_with_its_headers_and_its_payload_only_on_request(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    [shown] = (await cli.seen("quarantine", "show", "2"))["entries"]
    assert (shown["consumer"], shown["cause"], shown["state"]) == ("Orders", "version", "quarantined")
    assert "ce-id" in shown["headers"]
    assert "data" not in shown
    assert "ce-id:" not in await cli.done("quarantine", "show", "2")

    [shown] = (await cli.seen("quarantine", "show", "2", "--reveal", *WHY))["entries"]
    assert "ce-id: b" in shown["headers"]
    assert shown["data"] == '{"cents":5}'
    acts = (await cli.seen("audit", "--action", "reveal"))["acts"]
    assert [(a["who"], a["object"]) for a in acts] == [("ann", "Orders: sequence 2 of incarnation 1")]
    assert "nothing of sequence 99 was put into quarantine" in await cli.refused("quarantine", "show", "99")


async def test_an_edit_supplies_headers_and_the_event_is_applied(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    call = ("quarantine", "edit", "2", "--header", "ce-aggregateversion=2", *WHY)
    assert await cli.done(*call) == "edit: 1 done\n"
    assert "is not NAME=VALUE" in await cli.refused("quarantine", "edit", "2", "--header", "x", *WHY)
    assert "cannot be a header" in await cli.refused("quarantine", "edit", "2", "--header", "a b=1", *WHY)

    async with live.running(s.Orders):
        await released(live, 1)
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    again = await cli.run(*call)
    assert (again.code, "It has been released" in again.out) == (3, True)


async def test_a_filter_has_one_read_again_and_all_the_rest_only_on_request(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    call = ("quarantine", "retry", "--cause", "version", *WHY)
    assert await cli.seen(*call) == {
        "act": "retry",
        "changed": ["2"],
        "unchanged": {},
        "left": 1,
        "note": "",
    }
    at_once = ("--all", "--wait", "0")
    assert (await cli.seen(*call, *at_once))["changed"] == ["3"]
    assert (await cli.seen(*call, *at_once))["changed"] == []

    async with live.running(s.Orders):
        await live.value_of("select sum(attempts)::int from {s}.quarantine where reason = 'version'", 2)
    reuse = await cli.run("quarantine", "retry", "5", *WHY)
    assert (reuse.code, "belongs to another event" in reuse.out) == (3, True)


async def test_what_is_discarded_is_gone_from_the_list(cli: Cli, s: Any) -> None:
    assert await cli.done("quarantine", "discard", "2", "3", "5", *WHY) == "discard: 3 done\n"
    ended = await cli.run("quarantine", "list")
    assert (ended.code, ended.out) == (0, "No results.\n")
    assert "takes sequences or filters" in await cli.refused("quarantine", "discard", *WHY)


async def test_an_incident_is_listed_until_somebody_has_dealt_with_it(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    ended = await cli.run("incidents", "list", "--json")
    assert ended.code == 3
    [group] = json.loads(ended.out)["groups"]
    assert (group["count"], group["consumers"], group["kind"]) == (1, ["Orders"], "identity_reuse")
    number = str(group["sample"])
    [one] = (await cli.seen("incidents", "list", "--each"))["incidents"]
    assert (one["id"], one["seq"]) == ("d", 5)
    assert one["detail"] in await cli.done("incidents", "show", number)

    assert "close needs a reason" in await cli.refused("incidents", "close", number)
    assert await cli.done("incidents", "close", number, *WHY) == "close: 1 done\n"
    assert (await cli.seen("incidents", "close", number, *WHY))["unchanged"] == [int(number)]
    assert (await cli.run("incidents", "list")).code == 0
    [group] = (await cli.seen("incidents", "list", "--closed"))["groups"]
    assert group["closed"]
    assert "there is no incident 99" in await cli.refused("incidents", "show", "99")


async def test_incidents_are_closed_by_kind_too(cli: Cli, s: Any) -> None:
    call = ("incidents", "close", "--kind", "identity_reuse", *WHY)
    assert "close takes numbers, or filters and --all" in await cli.refused(*call)
    assert len((await cli.seen(*call, "--all"))["closed"]) == 1


async def test_an_incident_about_the_stream_is_for_adopt(live: ConsumerHarness, cli: Cli, s: Any) -> None:
    number = await live.value(
        "insert into {s}.incidents (consumer, kind, incarnation, seq, detail)"
        " values (1, 'stream_replaced', 1, 9, 'gone') returning number"
    )
    told = await cli.refused("incidents", "close", str(number), *WHY)
    assert "about the stream or the database itself" in told
    assert "`projectionist adopt Orders --reason …`" in told


async def test_the_audit_is_read_back_by_whom_what_and_about_which(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    await cli.done("quarantine", "discard", "2", *WHY)
    await cli.done("quarantine", "discard", "3", "--reason", "a test", "--actor", "bob")

    async def acts(*filters: str) -> list[tuple[str, str, str, str]]:
        found = (await cli.seen("audit", *filters))["acts"]
        return [(a["who"], a["action"], a["object"], a["reason"]) for a in found]

    ann = ("ann", "discard", "Orders: sequence 2 of incarnation 1", "ticket 7")
    bob = ("bob", "discard", "Orders: sequence 3 of incarnation 1", "a test")
    assert await acts("--action", "discard") == [ann, bob]
    assert await acts("--who", "bob") == [bob]
    assert await acts("--about", "sequence 2", "--consumer", "Orders") == [ann]
    assert await acts("--limit", "1") == [bob]
    assert await acts("--newer", "3600", "--consumer", "Nobody") == []
    assert "sequence 3 of incarnation 1" in await cli.done("audit")
    assert "--limit is at least one" in await cli.refused("audit", "--limit", "0")


async def test_one_fault_in_several_consumers_is_one_thing_to_act_on(live: ConsumerHarness, cli: Cli) -> None:
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend, made.Mailer)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    torn = await live.publish(OrderPaid(5), "o1", None, id="b")
    await live.publish(OrderPlaced("bob", 5), "o1", 1, id="c")
    await live.publish(OrderPaid(5), "o1", 3, id="d")
    everybody = ["Mailer", "Orders", "Spend"]
    async with live.running(made.Orders, made.Spend, made.Mailer):
        await live.value_of("select count(*) from {s}.incidents where kind in ('lost', 'version_reuse')", 6)

    groups = (await cli.seen("quarantine", "list"))["groups"]
    assert {(g["cause"], g["count"], *g["consumers"]) for g in groups} == {
        ("version", 1, *everybody),
        ("version_reuse", 1, *everybody),
    }
    groups = (await cli.seen("incidents", "list"))["groups"]
    assert {(g["kind"], g["count"], *g["consumers"]) for g in groups} == {
        ("lost", 1, *everybody),
        ("version_reuse", 1, *everybody),
    }
    assert "Mailer, Orders, Spend" in await cli.done("incidents", "list")
    told = [f"{one['about']}: {one['text']}" for one in (await cli.seen("status"))["attention"]]
    assert "Mailer, Orders, Spend: 2 in quarantine" in told
    assert "Mailer, Orders, Spend: 2 incidents open" in told

    lacking = ("--aggregate", "order/o1", "--versions", "2..2", "--reason", "known")
    assert "for one aggregate, not for 3" in await cli.refused("parked", "accept-gap", *lacking, "--all")
    done = await cli.seen("parked", "accept-gap", *lacking, "--every-consumer")
    assert len(done["changed"]) == 3
    assert "--every-consumer" in await cli.refused("quarantine", "discard", str(torn), *WHY)
    done = await cli.seen("quarantine", "discard", str(torn), *WHY, "--every-consumer")
    assert len(done["changed"]) == 3
    [reuse] = (await cli.seen("incidents", "list"))["groups"]
    assert (reuse["kind"], reuse["count"]) == ("version_reuse", 1), "accepting the gap has closed the other"
    closed = await cli.seen("incidents", "close", str(reuse["sample"]), *WHY, "--every-consumer")
    assert len(closed["closed"]) == 3
