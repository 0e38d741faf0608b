"""What waits is seen, retried, stepped over and revealed in a browser, and the audit says the same as of commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import Browser, Served, serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.console.access.sessions import Role
from projectionist.console.background_work import BackgroundWorks
from projectionist.console.console_database import ConsoleDatabase
from projectionist.console.screens.acting import VERBS
from projectionist.core.digest import digest
from projectionist.core.operator import Act
from projectionist.ops.cli.database import database
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

ERROR = digest("ValueError: cannot digest bad …")
GROUP = f"consumer=Orders&cause=failed&type=order.noted&error={ERROR}"
INTENTS = """
    insert into projectionist.intents
        (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash)
    select key, 1, 'shop', 'e1', 's', 'Receipt', 'email', 'd', 'pass', 'secret text', ''
    from unnest('{one,two,three}'::text[]) key;
    insert into projectionist.outbox (seq, provider, destination, lane, place, state, error)
    select seq, provider, destination, key, seq, 'dead', '550 unknown' from projectionist.intents"""


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which two orders have failed at version 2, one of them with a follower, and one lacks version 2."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    made.trouble.poison.update({"bad 1", "bad 2"})
    for n in (1, 2):
        await live.publish(OrderPlaced("ann", n), f"o{n}", 1, id=f"placed-{n}")
        await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 2, id=f"bad-{n}")
    await live.publish(OrderPaid(), "o1", 3, id="paid-1")
    await live.publish(OrderPlaced("bob", 9), "o4", 1, id="placed-4")
    await live.publish(OrderPaid(), "o4", 3, id="paid-4")
    await live.publish(OrderNoted("odd"), "o5", 1, headers={"ce-aggregateversion": "none"})
    async with live.running(made.Orders):
        await live.settled(made.Orders)
        await inspection.reaches("lost", inspection.value, live, "positions", "finding", aggregate="order/o4")
    return made


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any) -> AsyncIterator[Served]:
    async with serving(App(projections=[s.Orders]), live.settings) as made:
        yield made


async def acts(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    return await inspection.rows(live, "audit", "action", "reason", who="ann", order="number")


async def test_a_poison_is_seen_retried_when_mended_and_drained(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    said = text_of(await ann.see("/waiting"))
    assert "2 groups wait for somebody: 3 events." in said
    assert f"[{ERROR}]" in said
    assert "cannot digest" not in said
    group = await ann.see(f"/waiting/group?{GROUP}")
    assert "2 of 2 events wait for somebody." in text_of(group)
    asked = text_of(await ann.see(f"/act/parked-retry?{GROUP}"))
    assert "Retry 2 events" in asked
    assert f"--error {ERROR} --all --reason …" in asked

    async with live.running(s.Orders):
        page = await ann.submit(f"/act/parked-retry?{GROUP}", how="one", reason="is it mended?")
        assert "1 left." in page
        await inspection.reaches(2, inspection.value, live, "parked", "attempts", id="bad-1")
        s.trouble.poison.clear()
        page = text_of(await ann.submit(f"/act/parked-retry?{GROUP}", how="samples", reason="mended"))
        assert "1 parked retry of 2" in page
        await inspection.reaches(0, inspection.count_parked, live, cause="failed")
        await live.settled(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert [act for act in await acts(live) if act[0] == "retry"] == [
        ("retry", "is it mended?"),
        ("retry", "mended"),
        ("retry", "mended"),
    ]
    gone = await ann.see(f"/act/parked-retry?{GROUP}", 404)
    assert "nothing that is like this waits any more" in gone


async def test_events_are_edited_skipped_and_discarded_and_a_gap_is_accepted(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    one = "consumer=Orders&source=shop&id=bad-1"
    refused = await ann.submit(f"/act/parked-edit?{one}", 409, data="{no json", reason="ticket 7")
    assert "is not JSON" in text_of(refused)
    assert "{no json" in refused, "what was typed is kept"
    assert "Edit: 1 done." in await ann.submit(
        f"/act/parked-edit?{one}", data='{"text":"well"}', reason="ticket 7"
    )
    assert "Skip: 1 done." in await ann.submit(
        "/act/parked-skip?consumer=Orders&source=shop&id=bad-2", reason="a test order"
    )
    aggregate = await ann.see("/aggregate?name=order%2Fo4")
    assert "Accept the gap…" in aggregate
    gap = "/act/parked-accept-gap?consumer=Orders&aggregate=order%2Fo4"
    assert "--versions 2..2" in text_of(await ann.see(gap))
    assert "Accept gap: 1 done." in await ann.submit(gap, reason="never published")
    async with live.running(s.Orders):
        await inspection.reaches(0, inspection.count_parked, live)
    assert [action for action, _ in await acts(live)] == ["edit", "skip", "accept-gap"]
    await ann.see("/act/parked-skip", 404)


async def test_an_act_touches_no_more_than_were_shown_and_says_where_it_found_fewer(
    live: ConsumerHarness, s: Any, ann: Browser
) -> None:
    given = {"consumer": "Orders", "cause": "failed", "seen": "1"}
    async with database("test", live.settings) as opened:
        db = ConsoleDatabase(opened.settings, opened.connection, App(), "app", BackgroundWorks())
        done = await VERBS["parked-retry"].do(db, given, Act("ann", "one has come since"))
    assert done.text == "Retry: 1 done."
    fields = {"token": await ann.token(), "seen": "9", "reason": "all of them"}
    page = await ann.send(f"/act/parked-skip?{GROUP}", fields)
    assert "Skip: 1 done. 9 were shown: the others went on meanwhile." in page.text


async def test_more_than_were_shown_are_not_touched(live: ConsumerHarness, s: Any, ann: Browser) -> None:
    page = await ann.send(
        f"/act/parked-skip?{GROUP}", {"token": await ann.token(), "seen": "1", "reason": "both?"}
    )
    assert page.status_code == 409
    assert "It would touch 2 now, more than were shown. Nothing was done." in text_of(page.text)
    assert await acts(live) == []


async def test_content_is_masked_until_it_is_revealed_with_a_reason_on_record(
    live: ConsumerHarness, served: Served, ann: Browser
) -> None:
    live.tampered = True
    await live.pool.execute(INTENTS)
    event = "/waiting/event?consumer=Orders&source=shop&id=bad-1"
    for path, secret in (
        (event, "cannot digest bad 1"),
        ("/journey?id=bad-1", "cannot digest"),
        ("/quarantine/entry?consumer=Orders&seq=8", '{"text":"odd"}'),
        ("/outbox/intent?key=one", "secret text"),
    ):
        assert secret not in text_of(await ann.see(path)), path
        await ann.submit(path, 404, reason=" ")
        assert secret in text_of(await ann.submit(path, reason="ticket 7")), path
    assert await acts(live) == [("reveal", "ticket 7")] * 4
    bob = await served.logged_in("bob", role=Role.VIEW)
    assert "Reveal" not in await bob.see(event)


async def test_quarantine_is_read_again_and_discarded(live: ConsumerHarness, cli: Cli, ann: Browser) -> None:
    assert "1 message waits for somebody." in text_of(await ann.see("/quarantine"))
    [entry] = (await cli.seen("quarantine", "list", "--each"))["entries"]
    one = f"consumer=Orders&incarnation={entry['incarnation']}&seq={entry['seq']}"
    assert "Read again: 1 done." in await ann.submit("/act/quarantine-retry?cause=version", reason="mapped")
    asked = text_of(await ann.see(f"/act/quarantine-discard?{one}"))
    assert f"projectionist quarantine discard {entry['seq']} --consumer Orders" in asked
    assert "Discard: 1 done." in await ann.submit(f"/act/quarantine-discard?{one}", reason="no event")
    assert "Nothing is in quarantine." in text_of(await ann.see("/quarantine"))
    assert [reason for _, reason in await acts(live)] == ["mapped", "no event"]


async def test_intents_are_retried_resolved_and_discarded(live: ConsumerHarness, ann: Browser) -> None:
    live.tampered = True
    await live.pool.execute(INTENTS)
    page = text_of(await ann.see("/outbox"))
    assert "Wait for somebody 3 dead email" in page
    assert "3 intents" in text_of(await ann.see("/outbox/group?state=dead&provider=email"))
    assert "say which of the two" in await ann.submit("/act/outbox-resolve?key=one", 409, reason="seen")
    sent = await ann.submit("/act/outbox-resolve?key=one", sent="yes", provider_id="m-1", reason="seen")
    assert "Resolve: 1 done." in sent
    assert "Discard: 1 done." in await ann.submit("/act/outbox-discard?key=two", reason="customer left")
    group = "/act/outbox-retry?state=dead&provider=email"
    assert "Retry: 1 done." in await ann.submit(group, reason="quota raised")
    assert "two is discarded" in await ann.submit("/act/outbox-retry?key=two", reason="again")
    assert [action for action, _ in await acts(live)][:3] == ["resolve-sent", "discard", "retry"]
    await ann.see("/outbox/intent?key=nothing", 404)
    await ann.see("/act/outbox-retry?state=nothing", 404)


async def test_a_search_leads_to_an_event_an_aggregate_or_an_intent(
    live: ConsumerHarness, ann: Browser
) -> None:
    live.tampered = True
    await live.pool.execute(INTENTS)
    assert "received" in text_of(await ann.see("/search?q=placed-1"))
    assert "version 1" in text_of(await ann.see("/search?q=order%2Fo1"))
    assert "Nothing has this name" in await ann.see("/search?q=%3Cb%3E")
    assert "Find an event" in await ann.see("/search")
