"""A preview in a browser: what the code of the console would change, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import inspection
from tests.support.console_client import Browser, serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, OrderRow, shop
from tests.support.waiting import eventually

from projectionist.console import background_work
from projectionist.console.access.sessions import Role
from projectionist.projections import on
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

PAGE, ACT = "/preview?consumer=Orders", "/act/preview?consumer=Orders"
NOTE = "canary-17"


async def shows(browser: Browser, text: str) -> str:
    """Wait until the page of the preview says this."""

    async def said() -> str:
        page = await browser.see(PAGE)
        assert text in text_of(page), text_of(page)
        return page

    return await eventually(said)


async def test_new_code_is_previewed_beside_live_and_shows_no_values(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Mailer)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPlaced("bob", 7), "o2", 1)
    await live.publish(OrderNoted(NOTE), "o2", 2)
    await live.settle(s.Orders)

    class Orders(OrderRow, table="orders", key="order_id", **policy(live)):
        """Counts in tenths, and stumbles over notes."""

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.status, self.cents = "placed", event.cents * 10
            self.history.append("placed")

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            raise ValueError(event.text)

    async with serving(App(projections=[Orders, s.Mailer]), live.settings, name="new:app") as served:
        ann = await served.logged_in("ann")
        listed = text_of(await ann.see("/preview"))
        assert "No preview was made by this console yet." in listed
        assert "Mailer" not in listed
        asked = text_of(await ann.see(ACT))
        assert "Nothing is written" in asked
        assert "projectionist preview new:app Orders --sample …" in asked
        for sample, why in (
            ("0", "between 1 and 1,000"),
            ("1001", "between 1 and 1,000"),
            ("many", "no number"),
        ):
            assert why in text_of(await ann.submit(ACT, 409, sample=sample, reason="to see"))
        await ann.submit(ACT, sample="50", reason="before the release")
        page = await shows(ann, "Look before you deploy: this code fails on 1 event that live has applied.")
        said = text_of(page)
        assert "By column Column Differ cents 1" in said
        assert "o1 cents" in said
        assert NOTE not in page
        assert "<del>" not in page
        shown = await ann.submit(PAGE, reason="ticket 7")
        assert "<del>5</del>" in shown
        assert "By this code" in text_of(shown)
        assert NOTE not in shown
        bob = await served.logged_in("bob", role=Role.VIEW)
        assert "<del>" not in await bob.see(PAGE)
        assert (await bob.send(PAGE, {"token": await bob.token(), "reason": "to see"})).status_code == 403
        await ann.submit(ACT, sample="50", aggregate="order/o1", reason="this one")
        await shows(ann, "1 row of 1 would differ.")
    assert await live.pool.fetchval("select array_agg(cents order by order_id) from orders") == [5, 7]
    assert await inspection.rows(live, "audit", "action", "object", "reason", who="ann", order="number") == [
        ("preview", "Orders: 50 rows", "before the release"),
        ("reveal", "Orders: preview", "ticket 7"),
        ("preview", "Orders: order/o1", "this one"),
    ]


async def test_a_preview_that_is_refused_leaves_no_record(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    monkeypatch.setattr(background_work, "MOST", 0)
    async with serving(App(projections=[s.Orders]), live.settings) as served:
        ann = await served.logged_in("ann")
        assert "go on already" in text_of(await ann.submit(ACT, 409, sample="50", reason="to see"))
    assert await inspection.count(live, "audit", who="ann") == 0


async def test_without_projections_the_page_says_what_to_do(live: ConsumerHarness) -> None:
    async with serving(App(), live.settings) as served:
        ann = await served.logged_in()
        assert "events check --fold" in await ann.see("/preview")
        await ann.see(PAGE, 404)


def policy(live: ConsumerHarness) -> dict[str, Any]:
    """As the shop's."""
    return {
        "stream": live.stream.name,
        "subjects": live.stream.subject("order", "{aggregate}"),
        "effects": "beginning",
    }
