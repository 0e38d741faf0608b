"""Groups of quarantine as operations: read again in samples, or discarded, each entry once."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import WHY, operating, silence
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import HANG_S, eventually

from projectionist.runner import App

pytestmark = pytest.mark.asyncio

RETRY = (
    *("quarantine", "retry", "--cause", "version", "--all", *WHY),
    *("--wait", f"{HANG_S}", "--rate", "10000"),
)


async def unversioned(live: ConsumerHarness, number: int) -> Any:
    """A shop with so many events in quarantine, since they lack their version."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    for n in range(1, number + 1):
        await live.publish(OrderNoted("well"), f"o{n}", None, id=f"e{n}")
    await live.settle(made.Orders)
    return made


async def test_a_group_is_read_again_in_samples_and_left_where_none_is_an_event(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = await unversioned(live, 8)
    async with live.running(s.Orders):
        done = await cli.seen(*RETRY)
    assert (done["changed"], done["failed"], done["left"]) == (["1"], ["1"], 7)
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["chosen"]) == ("stopped by its sample", {"cause": "version"})
    assert [(one["seq"], one["state"]) for one in shown["not_done"]] == [(1, "failed")]
    tried = dict(await inspection.rows(live, "quarantine", "seq", "attempts"))
    assert tried == {1: 1} | dict.fromkeys(range(2, 9), 0)


async def test_killed_in_the_middle_it_is_taken_up_and_each_entry_is_discarded_once(
    live: ConsumerHarness, cli: Cli
) -> None:
    await unversioned(live, 4)
    discard = ("quarantine", "discard", "--cause", "version", "--all", *WHY)
    async with operating(cli, *discard, kill_at={"operation.acting": 3}) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await silence(live)
    await cli.done("operations", "take-up", "1", *WHY)
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["done"], shown["left"]) == ("done", 4, 0)
    assert await inspection.rows(live, "quarantine", "state") == [("discarded",)] * 4
    assert await inspection.count(live, "audit", action="discard") == 4


async def test_a_group_is_discarded_in_the_browser_beside_the_pages(live: ConsumerHarness) -> None:
    s = await unversioned(live, 3)
    async with serving(App(projections=[s.Orders]), live.settings) as served:
        ann = await served.logged_in("ann")
        page = text_of(await ann.submit("/act/quarantine-discard?cause=version", reason="tests"))
        assert "1 quarantine discard of 3" in page

        async def discarded() -> bool:
            return "Nobody has to act. 3 done." in text_of(await ann.see("/operation?number=1"))

        await eventually(discarded)
