"""Operations in a browser: begun, seen, stopped and taken up, the same ones as at a command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import Browser, Served, serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import RETRY, WHY, failed_orders, lively, operating, retried, silence
from tests.support.waiting import eventually

from projectionist.console.access.sessions import Role
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

GROUP = "consumer=Orders&cause=failed"


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    return await failed_orders(live, 8)


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any) -> AsyncIterator[Served]:
    async with serving(App(projections=[s.Orders]), live.settings) as made:
        yield made


async def shows(browser: Browser, path: str, *texts: str) -> None:
    """Wait until a page says all of it."""

    async def said() -> bool:
        page = text_of(await browser.see(path))
        assert all(text in page for text in texts), page
        return True

    await eventually(said)


async def test_a_group_is_retried_beside_the_pages_and_the_command_line_sees_the_same(
    live: ConsumerHarness, cli: Cli, s: Any, ann: Browser
) -> None:
    assert "None yet" in text_of(await ann.see("/operations"))
    s.trouble.poison -= {f"bad {n}" for n in range(1, 8)}
    async with live.running(s.Orders):
        page = text_of(await ann.submit(f"/act/parked-retry?{GROUP}", how="samples", reason="mended"))
        assert "1 parked retry of 8" in page
        await shows(ann, "/operation?number=1", "It has ended: done. 7 done. 1 failed again.")
    page = text_of(await ann.see("/operation?number=1"))
    assert "1 1 got through 5 5 got through 2 1 got through, 1 failed again" in page
    assert "bad-8 order/o8 failed again" in page
    assert "1 parked retry ann: mended" in text_of(await ann.see("/operations"))
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["who"], shown["done"], shown["failed"]) == ("done", "ann", 7, 1)
    assert await retried(live) == [f"o{n}" for n in range(1, 9)]


async def test_what_a_command_line_carries_out_is_seen_and_stopped_in_the_browser(
    live: ConsumerHarness, cli: Cli, s: Any, ann: Browser
) -> None:
    s.trouble.poison.clear()
    async with live.running(s.Orders), operating(cli, *RETRY[:-1], "0.001") as child:
        await shows(ann, "/operation?number=1", "Done 1 Failed again 0")
        page = text_of(await ann.see("/operations"))
        assert "1 operation goes on." in page
        assert "running" in page
        asked = text_of(await ann.see("/act/operation-stop?number=1"))
        assert "7 of 8 are left as they are." in asked
        assert "projectionist operations stop 1 --reason …" in asked
        await ann.submit("/act/operation-stop?number=1", reason="not yet")
        assert (await child.ended()).code == 3
    assert "It has ended: stopped. 1 done. 7 were left as they are. Ann: not yet." in text_of(
        await ann.see("/operation?number=1")
    )
    assert "has ended: stopped" in text_of(await ann.see("/act/operation-stop?number=1", 404))


async def test_what_nobody_carries_out_needs_somebody_and_is_taken_up_here(
    live: ConsumerHarness, cli: Cli, s: Any, ann: Browser, served: Served
) -> None:
    s.trouble.poison.clear()
    async with operating(cli, *RETRY, kill_at={"operation.acting": 1}) as child:
        await child.ended()
    await lively(live)
    refused = text_of(await ann.see("/act/operation-take-up?number=1", 404))
    assert "carries operation 1 out" in refused
    await silence(live)

    await shows(ann, "/", "Operation 1", "nobody carries it out since")
    assert "is carried out by nobody" in text_of(await ann.see("/operations"))
    assert "Take up…" in await ann.see("/operation?number=1")
    looker = await served.logged_in("bob", Role.VIEW)
    assert "Take up…" not in await looker.see("/operation?number=1")
    async with live.running(s.Orders):
        await ann.submit("/act/operation-take-up?number=1", reason="its host is gone")
        await shows(ann, "/operation?number=1", "Nobody has to act. 8 done.")
    acts = await inspection.rows(live, "audit", "action", "reason", object="operation 1", order="number")
    assert acts == [("begin-operation", WHY[1]), ("take-up-operation", "its host is gone")]


async def test_a_decision_for_ever_is_taken_up_only_by_who_may_take_one(
    live: ConsumerHarness, cli: Cli, s: Any, served: Served
) -> None:
    skip = ("parked", "skip", "--cause", "failed", "--all", *WHY)
    async with operating(cli, *skip, kill_at={"operation.acting": 3}) as child:
        await child.ended()
    await silence(live)

    bob, cleo = await served.logged_in("bob", Role.OPERATE), await served.logged_in("cleo", Role.DESTROY)
    assert "Take up…" not in await bob.see("/operation?number=1")
    await bob.see("/act/operation-take-up-for-ever?number=1", 403)
    assert "one of another kind" in text_of(await bob.see("/act/operation-take-up?number=1", 404))
    await cleo.submit("/act/operation-take-up-for-ever?number=1", reason="test orders")
    await shows(cleo, "/operation?number=1", "Nobody has to act. 8 done.")


async def test_an_operation_that_is_not_there_says_so(ann: Browser) -> None:
    assert "there is no operation 7" in text_of(await ann.see("/operation?number=7", 404))
    assert "number is no number" in text_of(await ann.see("/operation?number=x", 404))
