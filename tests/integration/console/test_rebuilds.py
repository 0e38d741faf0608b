"""A rebuild in a browser: its plan, how far it is, what differs, the swap, the way back; as by the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.console_client import FIELDS, Browser, Served, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, dying, shop_app
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.console.access.sessions import Role
from projectionist.runner import App
from projectionist.runner.rebuild import rebuild
from projectionist.runner.rebuild.times import RebuildTimes

pytestmark = pytest.mark.asyncio

PAGE = "/rebuild?consumer=Orders"


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop with two orders, one of them under a hostile name."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Mailer)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPlaced("bob", 9), '"><script>x', 1)
    await live.settle(made.Orders)
    return made


@pytest.fixture
def app(s: Any) -> App:
    return App(projections=[s.Orders, s.Mailer])


async def shows(browser: Browser, text: str) -> str:
    """Wait until the page of the generations says this, and return it."""

    async def said() -> str:
        page = await browser.see(PAGE)
        assert text in text_of(page), text_of(page)
        return page

    return await eventually(said)


async def acts(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    return await inspection.rows(live, "audit", "action", "object", "reason", who="ann", order="number")


async def test_a_read_model_is_rebuilt_rolled_back_and_what_is_kept_dropped(
    live: ConsumerHarness, ann: Browser
) -> None:
    listed = await ann.see("/rebuilds")
    assert "No build waits for a decision." in text_of(listed)
    assert "Mailer" not in text_of(listed), "it has no rows"
    asked = text_of(await ann.see("/act/rebuild?consumer=Orders"))
    assert "Generation 2 is made beside the live one, from 2 events." in asked
    assert "beside the live generation" in asked
    assert "projectionist rebuild shop.app:app Orders --reason …" in asked
    assert "has begun" in await ann.submit("/act/rebuild?consumer=Orders", reason="in doubt")
    await shows(ann, "Generation 2 is live. 2 events, 2 rows")

    assert "has begun" in await ann.submit(
        "/act/generation-rollback?consumer=Orders&generation=1", reason="it was better"
    )
    page = await shows(ann, "Generation 1 is live.")
    assert "generation-drop?consumer=Orders&amp;generation=2" in page
    dropped = await ann.submit("/act/generation-drop?consumer=Orders&generation=2", reason="no room")
    assert "Generation 2 is dropped." in dropped
    await ann.see("/act/generation-drop?consumer=Orders&generation=2", 404)
    assert await acts(live) == [
        ("rebuild", "Orders: a new generation", "in doubt"),
        ("rollback", "Orders: generation 1", "it was better"),
        ("drop-generation", "Orders: generation 2", "no room"),
    ]


async def test_what_differs_waits_for_who_may_decide_and_values_are_shown_on_record(
    live: ConsumerHarness, served: Served, ann: Browser
) -> None:
    await live.pool.execute("update projectionist.orders__g1 set cents = 4711 where order_id = 'o1'")
    await ann.submit("/act/rebuild?consumer=Orders", reason="in doubt")
    page = await shows(ann, "The build waits for a decision: 1 row differs.")
    assert "cents" in text_of(page)
    assert "4711" not in page
    assert "Orders: The build waits" in text_of(await ann.see("/rebuilds"))
    bob = await served.logged_in("bob", role=Role.OPERATE)
    assert "Swap and accept…" not in await bob.see(PAGE)
    assert (await bob.http.get("/act/rebuild-accept?consumer=Orders")).status_code == 403
    shown = await ann.submit(PAGE, reason="ticket 7")
    assert "<del>4711</del>" in shown
    assert "<ins>5</ins>" in shown

    asked = text_of(await ann.see("/act/rebuild-accept?consumer=Orders"))
    assert "1 row becomes what the events make of them" in asked
    assert "--accept-differences" in asked
    await ann.submit("/act/rebuild-accept?consumer=Orders", reason="edited by hand")
    await shows(ann, "Generation 2 is live.")
    assert "1 row differs from before." in text_of(await ann.see(PAGE))
    assert await live.pool.fetchval("select cents from orders where order_id = 'o1'") == 5
    assert [(action, reason) for action, _, reason in await acts(live)] == [
        ("rebuild", "in doubt"),
        ("reveal", "ticket 7"),
        ("rebuild", "edited by hand"),
    ]


async def test_a_swap_is_of_the_comparison_that_was_shown(
    rebuilds: RebuildHarness, live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    await live.pool.execute("update projectionist.orders__g1 set cents = 4711 where order_id = 'o1'")
    await ann.submit("/act/rebuild?consumer=Orders", reason="in doubt")
    await shows(ann, "The build waits for a decision: 1 row differs.")
    swap = dict(FIELDS.findall(await ann.see("/act/rebuild-accept?consumer=Orders")))
    abort = dict(FIELDS.findall(await ann.see("/act/rebuild-abort?consumer=Orders")))
    await rebuilds.give_up(s.Orders)
    assert "Nobody has to act." in text_of(await ann.see(PAGE)), "somebody has decided elsewhere"
    with dying("rebuild.prepared"):
        await rebuilds.rebuild(s.Orders)
    page = await shows(ann, "Nobody builds generation")
    assert "Swap and accept…" not in page, "nobody has compared this one"
    answer = await ann.send("/act/rebuild-accept?consumer=Orders", swap | {"reason": "as shown"})
    assert answer.status_code == 404
    answer = await ann.send("/act/rebuild-abort?consumer=Orders", abort | {"reason": "as shown"})
    assert answer.status_code == 409
    assert "another one than was shown" in text_of(answer.text)

    await ann.submit("/act/rebuild?consumer=Orders", reason="go on")
    await shows(ann, "The build waits for a decision: 1 row differs.")
    answer = await ann.send("/act/rebuild-accept?consumer=Orders", swap | {"reason": "as shown"})
    assert answer.status_code == 409, "it was compared again since"
    assert await rebuilds.generation(s.Orders) == 1


async def test_values_that_are_revealed_are_shown_to_nobody_else(
    live: ConsumerHarness, served: Served, ann: Browser
) -> None:
    await live.pool.execute("update projectionist.orders__g1 set cents = 4711 where order_id = 'o1'")
    await ann.submit("/act/rebuild?consumer=Orders", reason="in doubt")
    await shows(ann, "The build waits for a decision: 1 row differs.")
    asks = {"hx-request": "true"}
    shown = await ann.send(PAGE, {"token": await ann.token(), "reason": "ticket 7"}, **asks)
    assert "<del>4711</del>" in shown.text
    bob = await served.logged_in("bob")
    assert "4711" not in (await bob.http.get(PAGE, headers=asks)).text


async def test_of_two_who_rebuild_at_once_one_is_told_that_the_other_does(
    live: ConsumerHarness, served: Served, ann: Browser
) -> None:
    bob = await served.logged_in("bob")
    forms = [dict(FIELDS.findall(await one.see("/act/rebuild?consumer=Orders"))) for one in (ann, bob)]
    answers = await asyncio.gather(
        *(
            one.send("/act/rebuild?consumer=Orders", form | {"reason": "in doubt"})
            for one, form in zip((ann, bob), forms, strict=True)
        )
    )
    assert sorted(answer.status_code for answer in answers) in ([200, 404], [200, 409])
    await shows(ann, "Generation 2 is live.")
    assert await inspection.count(live, "audit", action="rebuild") == 1


async def test_a_build_that_its_process_has_left_is_gone_on_with_or_given_up(
    rebuilds: RebuildHarness, live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    with dying("rebuild.prepared"):
        await rebuilds.rebuild(s.Orders)
    page = await shows(ann, "Nobody builds generation 2")
    assert "Go on…" in page
    assert "Rebuild…" not in page
    await ann.see("/act/rebuild-stop?consumer=Orders", 404)
    asked = text_of(await ann.see("/act/rebuild?consumer=Orders"))
    assert "It goes on with what is open: generation 2, bulk" in asked
    assert "Generation 2 is given up." in await ann.submit(
        "/act/rebuild-abort?consumer=Orders", reason="not now"
    )
    assert "No build is open." in text_of(await ann.see(PAGE))
    await ann.see("/act/rebuild-abort?consumer=Orders", 404)
    assert await acts(live) == [("abort-rebuild", "Orders: generation 2", "not now")]


async def test_a_build_that_goes_on_elsewhere_is_seen_and_left_alone(
    rebuilds: RebuildHarness, s: Any, ann: Browser
) -> None:
    async with rebuilds.frozen(s.Orders, "rebuild.prepared") as building:
        page = await shows(ann, "Generation 2 is being built.")
        assert "Give up…" not in page
        assert "is building generation 2" in text_of(await ann.see("/act/rebuild-abort?consumer=Orders", 404))
    assert (await building).views[0].generation == 2


async def test_what_has_no_generations_says_so(ann: Browser) -> None:
    assert "it has no rows" in text_of(await ann.see("/rebuild?consumer=Mailer", 409))
    assert "no consumer '<b>'" in text_of(await ann.see("/rebuild?consumer=%3Cb%3E", 404))
    await ann.see("/act/rebuild-accept?consumer=Orders", 404)


async def test_the_list_of_the_command_tells_of_a_build_that_is_open(
    rebuilds: RebuildHarness, s: Any, tmp_path: Path
) -> None:
    with dying("rebuild.prepared"):
        await rebuilds.rebuild(s.Orders)
    words = ("generations", "list", "orders:app", "Orders")
    listed = await run_projectionist(*words, cwd=tmp_path, **shop_app(tmp_path, rebuilds.harness))
    assert "open: rebuild of generation 2, bulk: nobody builds it: rebuild goes on" in listed.out


async def test_how_fast_a_build_goes_is_drawn_over_time_and_kept_so_far(
    rebuilds: RebuildHarness,
    live: ConsumerHarness,
    s: Any,
    ann: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebuild, "RATES", 3)
    often = RebuildTimes(renewed_s=0.02, measured_s=0)
    async with rebuilds.reading(s.Orders, times=often) as building:
        await inspection.reaches([0.0] * 3, inspection.value, live, "build_progress", "rates")
        assert 'aria-label="a second, from 0 to 0, at last 0"' in await ann.see(PAGE)
    await building
    assert "a second, from" not in await ann.see(PAGE)
