"""`projectionist parked`: what operators see of what waits, and what becomes of what they do about it."""

from __future__ import annotations

import json
from inspect import getsourcelines
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, Trouble, shop

from projectionist.core.digest import digest

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "ticket 7")
DIGEST = digest("ValueError: cannot digest bad …")
MEETS = getsourcelines(Trouble.meet)[1] + 3
"""The line that raises it."""


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which three orders have failed at version 2, one of them with a follower, and one lacks version 2."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    made.trouble.poison.update({"bad 1", "bad 2", "bad 3"})
    for n in (1, 2, 3):
        await live.publish(OrderPlaced("ann", n), f"o{n}", 1, id=f"placed-{n}")
        await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 2, id=f"bad-{n}")
    await live.publish(OrderPaid(), "o1", 3, id="paid-1")
    await live.publish(OrderPlaced("bob", 9), "o4", 1, id="placed-4")
    await live.publish(OrderPaid(), "o4", 3, id="paid-4")
    async with live.running(made.Orders):
        await live.settled(made.Orders)
        await live.value_of(
            "select count(*) from {s}.positions where aggregate = 'order/o4' and finding is not null", 1
        )
    return made


async def test_the_list_is_grouped_by_what_is_alike_and_says_what_waits_for_somebody(
    cli: Cli, s: Any
) -> None:
    ended = await cli.run("parked", "list", "--json")

    assert ended.code == 3
    groups = json.loads(ended.out)["groups"]
    assert [(g["count"], g["waiting"], g["cause"], g["type"], g["sample"], g["why"]) for g in groups] == [
        (3, 3, "failed", "order.noted", "bad-1", f"ValueError at shop.py:{MEETS} [{DIGEST}]"),
        (1, 0, "blocked", "order.paid", "paid-1", "behind an event that failed"),
        (1, 1, "gap", "order.paid", "paid-4", "behind missing versions: lost"),
    ]
    assert f"ValueError at shop.py:{MEETS} [{DIGEST}]" in await cli.done("parked", "list")
    assert "cannot digest bad …" in await cli.done("parked", "list", "--reveal", *WHY)
    hint = "Orders: 4 waiting for new code or a person. `projectionist parked list --consumer Orders`"
    assert hint in await cli.done("status")


