"""A row as it is and was, recomputed; a consumer started as new; a message of quarantine corrected."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import Browser, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.console.screens import rows
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

ROW = "/row?consumer=Orders&key=o1"
NOTE = "canary-17"


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop with one order of three versions, and a message that cannot be read."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderNoted(NOTE), "o1", 2)
    await live.publish(OrderPaid(), "o1", 3)
    await live.publish(OrderPlaced("bob", 9), "o2", 0, id="odd", headers={"ce-aggregateversion": "none"})
    async with live.running(made.Orders, made.Spend):
        await live.settled(made.Orders)
        await live.settled(made.Spend)
    return made


@pytest.fixture
def app(s: Any) -> App:
    return App(projections=[s.Orders, s.Spend])


async def acts(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    return await inspection.rows(live, "audit", "action", "object", "reason", who="ann", order="number")


async def test_a_row_is_told_now_and_at_a_version_and_its_values_on_record_alone(
    live: ConsumerHarness, ann: Browser
) -> None:
    assert "/row?consumer=Orders&amp;key=o1" in await ann.see("/aggregate?name=order%2Fo1")
    page = await ann.see(f"{ROW}&at=1")
    said = text_of(page)
    assert "The live row is what its events make. 3 events." in said
    assert "order/o1 v3 order.paid status , history" in said
    assert "<ins>***</ins>" in page, "which columns differ is no content"
    assert NOTE not in page
    assert "projectionist row shop.app:app Orders o1 --at 1 --history" in said
    shown = await ann.submit(f"{ROW}&at=1", reason="ticket 7")
    assert "<del>placed</del>" in shown
    assert "<ins>paid</ins>" in shown
    assert NOTE in shown
    assert await acts(live) == [("reveal", "Orders: row o1", "ticket 7")]


async def test_a_row_that_cannot_be_told_says_why(ann: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no such row" in text_of(await ann.see("/row?consumer=Orders&key=%3Cb%3E"))
    assert "up to version 3, not 9" in text_of(await ann.see(f"{ROW}&at=9", 409))
    assert "not an RFC 3339 time" in text_of(await ann.see(f"{ROW}&at=yesterday", 409))
    assert "Which row" in await ann.see("/row?consumer=Orders")
    monkeypatch.setattr(rows, "MOST_READ", 1)
    assert "longer than a page may" in text_of(await ann.see(ROW, 409))


async def test_a_row_is_recomputed_where_a_page_can_wait_for_it(live: ConsumerHarness, ann: Browser) -> None:
    await live.pool.execute("update projectionist.orders__g1 set cents = 4711")
    assert "The live row is another one" in text_of(await ann.see(ROW))
    told = text_of(await ann.submit("/act/recompute?consumer=Orders&key=o1", reason="edited by hand"))
    assert "The live row is what its events make." in told
    assert await live.pool.fetchval("select cents from orders") == 5
    again = await ann.submit("/act/recompute?consumer=Orders&key=o1", reason="once more")
    assert "3 events make it what it was." in again
    refused = text_of(await ann.see("/act/recompute?consumer=Spend&key=ann", 404))
    assert "projectionist recompute shop.app:app Spend ann --reason …" in refused
    assert [action for action, *_ in await acts(live)] == ["recompute"] * 2


async def test_a_consumer_shows_its_code_and_starts_as_new(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    said = text_of(await ann.see("/consumer?name=Orders"))
    assert "rows made by the code that runs" in said
    assert "Start as new…" in said
    asked = text_of(await ann.see("/act/reset?consumer=Orders"))
    assert 'orders__g1", 1 positions' in asked
    assert "projectionist reset Orders --reason …" in asked
    await ann.submit("/act/reset?consumer=Orders", reason="rows were edited")
    assert await live.pool.fetchval("select count(*) from orders") == 0
    assert await acts(live) == [("reset", "Orders: Orders", "rows were edited")]
    async with live.running(s.Orders):
        await live.settled(s.Orders)
    assert await live.pool.fetchval("select cents from orders") == 5


async def test_a_message_of_quarantine_is_corrected_and_read_again(
    live: ConsumerHarness, cli: Cli, s: Any, ann: Browser
) -> None:
    entries = (await cli.seen("quarantine", "list", "--each", "--consumer", "Orders"))["entries"]
    path = f"/act/quarantine-edit?consumer=Orders&incarnation={entries[0]['incarnation']}&seq={entries[0]['seq']}"
    assert "Correct…" in await ann.see(path.replace("/act/quarantine-edit", "/quarantine/entry"))
    refused = await ann.submit(path, 409, headers="ce-id", reason="ticket 7")
    assert "is not NAME=VALUE" in text_of(refused)
    assert ">ce-id</textarea>" in refused, "what was typed is kept"
    assert "Correct: 1 done." in await ann.submit(path, headers="ce-aggregateversion=1", reason="ticket 7")
    async with live.running(s.Orders):
        await inspection.reaches(9, live.pool.fetchval, "select cents from orders where order_id = 'o2'")
    assert await acts(live) == [
        ("edit", f"Orders: sequence {entries[0]['seq']} of incarnation 1", "ticket 7")
    ]
