"""Thousands of messages that mean ill: each stands somewhere, good ones are applied, nothing hangs, nothing steers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.support import inspection
from tests.support.boundary_harness import MANY, BoundaryHarness, boundary
from tests.support.cli import Cli
from tests.support.hostile import hostile
from tests.support.loop_holds import held_loop
from tests.support.oddities import Message
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Servers
from tests.support.waiting import eventually

from projectionist.core.log_format import JsonFormatter, TextFormatter

COUNT = 1_000
"""Of one batch; `make soak` tries ten of them."""
GOOD_ORDERS = 4
"""Before and after them."""
HELD_S = 0.05
WHY = ("--reveal", "--reason", "to look")
LOOKS = (
    ("status",),
    ("status", "--json"),
    ("parked", "list"),
    ("parked", "list", "--each", "--limit", "9999", *WHY),
    ("parked", "list", "--each", "--limit", "9999", "--json", *WHY),
    ("quarantine", "list"),
    ("quarantine", "list", "--each", "--limit", "9999", *WHY),
    ("quarantine", "list", "--each", "--limit", "9999", "--json", *WHY),
    ("incidents", "list", "--each", "--limit", "9999"),
    ("audit", "--json"),
)


@pytest.mark.deadline(600)
@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(10 if MANY else 1))
async def test_hostile_envelopes_are_set_aside_or_applied_and_hold_no_loop(
    servers: Servers, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="projectionist")
    async with boundary(servers, "Orders", "Spend", seed=seed) as one:
        await one.good(GOOD_ORDERS // 2)
        stored = await sent(one, hostile(seed, COUNT))
        assert stored > COUNT * 0.9, "the server takes most of them"
        await one.good(GOOD_ORDERS // 2)
        with held_loop() as holds:
            async with one.running():
                await one.drained()
                await eventually(partial(none_lost, one))
        assert await inspection.count_quarantined(one.live) > COUNT / 10
        assert await inspection.count_inbox(one.live, state="applied") > COUNT / 100
        assert holds.callbacks > 100
        assert holds.longest_s < HELD_S, holds.by
        orders, spend = [await RebuildHarness(one.live).verify(cls) for cls in one.consumers]
        assert (orders.drifted, orders.unsure, orders.undecidable) == (0, 0, 0)
        assert (spend.drifted, spend.unsure, spend.undecidable) == (0, 0, 0)
        assert orders.rows > GOOD_ORDERS, "hostile ones are applied among them"
        assert not steering(logged(caplog))
        await look(one, Cli(one.live, tmp_path))


async def none_lost(one: BoundaryHarness) -> bool:
    """Return whether each consumer knows of every message of the stream."""
    return not any([await one.live.unaccounted(cls) for cls in one.consumers])


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return every line of the log, as people read it and as programs do."""
    forms = TextFormatter(), JsonFormatter()
    return "\n".join(form.format(record) for form in forms for record in caplog.records)


def steering(text: str) -> set[str]:
    """Return the characters of an output that a terminal may act on."""
    return {letter for letter in text if not letter.isprintable()} - {"\n", "\t"}


async def sent(one: BoundaryHarness, messages: Sequence[Message]) -> int:
    """Publish them as they are; how many the server has stored."""
    client, inbox = one.live.nats, one.live.nats.new_inbox()
    answers = await client.subscribe(inbox)
    subject = one.live.stream.subject("order", "").encode()
    for message in messages:
        sizes = len(message.head), len(message.head) + len(message.data)
        place = b"%s%s %s" % (subject, message.token, inbox.encode())
        head = b"HPUB %s %d %d\r\n" % (place, *sizes)
        await client._send_command(head + message.head + message.data + b"\r\n")
        await client._flush_pending()
    found = [json.loads((await answers.next_msg(30)).data).get("seq") for _ in messages]
    await answers.unsubscribe()
    one.stored |= {seq for seq in found if seq}
    return sum(1 for seq in found if seq)


async def look(one: BoundaryHarness, cli: Cli) -> None:
    """Look with each command, at all and at a few of each kind: no text steers a terminal."""
    parked = (await inspection.rows(one.live, "parked", "id", order="id"))[:3]
    aside = dict(await inspection.rows(one.live, "quarantine", "reason", "seq", order="seq"))
    each: list[tuple[str, ...]] = [("parked", "show", "--", name) for (name,) in parked]
    each += [
        ("quarantine", "show", str(seq), "--consumer", "Orders", *WHY) for seq in list(aside.values())[:4]
    ]
    each += [("journey", "--", name) for (name,) in parked]
    for words in (*LOOKS, *each):
        ended = await cli.run(*words)
        assert ended.code in (0, 1, 3), (words, ended.err)
        assert not steering(ended.out + ended.err), words
        assert ended.out or ended.code == 1, words


@pytest.mark.asyncio
async def test_a_callback_that_holds_the_loop_is_noticed_and_the_onlooker_is_not() -> None:
    def busy() -> None:
        until = time.thread_time() + HELD_S
        while time.thread_time() < until:
            pass

    with held_loop() as holds:
        busy()
        await asyncio.sleep(0)
        assert holds.longest_s < HELD_S
        asyncio.get_running_loop().call_soon(busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert holds.longest_s >= HELD_S
    assert "busy" in holds.by