async def test_a_group_with_one_text_shows_it_whole_and_is_chosen_by_it(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    await live.pool.execute(
        """update projectionist.parked set error_class = 'BadValue', error = $$column 'cents' takes 1, got 2$$
            where id <> 'bad-3' and cause = 'failed';
        update projectionist.parked set error_class = 'BadValue', error = $$column 'cents' takes 1, got 3$$
            where id = 'bad-3'"""
    )
    await live.count_anew()

    async def failed(*filters: str) -> list[tuple[int, str]]:
        shown = await cli.seen("parked", "list", "--cause", "failed", "--reveal", *WHY, *filters)
        groups = shown["groups"]
        return [(g["count"], g["why"]) for g in groups]

    assert await failed() == [(3, "BadValue: column … takes …, got …")]
    one = "BadValue: column 'cents' takes 1, got 2"
    assert await failed("--error", one) == [(2, one)]
    assert await failed("--aggregate", "order/o3") == [(1, "BadValue: column 'cents' takes 1, got 3")]


async def test_filters_choose(cli: Cli, s: Any) -> None:
    async def ids(*filters: str) -> list[str]:
        events = (await cli.seen("parked", "list", "--each", *filters))["events"]
        return sorted(event["id"] for event in events)

    assert await ids() == ["bad-1", "bad-2", "bad-3", "paid-1", "paid-4"]
    assert await ids("--cause", "gap") == ["paid-4"]
    assert len(await ids("--type", "order.noted", "--limit", "2")) == 2
    assert await ids("--aggregate", "order/o1") == ["bad-1", "paid-1"]
    assert await ids("--error", "ValueError: cannot digest bad …") == ["bad-1", "bad-2", "bad-3"]
    assert await ids("--error", f"ValueError at shop.py:{MEETS} [{DIGEST}]") == ["bad-1", "bad-2", "bad-3"]
    assert await ids("--error", DIGEST) == ["bad-1", "bad-2", "bad-3"]
    assert await ids("--older-than", "3600") == []
    assert await ids("--consumer", "Orders", "--cause", "blocked") == ["paid-1"]
    assert "there is no consumer 'Nobody'" in await cli.refused("parked", "list", "--consumer", "Nobody")


async def test_an_event_is_shown_without_its_payload_unless_asked_for_on_record(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    [shown] = (await cli.seen("parked", "show", "bad-1"))["events"]
    assert (shown["consumer"], shown["aggregate"], shown["version"]) == ("Orders", "order/o1", 2)
    assert (shown["error_class"], shown["why"]) == ("ValueError", f"ValueError at shop.py:{MEETS} [{DIGEST}]")
    assert (shown["attempts"], shown["size"], len(shown["hash"])) == (1, 16, 32)
    assert shown["first_failed"] == shown["last_failed"]
    assert not {"data", "error", "stack", "problem"} & shown.keys()
    assert "digest bad" not in await cli.done("parked", "show", "bad-1")

    assert "--reveal needs a reason" in await cli.refused("parked", "show", "bad-1", "--reveal")
    [shown] = (await cli.seen("parked", "show", "bad-1", "--reveal", *WHY))["events"]
    assert (shown["data"], shown["error"]) == ('{"text":"bad 1"}', "cannot digest bad 1")
    assert "in meet" in shown["stack"]
    assert "in meet" in await cli.done("parked", "show", "bad-1", "--reveal", *WHY)
    assert (
        await inspection.rows(live, "audit", "who", "action", "object", "reason", action="reveal")
        == [("ann", "reveal", "Orders: shop/bad-1", "ticket 7")] * 2
    )
    assert "no event 'nothing' is parked" in await cli.refused("parked", "show", "nothing")


async def test_a_filter_retries_one_and_all_the_rest_only_on_request(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    s.trouble.poison.clear()
    done = await cli.seen("parked", "retry", "--cause", "failed", *WHY)
    assert (done["changed"], done["left"]) == (["bad-1"], 2)

    async with live.running(s.Orders):
        await inspection.reaches(3, inspection.value, live, "positions", "version", aggregate="order/o1")
        done = await cli.seen("parked", "retry", "--cause", "failed", "--all", *WHY)
        assert (done["changed"], done["left"]) == (["bad-2", "bad-3"], 0)
        await inspection.reaches(0, inspection.count_parked, live, cause="failed")
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert (await cli.seen("parked", "retry", "--cause", "failed", "--all", *WHY))["changed"] == []


async def test_a_group_whose_sample_fails_again_is_left_alone(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    for n in range(10, 16):
        s.trouble.poison.add(f"bad {n}")
        await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 1, id=f"bad-{n}")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        ended = await cli.run("parked", "retry", "--cause", "failed", "--all", *WHY)

        assert ended.code == 3
        assert "none of a sample got through, so the rest of its group was left alone" in ended.err
        assert await live.fetch(
            "select attempts, count(*) from {s}.parked where cause = 'failed' group by 1 order by 1"
        ) == [
            (1, 8),
            (2, 1),
        ]


async def test_a_group_nobody_tries_is_left_alone_and_a_second_call_changes_nothing(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    for n in range(10, 16):
        s.trouble.poison.add(f"bad {n}")
        await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 1, id=f"bad-{n}")
    await live.settle(s.Orders)
    call = ("parked", "retry", "--error", "ValueError: cannot digest bad …", "--all", "--wait", "0", *WHY)

    first = await cli.seen(*call)
    assert (len(first["changed"]), first["left"]) == (1, 8)
    assert "is the consumer running?" in first["note"]
    budgets = "select id, budget from {s}.parked where id = any($1) order by id"
    before = await live.fetch(budgets, first["changed"])
    second = await cli.seen(*call)
    assert not set(first["changed"]) & set(second["changed"])
    assert await live.fetch(budgets, first["changed"]) == before


async def test_a_head_is_skipped_by_its_id_and_what_waits_behind_drains(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    assert await cli.done("parked", "skip", "bad-1", *WHY) == "skip: 1 done\n"
    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert (await live.states(s.Orders))["bad-1"] == "skipped"
    assert await inspection.rows(live, "counters", "type", "n", outcome="skipped", runner=0) == [
        ("order.noted", 1)
    ]
    assert "no event 'bad-1' is parked" in await cli.refused("parked", "skip", "bad-1", *WHY)


async def test_a_follower_is_not_skipped_but_may_be_discarded(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    ended = await cli.run("parked", "skip", "paid-1", *WHY)
    assert ended.code == 3
    assert "skip: 0 done" in ended.out

    assert await cli.done("parked", "discard", "paid-1", *WHY) == "discard: 1 done\n"
    assert await cli.done("parked", "skip", "bad-1", *WHY) == "skip: 1 done\n"
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert (await live.states(s.Orders))["paid-1"] == "discarded"


async def test_a_gap_is_accepted_as_it_is_seen_or_by_its_versions(
    live: ConsumerHarness, cli: Cli, s: Any
) -> None:
    refused = await cli.run("parked", "accept-gap", "--aggregate", "order/o4", "--versions", "2..3", *WHY)
    assert refused.code == 3
    assert "Missing are 2 to 2" in refused.out
    assert "is not A..B" in await cli.refused(
        "parked", "accept-gap", "--aggregate", "order/o4", "--versions", "two", *WHY
    )

    assert await cli.done("parked", "accept-gap", "--aggregate", "order/o4", *WHY) == "accept-gap: 1 done\n"
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o4") == (3, "clear", 0)
    assert await inspection.rows(live, "decisions", "aggregate", "version", "upto", "actor", "reason") == [
        ("order/o4", 2, 2, "ann", "ticket 7")
    ]


async def test_an_edit_keeps_the_identity_and_both_hashes(live: ConsumerHarness, cli: Cli, s: Any) -> None:
    (cli.folder / "fixed.json").write_text('{"text": "fine"}')
    (cli.folder / "broken.json").write_text('{"text": ')
    call = ("parked", "edit", "bad-1", *WHY, "--data")
    assert "the payload is not JSON" in await cli.refused(*call, "broken.json")

    assert await cli.done(*call, "fixed.json") == "edit: 1 done\n"
    [shown] = (await cli.seen("parked", "show", "bad-1"))["events"]
    assert shown["edited_hash"] not in (None, shown["hash"])
    [decision] = shown["decisions"]
    assert (decision["kind"], decision["actor"], decision["hash"]) == ("edit", "ann", shown["edited_hash"])
    await live.settle(s.Orders)
    assert (await live.states(s.Orders))["bad-1"] == "applied"
    [(history,)] = await live.fetch("select history::text from orders where order_id = 'o1'")
    assert json.loads(history) == ["placed", "fine", "paid"]


async def test_without_order_an_event_is_retried_and_discarded_by_its_id_and_counted(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.update({"a", "b", "c"})
    await live.migrate(s.Orders)
    for name in "abc":
        await live.publish(OrderNoted(name), "o1", None, id=name)
    await live.settle(s.Orders)

    groups = (await cli.seen("parked", "list"))["groups"]
    assert [(g["count"], g["waiting"]) for g in groups] == [(1, 1)] * 3
    await cli.done("parked", "discard", "a", *WHY)
    await cli.done("parked", "skip", "b", *WHY)
    s.trouble.poison.clear()
    await cli.done("parked", "retry", "--type", "order.noted", "--all", "--wait", "0", *WHY)
    await live.settle(s.Orders)

    assert await live.states(s.Orders) == {"a": "discarded", "b": "discarded", "c": "applied"}
    assert await inspection.count_outcomes(live, "discarded") == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "e"], "list takes no ID"),
        (["show"], "show takes one ID"),
        (["retry", *WHY], "retry takes ids or filters"),
        (["skip", "e"], "skip needs a reason"),
        (["edit", "e", *WHY], "edit needs --data FILE"),
        (["retry", "--all", "--cause", "failed", "--rate", "0", *WHY], "not zero either"),
        (["retry", "e", *WHY], "no event 'e' is parked"),
        (["retry", "e", "--reason", "x", "--actor", " "], "an act needs an actor and a reason"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_the_next_step(
    cli: Cli, words: list[str], told: str
) -> None:
    assert told in await cli.refused("parked", *words)


async def test_an_id_that_two_consumers_have_parked_needs_the_consumer(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Mailer)
    s.trouble.poison.add("bad")
    await live.publish(OrderNoted("bad"), "o1", 1, id="bad")
    await live.settle(s.Orders, s.Mailer)

    told = await cli.refused("parked", "retry", "bad", *WHY)
    assert told.startswith("'bad' is parked by ")
    assert "Mailer (source 'shop')" in told
    assert told.endswith("Say --consumer or --source, or --every-consumer")
    assert len((await cli.seen("parked", "show", "bad"))["events"]) == 2
    await cli.done("parked", "skip", "bad", "--consumer", "Mailer", *WHY)
    assert (await live.states(s.Mailer))["bad"] == "skipped"
