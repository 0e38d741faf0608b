"""What events say is shown by the commands an operator looks with, and steers no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop

pytestmark = pytest.mark.asyncio

STEERS = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp.exe"
WHY = ("--reveal", "--reason", "ticket 7")


async def test_events_that_hold_terminal_sequences_are_shown_as_escapes(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, cli = shop(live.stream), Cli(live, tmp_path)
    s.trouble.poison.add(STEERS)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderNoted(STEERS), "o1", 2, id="bad")
    coded = "e2%1B%5D0%3BPWNED%07%1B%5B2J"
    await live.publish(OrderNoted(STEERS), "o2", 1, headers={"ce-id": coded, "x-note": "\x1b[2J"})
    await live.settle(s.Orders)

    for words in (
        "status",
        "parked list --each",
        "parked show bad",
        "journey bad",
        "quarantine list --each",
        "quarantine show 3",
        "incidents list",
    ):
        shown = (await cli.run(*words.split())).out
        assert shown, words
        assert {one for one in shown if not one.isprintable()} <= {"\n", "\t"}, words
    assert r"\x1b]0;PWNED" in await cli.done("quarantine", "show", "3", *WHY)
    assert r"\u202egnp.exe" in await cli.done("parked", "show", "bad", *WHY)
    [event] = (await cli.seen("parked", "show", "bad", *WHY))["events"]
    assert STEERS in event["error"]
