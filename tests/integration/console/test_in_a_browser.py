"""The console in a real Chromium: what an operator does with a mouse, on a desk, on a phone, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize, expect
from tests.support import inspection
from tests.support.chromium import chromium
from tests.support.console_client import behind, serving
from tests.support.console_visitor import DESK, PHONE, Visitor, Visitors, visiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.console.access.sessions import Role
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

ORDERS = 6


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as made:
        yield made


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which all is well."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    for n in range(ORDERS):
        await live.publish(OrderPlaced("ann", n), f"o{n}", 1)
    await live.settle(made.Orders)
    return made


@pytest_asyncio.fixture
async def visitors(live: ConsumerHarness, s: Any, browser: Browser) -> AsyncIterator[Visitors]:
    async with (
        serving(App(projections=[s.Orders]), live.settings) as served,
        visiting(served, browser) as made,
    ):
        yield made


async def answered(ann: Visitor, answer: str) -> None:
    """Wait until the page says whether somebody must act."""
    await expect(ann.page.locator(".answer").first).to_contain_text(answer)


async def shown(ann: Visitor, answer: str) -> bool:
    """Take a new look; return whether the page says this."""
    await ann.follow("Reload")
    return answer in await ann.said()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_a_poison_is_seen_retried_after_the_fix_drained_and_audited(
    live: ConsumerHarness, s: Any, visitors: Visitors, size: ViewportSize
) -> None:
    ann = await visitors.logged_in(viewport=size)
    async with live.running(s.Orders):
        await eventually(lambda: shown(ann, "Nobody has to act."))
        s.trouble.poison.update(f"bad {n}" for n in range(ORDERS))
        for n in range(ORDERS):
            await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 2)
            await live.publish(OrderPaid(), f"o{n}", 3)
        await live.settled(s.Orders)
        await eventually(lambda: shown(ann, "Somebody must act"))
        await ann.page.locator(".todo .next").first.click()
        await answered(ann, f"1 group waits for somebody: {ORDERS} events.")
        await ann.page.locator(".grid .open").first.click()
        await ann.follow("Retry…")
        await expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"Retry {ORDERS} events")
        await ann.write("Reason", "is it mended?")
        await ann.press("Retry")
        await answered(ann, "It has ended: stopped by its sample.")
        s.trouble.poison.clear()
        await ann.turn_to("Waiting")
        await ann.page.locator(".grid .open").first.click()
        await ann.follow("Retry…")
        await ann.write("Reason", "mended by release 7")
        await ann.press("Retry")
        await answered(ann, f"Nobody has to act. {ORDERS} done.")
        await inspection.reaches(0, inspection.count_parked, live)
    await ann.turn_to("Waiting")
    await answered(ann, "No event is parked.")
    await ann.turn_to("Audit")
    await expect(ann.page.locator("tbody")).to_contain_text("mended by release 7")
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)


async def test_an_act_is_done_without_javascript(live: ConsumerHarness, visitors: Visitors) -> None:
    ann = await visitors.logged_in(java_script_enabled=False)
    await ann.page.locator(".grid .open").first.click()
    await ann.follow("Pause…")
    await ann.write("Reason", "a move")
    await ann.press("Pause Orders")
    await expect(ann.page.locator(".banner.ok")).to_contain_text("Orders is paused.")
    await ann.page.get_by_role("searchbox").fill("order/o1")
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("order/o1")
    assert await inspection.rows(live, "audit", "who", "reason", action="pause") == [("ann", "a move")]


async def test_whoever_may_only_look_is_told_so_and_is_shown_no_act(
    live: ConsumerHarness, visitors: Visitors
) -> None:
    bob = await visitors.logged_in("bob", Role.VIEW)
    await expect(bob.page.locator(".banner.idle")).to_contain_text("You may look, not act")
    await bob.page.locator(".grid .open").first.click()
    await expect(bob.page.get_by_role("heading", level=1)).to_have_text("Orders")
    assert await bob.page.locator("a[href*='/act/']").count() == 0
    await bob.go("/act/pause?consumer=Orders")
    await expect(bob.page.get_by_role("heading", level=1)).to_have_text("You may not do this")
    assert await bob.flaws() == []


async def test_of_two_people_at_once_the_second_is_told_what_the_first_has_done(
    live: ConsumerHarness, visitors: Visitors
) -> None:
    ann, bob = await visitors.logged_in("ann"), await visitors.logged_in("bob")
    for each in (ann, bob):
        await each.go("/act/pause?consumer=Orders")
        await each.write("Reason", "for my move")
    await ann.press("Pause Orders")
    await expect(ann.page.locator(".banner.ok")).to_contain_text("Orders is paused.")
    await bob.press("Pause Orders")
    await expect(bob.page.locator("main")).to_contain_text("paused by ann")
    assert await inspection.rows(live, "audit", "who", action="pause") == [("ann",)]


async def test_a_login_is_by_a_link_that_lets_one_person_in_once(
    visitors: Visitors,
) -> None:
    ann = await visitors.stranger()
    await ann.go("/audit")
    await ann.press("Print a new link")
    await expect(ann.page.locator("main")).to_contain_text("A new one is there now.")
    assert await ann.flaws() == []
    link = ann.served.links[-1]
    await ann.go(f"/login?link={link}")
    assert await ann.flaws() == []
    await ann.write("Name", "ann")
    await ann.press("Log in")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")
    eve = await visitors.stranger()
    await eve.go(f"/login?link={link}")
    assert await eve.page.get_by_label("Name").count() == 0


async def test_with_the_database_killed_under_an_open_page_a_banner_says_so_and_no_stack(
    live: ConsumerHarness, s: Any, browser: Browser
) -> None:
    async with (
        gateway(live.database) as gate,
        serving(App(projections=[s.Orders]), behind(live, gate)) as served,
        visiting(served, browser) as visitors,
    ):
        ann, bob = await visitors.logged_in(), await visitors.logged_in("bob")
        await bob.go("/act/pause?consumer=Orders")
        await bob.write("Reason", "a move")
        gate.refusing = True
        gate.cut()
        await eventually(lambda: shown(ann, "PostgreSQL does not answer"))
        await expect(ann.page.locator("main")).to_contain_text("Orders")
        assert await ann.flaws() == []
        await bob.press("Pause Orders")
        await expect(bob.page.locator("#servers .banner")).to_contain_text("PostgreSQL does not answer")
        assert "Traceback" not in await bob.said()
        assert await bob.flaws() == []
    assert await inspection.count(live, "audit", action="pause") == 0
