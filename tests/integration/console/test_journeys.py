"""Journey: what became of an event is drawn and told, from its arrival to what providers have answered."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.chromium import chromium
from tests.support.console_client import Browser, Served, serving, text_of
from tests.support.console_shop import indexed
from tests.support.console_visitor import PHONE, visiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import answer, made, outbox, scripted
from tests.support.retention import age, purge
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.console.screens import journeys
from projectionist.outbox.providers import Outcome
from projectionist.runner import App
from projectionist.runner.admin import flow_history

pytestmark = pytest.mark.asyncio

CANARY = "canary-4711"
FLOW = {"ce-correlationid": "c-4"}
BARS = re.compile(r'<svg class="fall" role="img" aria-label="([^"]+)">')


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which a payment is applied by two consumers, and sends a mail, and a note cannot be digested."""
    found = shop(live.stream)
    await live.migrate(found.Orders, found.Spend)
    found.trouble.poison.add(CANARY)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="placed", headers=FLOW)
    await live.publish(OrderPaid(5), "o1", 2, id="paid", headers=FLOW | {"ce-causationid": "placed"})
    await live.publish(OrderNoted(CANARY), "o1", 3, id="noted", headers={"ce-correlationid": "c-5"})
    await live.settle(found.Orders, found.Spend)
    return found


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any) -> AsyncIterator[Served]:
    async with serving(App(projections=[s.Orders, s.Spend]), indexed(live.settings)) as made:
        yield made


async def send(live: ConsumerHarness, *outcomes: Outcome) -> None:
    """Let a relay send what is to be sent, and the provider answer like this, and then that it was done."""
    provider = scripted()
    provider.script["*"] = [answer(one, status="503", reason=CANARY) for one in outcomes]
    async with outbox(live.database) as intents, intents.relaying(made(provider, "email")):
        await inspection.reaches(1, inspection.count_intents, live, state="sent")


async def test_a_journey_is_drawn_from_arrival_to_replies_and_told_in_words(
    live: ConsumerHarness, ann: Browser
) -> None:
    await send(live, Outcome.RETRY)
    page = await ann.see("/journey?id=paid")
    said = text_of(page)
    assert "Nobody has to act. 2 consumers have settled it, 1 intent is sent" in said
    order = ("order.paid", "Orders", "Receipt", "attempt 1", "attempt 2", "Spend")
    assert re.search(".*".join(order), said.partition("What became of it")[2])
    assert len(BARS.findall(page)) == len(order)
    assert all(re.fullmatch(r"from [\d.]+ m?s, took [\d.]+ m?s", told) for told in BARS.findall(page))
    assert re.search(r"attempt 1 \S+ retry", said)
    assert CANARY not in page
    revealed = await ann.submit("/journey?id=paid", reason="ticket 7")
    assert f"503 {CANARY}" in text_of(revealed)


async def test_what_waits_for_somebody_is_said_first_and_leads_to_what_helps(
    live: ConsumerHarness, ann: Browser
) -> None:
    page = await ann.see("/journey?id=noted")
    assert "Somebody must act. Orders: parked." in text_of(page)
    assert "has not ended" in "".join(BARS.findall(page))
    href = page.partition(">What to do<")[0].rpartition('href="')[2].rstrip('"').replace("&amp;", "&")
    assert "Waits for new code or a decision" in text_of(await ann.see(href))
    assert CANARY not in page


async def test_an_event_of_which_an_intent_goes_on_says_so(ann: Browser) -> None:
    assert "It goes on by itself. Receipt: ready." in text_of(await ann.see("/journey?id=paid"))


async def test_a_waterfall_is_seen_on_a_desk_and_a_phone_and_without_a_script(
    live: ConsumerHarness, served: Served
) -> None:
    await send(live, Outcome.RETRY)
    async with chromium() as browser, visiting(served, browser) as visitors:
        for options in ({}, {"viewport": PHONE, "color_scheme": "dark"}, {"java_script_enabled": False}):
            ann = await visitors.logged_in(**options)
            await ann.go("/journey?id=paid")
            bars = ann.page.locator(".fall rect:not(.base)")
            boxes = [await bars.nth(place).bounding_box() for place in range(await bars.count())]
            widths = [box["width"] for box in boxes if box is not None]
            assert len(widths) == 6, options
            assert min(widths) >= 1, options
            if "java_script_enabled" not in options:
                assert await ann.flaws() == [], options


async def test_a_correlation_shows_its_events_consumers_and_intents_and_is_found_by_name(
    live: ConsumerHarness, ann: Browser
) -> None:
    await send(live)
    page = await ann.see("/search?q=c-4")
    said = text_of(page)
    assert "Correlation c-4" in said, "what two events have leads to their page"
    assert "Nobody has to act. 2 consumers have settled 2 events, 1 intent is sent" in said
    order = ("order.placed", "Orders", "Spend", "order.paid", "Orders", "Receipt", "email", "sent", "Spend")
    assert re.search(".*".join(map(re.escape, order)), said)
    assert "caused by placed" in said
    assert len(BARS.findall(page)) == 7
    assert "projectionist journey --correlation c-4" in said
    assert '/flow?correlation=c-4"' in await ann.see("/journey?id=paid")


async def test_a_flow_is_shown_as_far_as_a_page_goes_and_says_that_there_is_more(
    ann: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("ROWS", "LINES"):
        with monkeypatch.context() as patched:
            patched.setattr(journeys, limit, 1)
            said = text_of(await ann.see("/flow?correlation=c-4"))
        assert "These are 1 of 2 events. The command shows more" in said
        assert "caused by placed" not in said
    assert "These are" not in text_of(await ann.see("/flow?correlation=c-4"))


async def test_of_a_flow_with_very_many_events_a_part_is_read_and_the_page_says_so(
    ann: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_history, "READ_LEAST", 1)
    monkeypatch.setattr(flow_history, "READ_FOR_EACH", 0)
    said = text_of(await ann.see("/flow?correlation=c-4"))
    assert re.search(r"These are [12] of at least [12] events, of which not all were read", said)
    assert re.search("Orders.* Spend ", said), "of an event that is shown all consumers are"
    assert "Correlation c-4" in await ann.see("/search?q=c-4"), "what may be more than one event is a flow"


async def test_a_flow_says_that_retention_has_removed_what_it_does_not_list(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    assert "retention has removed old" not in text_of(await ann.see("/flow?correlation=c-4"))
    await age(live, 400)
    await purge(live, s.Spend, archive="table")
    said = text_of(await ann.see("/flow?correlation=c-4"))
    assert "Not all may be here: retention has removed old settled events of Spend from the inbox" in said


async def test_of_a_flow_that_waits_the_page_says_so_and_masks_why(ann: Browser) -> None:
    assert "Journey of noted" in await ann.see("/search?q=c-5"), "what one event alone has leads to it"
    page = await ann.see("/flow?correlation=c-5")
    assert "Somebody must act. Orders: parked." in text_of(page)
    assert "ValueError [" in page
    assert CANARY not in page


async def test_a_flow_that_is_unknown_or_not_indexed_says_what_to_do(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    assert "No event of this trace is on record" in text_of(await ann.see("/flow?trace=nothing"))
    assert "the address says no correlation" in text_of(await ann.see("/flow", 404))
    async with serving(App(projections=[s.Orders]), live.settings) as served:
        bob = await served.logged_in("bob")
        said = text_of(await bob.see("/flow?correlation=c-4", 404))
        assert "correlation ids are not indexed" in said
        assert "Set correlation_index = true in [postgres]" in said
