"""A set of views in a browser without scripts: all, several or one are rebuilt, go back, join, and are given up."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from tests.integration.batch.test_view_sets import tables
from tests.support import inspection
from tests.support.console_client import Browser, Served, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.view_sets import Happened, Paid, Placed, folded, view_set
from tests.support.waiting import eventually

from projectionist.console.access.sessions import Role
from projectionist.core.operator import Act
from projectionist.runner import App
from projectionist.runner.admin.set_views import attach, detach

pytestmark = pytest.mark.asyncio

SET, LINES = "/rebuild?consumer=Shop", "/rebuild?consumer=Shop.Lines"
TWO = "/act/rebuild?consumer=Shop&view.Lines=yes&view.Spend=yes"
EVENTS: list[Happened] = [
    ("o1", 1, Placed("ann", (5, 7))),
    ("o2", 1, Placed("bob", (1,))),
    ("o2", 2, Paid(4)),
]


@pytest_asyncio.fixture
async def shop(live: ConsumerHarness) -> Any:
    made = view_set(live.stream)
    await live.migrate(made.Shop)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in EVENTS)
    await live.settle(made.Shop)
    return made


@pytest.fixture
def app(shop: Any) -> App:
    return App(projections=[shop.Shop])


async def shows(browser: Browser, path: str, text: str) -> str:
    """Wait until a page says this, and return it."""

    async def said() -> str:
        page = await browser.see(path)
        assert text in text_of(page), text_of(page)
        return page

    return await eventually(said)


async def generations(live: ConsumerHarness) -> dict[str, int]:
    """The live generation of each view with rows."""
    found = await inspection.rows(live, "views", "name", "generation")
    return {name: number for name, number in found if name != "Receipts"}


async def test_a_set_several_of_its_views_and_one_are_rebuilt_and_one_goes_back(
    live: ConsumerHarness, ann: Browser
) -> None:
    listed = text_of(await ann.see("/rebuilds"))
    assert ("Shop" in listed, "Lines" in listed) == (True, False), "a set is one line"
    page = await ann.see(SET)
    assert '<form method="get" action="/act/rebuild">' in page
    assert [f'name="view.{name}"' in page for name in ("Summary", "Lines", "Spend", "Receipts")] == [
        *(True, True, True, False)
    ]

    asked = text_of(await ann.see("/act/rebuild?consumer=Shop"))
    assert "Generation 2 of Summary, generation 2 of Lines and generation 2 of Spend are made" in asked
    assert "from 3 events" in asked
    assert "projectionist rebuild shop.app:app Shop --reason …" in asked
    assert "has begun" in await ann.submit("/act/rebuild?consumer=Shop", reason="in doubt")
    await shows(ann, SET, "and generation 2 of Spend are live.")

    asked = text_of(await ann.see(TWO))
    assert "Generation 3 of Lines and generation 3 of Spend are made" in asked
    assert "projectionist rebuild shop.app:app Shop.Lines Shop.Spend --reason …" in asked
    await ann.submit(TWO, reason="these alone")
    await shows(ann, SET, "Generation 3 of Lines and generation 3 of Spend are live.")
    assert await generations(live) == {"Summary": 2, "Lines": 3, "Spend": 3}

    page = await ann.see(LINES)
    assert "/act/rebuild?consumer=Shop.Lines" in page
    assert "projectionist generations list shop.app:app Shop.Lines" in text_of(page)
    await ann.submit("/act/rebuild?consumer=Shop.Lines", reason="one")
    await shows(ann, LINES, "Generation 4 of Lines is live.")

    back = "/act/generation-rollback?consumer=Shop.Lines&generation=3"
    asked = text_of(await ann.see(back))
    assert "projectionist generations rollback shop.app:app Shop.Lines 3 --reason …" in asked
    await ann.submit(back, reason="it was better")
    await shows(ann, LINES, "Generation 3 of Lines is live.")
    drop = "/act/generation-drop?consumer=Shop.Lines&generation=4"
    assert "Generation 4 is dropped." in await ann.submit(drop, reason="no room")
    assert await generations(live) == {"Summary": 2, "Lines": 3, "Spend": 3}
    assert await tables(live) == folded(EVENTS)
    reasons = await inspection.rows(live, "audit", "action", "reason", who="ann", order="number")
    assert reasons == [
        ("rebuild", "in doubt"),
        ("rebuild", "these alone"),
        ("rebuild", "one"),
        ("rollback", "it was better"),
        ("drop-generation", "no room"),
    ]


async def test_what_differs_in_one_view_waits_and_is_swapped_in_with_all_that_were_built(
    live: ConsumerHarness, served: Served, ann: Browser
) -> None:
    await live.pool.execute(
        "update projectionist.lines__g1 set cents = 4711 where order_id = 'o1' and line = 0"
    )
    await ann.submit(TWO, reason="in doubt")
    page = await shows(ann, SET, "The build waits for a decision: 1 row differs.")
    assert ("cents" in text_of(page), "4711" in page) == (True, False)
    assert 'name="view.Lines"' not in page, "a set has one build at a time"
    bob = await served.logged_in("bob", role=Role.OPERATE)
    assert "Swap and accept…" not in await bob.see(SET)
    assert (await bob.http.get("/act/rebuild-accept?consumer=Shop")).status_code == 403

    asked = text_of(await ann.see("/act/rebuild-accept?consumer=Shop"))
    assert "generation 2 of Lines and generation 2 of Spend are live" in asked
    command = "projectionist rebuild shop.app:app Shop.Lines Shop.Spend --accept-differences --reason …"
    assert command in asked
    await ann.submit("/act/rebuild-accept?consumer=Shop", reason="edited by hand")
    await shows(ann, SET, "Generation 2 of Lines and generation 2 of Spend are live.")
    assert await generations(live) == {"Summary": 1, "Lines": 2, "Spend": 2}
    assert await tables(live) == folded(EVENTS)


async def test_a_build_of_some_views_is_gone_on_with_as_it_is_or_given_up(
    rebuilds: RebuildHarness, live: ConsumerHarness, shop: Any, ann: Browser
) -> None:
    with dying("rebuild.prepared"):
        await rebuilds.rebuild(shop.Shop, shop.Lines)
    for path in (SET, LINES):
        page = await shows(ann, path, "Nobody builds generation 2 of Lines")
        assert ("Go on…" in page, "Give up…" in page, "Bulk" in page) == (True, True, True)
    asked = text_of(await ann.see("/act/rebuild?consumer=Shop"))
    assert "Rebuild Shop.Lines" in asked, "what is open, and not the whole set"
    refused = await ann.http.get("/act/rebuild?consumer=Shop.Spend")
    assert (refused.status_code, "Lines" in text_of(refused.text)) == (409, True)
    await ann.submit("/act/rebuild?consumer=Shop", reason="go on")
    await shows(ann, SET, "Generation 2 of Lines is live.")

    with dying("rebuild.prepared"):
        await rebuilds.rebuild(shop.Shop, shop.Spend, shop.Summary)
    told = await ann.submit("/act/rebuild-abort?consumer=Shop", reason="not now")
    assert "Generation 2 of Summary and generation 2 of Spend are given up." in told
    assert await generations(live) == {"Summary": 1, "Lines": 2, "Spend": 1}


async def test_a_view_that_was_attached_joins_by_its_box(
    live: ConsumerHarness, shop: Any, ann: Browser, served: Served
) -> None:
    act = Act("eve", "ticket 7")
    async with live.connected() as connection:
        await detach(connection, "projectionist", "Lines", act)
        assert "projectionist views attach Shop.Lines" in text_of(await ann.see(SET))
        refused = await ann.http.get("/act/rebuild?consumer=Shop&view.Lines=yes")
        assert (refused.status_code, "is detached" in text_of(refused.text)) == (409, True)
        await attach(connection, "projectionist", "Lines", act)
    eve = await served.logged_in("eve", role=Role.VIEW)
    assert 'type="checkbox"' not in await eve.see(SET), "who looks on rebuilds nothing"
    assert (await eve.http.get(TWO)).status_code == 403
    assert 'name="view.Lines"' in await ann.see(SET)
    joining = "/act/rebuild?consumer=Shop&view.Lines=yes"
    assert "Lines joins: batches write it from then on." in text_of(await ann.see(joining))
    await ann.submit(joining, reason="mended")
    await shows(ann, SET, "Generation 2 of Lines is live.")
    assert await inspection.value(live, "views", "state", name="Lines") == "live"


async def test_a_set_without_the_view_of_an_address_says_so(ann: Browser) -> None:
    assert "no consumer 'Shop.Nothing'" in text_of(await ann.see("/rebuild?consumer=Shop.Nothing", 404))
    assert "it has no rows" in text_of(await ann.see("/rebuild?consumer=Shop.Receipts", 409))
    await ann.see("/act/generation-rollback?consumer=Shop&generation=1", 404)
    await ann.see("/act/rebuild-accept?consumer=Shop", 404)
    await ann.see("/act/rebuild-stop?consumer=Shop", 404)
