"""Pages that stay open in a real Chromium: fresh at little cost, they keep what is typed, and say when they are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.support import inspection
from tests.support.chromium import chromium
from tests.support.console_client import Served, behind, serving
from tests.support.console_visitor import Visitor, visiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway, gateway
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.runner import App

pytestmark = pytest.mark.asyncio


INCIDENT = """
    insert into projectionist.incidents (consumer, kind, incarnation, seq, source, id, detail)
    select number, 'late', 1, 2, 'shop', 'e1', 'came late' from projectionist.consumers where name = 'Spend'"""
TO_MEND = "#to-mend li:has-text('Incidents')"


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def gate(live: ConsumerHarness) -> AsyncIterator[Gateway]:
    async with gateway(live.database) as made:
        yield made


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which one order has failed."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    made.trouble.poison.add("bad")
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.settle(made.Orders, made.Spend)
    return made


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any, gate: Gateway, time: Clock) -> AsyncIterator[Served]:
    settings = behind(live, gate)
    async with serving(App(projections=[s.Orders, s.Spend]), settings, now=time) as made:
        yield made


@pytest_asyncio.fixture
async def ann(served: Served) -> AsyncIterator[Visitor]:
    async with chromium() as browser, visiting(served, browser, quiet=False) as visitors:
        ann = await visitors.logged_in()
        await ann.page.clock.install()
        yield ann


async def shows(ann: Visitor, selector: str, text: str) -> bool:
    """Let a refresh be due; return whether the page has this by then."""
    async with ann.page.expect_request(lambda each: "hx-request" in each.headers):
        await ann.page.clock.fast_forward(5_000)
    place = ann.page.locator(selector).first
    return await place.is_visible() and text in await place.inner_text()


async def test_figures_change_under_a_row_in_focus_and_rows_move_when_nobody_points_at_one(
    live: ConsumerHarness, s: Any, ann: Visitor
) -> None:
    async with live.running(s.Orders, s.Spend):
        await ann.go("/")
        await eventually(lambda: shows(ann, ".answer", "1 thing"))
        await ann.page.keyboard.press("j")
        await ann.page.evaluate("document.activeElement.kept = true")
        await live.publish(OrderPlaced("bob", 5), "o2", 1)
        await live.publish(OrderNoted("bad"), "o2", 2)
        await eventually(lambda: shows(ann, ".answer", "2 waiting"))
        assert await ann.page.evaluate("document.activeElement.kept"), "it is the same row, still in focus"
        await live.pool.execute(INCIDENT)
        await eventually(lambda: shows(ann, TO_MEND, "1"))
        before = await moment(ann)
        await shows(ann, TO_MEND, "1")
        assert "1 thing" in await ann.said(), "nothing moves under whoever is there"
        assert await moment(ann) == before, "it is told of which moment they are"
        await ann.page.evaluate("document.activeElement.blur()")
        await eventually(lambda: shows(ann, ".answer", "2 things"))
        assert await moment(ann) > before
    assert ann.complaints == []


async def moment(ann: Visitor) -> str:
    """Return the moment that a page says its figures are of."""
    told = await ann.page.locator("#fresh time").get_attribute("datetime")
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("page", "field"), [("/waiting", "Aggregate"), ("/act/pause?consumer=Orders", "Reason")]
)
async def test_what_is_typed_and_its_moment_stay_while_the_frame_goes_on(
    live: ConsumerHarness, ann: Visitor, page: str, field: str
) -> None:
    await ann.go(page)
    await ann.write(field, "order/o1")
    before = await moment(ann)
    await live.pool.execute(INCIDENT)
    await eventually(lambda: shows(ann, TO_MEND, "1"))
    assert await ann.page.get_by_label(field).input_value() == "order/o1"
    assert await moment(ann) == before
    assert ann.complaints == []


async def test_a_filter_is_applied_by_a_key(ann: Visitor) -> None:
    await ann.go("/waiting")
    await ann.write("Aggregate", "order/o1")
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator("main")).to_contain_text("1 group waits for somebody")
    assert ann.complaints == []


async def test_with_the_database_killed_an_open_page_says_so_by_itself(gate: Gateway, ann: Visitor) -> None:
    await ann.go("/waiting")
    gate.refusing = True
    gate.cut()
    await eventually(lambda: shows(ann, "#servers", "PostgreSQL does not answer"))
    await expect(ann.page.locator("main")).to_contain_text("1 group waits for somebody")
    assert await ann.flaws() == []
    gate.refusing = False
    await eventually(lambda: is_gone(ann))


async def is_gone(ann: Visitor) -> bool:
    await shows(ann, "#fresh", "as of")
    return await ann.page.locator("#servers .banner").count() == 0


async def test_an_open_page_keeps_nobody_logged_in_and_says_when_the_login_ends(
    ann: Visitor, time: Clock
) -> None:
    await ann.go("/act/pause?consumer=Orders")
    await ann.write("Reason", "a long story")
    time.now += 1700
    assert not await shows(ann, "#over", "")
    time.now += 200
    await eventually(lambda: shows(ann, "#over", "Your login has ended"))
    assert await ann.page.get_by_label("Reason").input_value() == "a long story"
    assert await ann.flaws() == []


async def test_however_many_pages_are_open_they_are_read_once(served: Served, gate: Gateway) -> None:
    one = await served.logged_in()
    asks = {"hx-request": "true"}
    before, clock = gate.attempts, asyncio.get_running_loop().time
    began = clock()
    answers = await asyncio.gather(*(one.http.get("/waiting", headers=asks) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    seconds = clock() - began
    assert gate.attempts - before <= (1 + seconds) + (1 + seconds / 4), (
        "a snapshot a second, and a read every four"
    )


async def test_keys_move_open_and_find(ann: Visitor) -> None:
    await ann.go("/")
    await ann.page.keyboard.press("?")
    await expect(ann.page.locator("#keys")).to_be_visible()
    assert await ann.flaws() == []
    await ann.page.keyboard.press("?")
    await ann.page.keyboard.press("/")
    await expect(ann.page.get_by_role("searchbox")).to_be_focused()
    await ann.page.keyboard.press("j")
    await expect(ann.page.get_by_role("searchbox")).to_have_value("j")
    await ann.go("/")
    await ann.page.keyboard.press("g")
    await ann.page.keyboard.press("w")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("Waiting")
    await ann.page.keyboard.press("j")
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.get_by_role("heading", level=2).first).to_have_text("What to do")
    assert ann.complaints == []


async def test_a_login_that_ends_in_the_middle_of_an_act_does_nothing_and_loses_no_word(
    live: ConsumerHarness, served: Served, ann: Visitor, time: Clock
) -> None:
    await ann.go("/act/pause?consumer=Orders")
    await ann.write("Reason", "a long story")
    time.now += 1900
    await ann.press("Pause Orders")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("Log in")
    await expect(ann.page.locator("body")).to_contain_text("a long story")
    assert await ann.flaws() == []
    assert await inspection.count(live, "audit", who="ann") == 0

    other = await ann.page.context.new_page()
    await other.goto(f"{served.url}/login?link={served.access.new_link()}")
    await other.get_by_role("button", name="Log in").click()
    await other.get_by_role("heading", name="Overview").wait_for()
    await ann.follow("Go on to the page")
    await ann.write("Reason", "a long story")
    await ann.press("Pause Orders")
    await expect(ann.page.locator("main")).to_contain_text("paused by ann")
    assert await inspection.rows(live, "audit", "action", "reason", who="ann") == [("pause", "a long story")]
