"""`projectionist erase`: what it says before and after, and what it leaves to whom."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import SHOP_APP
from tests.support.retention import sent
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

pytestmark = pytest.mark.asyncio
WORD = "c4nary"
WHY = ("--reason", "ticket 4711")


@pytest_asyncio.fixture
async def terminal(live: ConsumerHarness, tmp_path: Path) -> Cli:
    """A terminal in a folder with the app; order o1 was placed, noted and paid, and its receipt sent."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderPaid(), "o1", 3, id="e3")
    await live.settle(made.Orders, made.Spend)
    await sent(live)
    (tmp_path / "orders.py").write_text(SHOP_APP.format(name=live.stream.name))
    return Cli(live, tmp_path)


async def test_a_plan_counts_by_table_and_the_erase_says_what_remains(
    live: ConsumerHarness, terminal: Cli
) -> None:
    await live.pool.execute("update projectionist.intents set first_started = now()")
    command = ("erase", "orders:app", "--aggregate", "order/o1")
    planned = await terminal.seen(*command, "--plan")
    assert planned["plan"]
    assert [(one["consumer"], one["touched"], one["rows"]) for one in planned["consumers"]] == [
        ("Orders", {"inbox": 3, "intents": 1}, "1 row goes"),
        ("Spend", {"inbox": 3}, "1 rows are folded anew"),
    ]
    assert planned["streams"][0] | {"stream": ""} == {
        "stream": "",
        "sequences": [1, 2, 3],
        "unsettled": [],
        "deleted": 0,
    }
    assert await inspection.count_decisions(live) == 0

    said = await terminal.done(*command, *WHY)
    assert "would be" not in said
    assert f"stream {live.stream.name} holds 3 messages (sequences 1, 2, 3)" in said
    assert "provider email was sent 1 intents" in said
    assert "backups" in said
    assert WORD not in said
    assert await live.rows("orders") == []
    assert await live.rows("spend") == []
    told = await inspection.rows(live, "audit", "action", "object", "who", "reason")
    assert ("erase", "Orders: order/o1", "ann", "ticket 4711") in told


async def test_with_stream_the_messages_are_gone_and_a_second_erase_finds_nothing(
    live: ConsumerHarness, terminal: Cli
) -> None:
    done = await terminal.seen("erase", "orders:app", "--aggregate", "order/o1", *WHY, "--stream")
    assert done["streams"][0]["deleted"] == 3
    assert (await live.nats.jetstream().stream_info(live.stream.name)).state.messages == 0
    again = await terminal.run("erase", "orders:app", "--aggregate", "order/o1", *WHY)
    assert again.code == 0
    assert "stream" not in again.out
    verified = await terminal.run("verify", "orders:app", "Orders")
    assert verified.code == 0, verified.out + verified.err
    await live.publish(OrderNoted(WORD), "o1", 4, id="e4")
    unread = await terminal.run("erase", "orders:app", "--aggregate", "order/o1", *WHY, "--stream")
    assert unread.code == 3
    assert (
        "holds 1 messages (sequences 4); 1 of them are not settled yet: erase again when they are"
        in unread.out
    )


async def test_what_has_no_reason_or_names_nothing_is_refused_with_what_to_write(terminal: Cli) -> None:
    assert "erase needs a reason" in await terminal.refused("erase", "orders:app", "--event", "e1")
    assert "Write --aggregate TYPE/ID" in await terminal.refused(
        "erase", "orders:app", "--aggregate", "o1", *WHY
    )
    assert "--source is of an event" in await terminal.refused(
        "erase", "orders:app", "--aggregate", "order/o1", "--source", "shop", *WHY
    )
    assert "nothing is known of event 'e9'" in await terminal.refused(
        "-q", "erase", "orders:app", "--event", "e9", *WHY
    )


async def test_a_legal_hold_keeps_everything_as_it_is(
    live: ConsumerHarness, terminal: Cli, tmp_path: Path
) -> None:
    held = Cli(live, tmp_path, more="[consumers.Spend]\nlegal_hold = true\n")
    assert "Spend is under legal hold" in await held.refused(
        "-q", "erase", "orders:app", "--event", "e1", *WHY
    )
    assert await inspection.count_decisions(live) == 0
