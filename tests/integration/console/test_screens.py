"""What the pages show, on real servers: what waits, why, and what was done about it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import Browser, Served, serving, text_of
from tests.support.console_shop import CANARY, FRAMES, HOSTILE, READ, indexed, troubled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPlaced

from projectionist.console.application import ADDRESSES
from projectionist.runner import App

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    return await troubled(live)


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any) -> AsyncIterator[Served]:
    async with serving(App(projections=[s.Orders, s.Spend]), indexed(live.settings)) as made:
        yield made


MANY = """
    insert into projectionist.intents
        (key, consumer, source, id, slot, class, provider, destination, ordering, on_dead, body, hash)
    select 'sms' || n, 1, 'shop', 'e' || n, 's', 'Text', 'sms', 'd', 'lane' || n / 3, 'block', '', ''
    from generate_series(0, 239) n;
    insert into projectionist.outbox (seq, provider, destination, lane, place, state, error)
    select seq, provider, destination, ordering, seq, case place when 0 then 'dead' else 'ready' end,
        'no number ' || case place when 0 then key else ordering end
    from projectionist.intents cross join lateral (select substr(key, 4)::integer % 3 as place) at
    where provider = 'sms'"""
"""Of eighty lanes each has a dead head of its own error, and two behind it of one."""


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag == "script":
            self.scripts.append(dict(attrs).get("src") or "")
        self.attributes |= {name for name, _ in attrs}


async def test_each_page_is_there_and_holds_no_script_no_style_and_no_content(ann: Browser) -> None:
    assert {one.path for one in ADDRESSES if one.method == "GET" and "{" not in one.path} == {
        path.partition("?")[0] for path in (*READ, *FRAMES)
    }
    for path in (*READ, *FRAMES):
        page, tags = await ann.see(path), Tags()
        tags.feed(page)
        assert not {"style", "img", "iframe", "object", "base"} & tags.names, path
        assert all(told.startswith("/static/") for told in tags.scripts), path
        assert not {name for name in tags.attributes if name.startswith("on") or name == "style"}, path
        assert CANARY not in page, path
        assert "<script>" not in page, path


async def test_the_overview_says_whether_somebody_must_act(ann: Browser) -> None:
    said = text_of(await ann.see("/"))
    assert "Somebody must act" in said
    assert "1 waiting for new code or a person" in said
    assert "no process runs it" in said
    assert "1 incident open" in said
    assert "Orders" in said


async def test_a_consumer_shows_where_it_stands_and_one_that_is_none_says_so(ann: Browser) -> None:
    said = text_of(await ann.see("/consumer?name=Orders"))
    assert "waiting 1 for new code or for you" in said
    assert "order.placed" in said
    assert "Pause…" in said
    said = text_of(await ann.see("/consumer?name=%3Cb%3E", 404))
    assert "there is no consumer '<b>'" in said


async def test_a_lane_that_stands_is_shown_with_its_head_and_how_many_it_keeps(ann: Browser) -> None:
    said = text_of(await ann.see("/outbox")).partition("Lanes that stand")[2].partition("Providers")[0]
    assert f"1 {HOSTILE} email dead" in said
    assert "once decided" in said


async def test_of_very_many_groups_and_lanes_the_largest_are_shown_and_how_many_there_are(
    live: ConsumerHarness, ann: Browser
) -> None:
    await live.pool.execute(MANY)
    said = text_of(await ann.see("/outbox?provider=sms"))
    assert "100 of 160 groups, the largest first" in said
    assert "50 or more, the longest first" in said
    assert said.count(" dead ") >= 50, "what waits for somebody is not crowded out"
    assert "projectionist outbox lanes --provider sms" in said


async def test_an_incident_is_closed_with_a_reason_as_by_the_command_line(
    live: ConsumerHarness, cli: Cli, ann: Browser
) -> None:
    assert f"stepped over: {HOSTILE}" in text_of(await ann.see("/incidents"))
    asked = await ann.see("/act/close-incident?number=1")
    assert "projectionist incidents close 1 --reason …" in text_of(asked)
    refused = await ann.submit("/act/close-incident?number=1", 409, reason="  ")
    assert "an act needs an actor and a reason" in text_of(refused)
    assert "No incident is open" in text_of(await ann.submit("/act/close-incident?number=1", reason="known"))
    columns = ("who", "action", "object", "reason")
    assert await inspection.rows(live, "audit", *columns, action="close-incident") == [
        ("ann", "close-incident", "Orders: incident 1", "known")
    ]
    assert "1 was not open" in (await cli.run("incidents", "close", "1", "--reason", "again")).out


async def test_pause_and_resume_leave_the_rows_that_the_command_line_leaves(
    live: ConsumerHarness, cli: Cli, ann: Browser
) -> None:
    assert "Orders is paused." in await ann.submit("/act/pause?consumer=Orders", reason="moved")
    assert "paused by ann" in text_of(await ann.see("/consumer?name=Orders"))
    await cli.done("resume", "Orders", "--reason", "moved")
    await cli.done("pause", "Orders", "--reason", "moved")
    assert "Orders goes on." in await ann.submit("/act/resume?consumer=Orders", reason="moved")
    rows = await inspection.rows(live, "audit", "who", "action", "object", reason="moved", order="number")
    assert [(who, action) for who, action, _ in rows] == [("ann", "pause"), ("ann", "resume")] * 2
    assert {about for _, _, about in rows[:1]} == {about for _, _, about in rows}
    assert "was not paused" in await ann.submit("/act/resume?consumer=Orders", reason="moved")


async def test_the_audit_is_filtered_paged_and_given_as_a_file(live: ConsumerHarness, ann: Browser) -> None:
    await live.pool.execute(
        """insert into projectionist.audit (who, action, object, reason)
        select 'ann', act, 'Orders', format('=%s %s', act, n)
        from generate_series(0, 25) n, unnest('{pause,resume}'::text[]) with ordinality acts (act, place)
        order by n, place"""
    )
    page = await ann.see("/audit?who=ann")
    assert "=resume 25" in page
    assert "=pause 0" not in page
    older = page.partition(">Older<")[0].rpartition('href="')[2].rstrip('"').replace("&amp;", "&")
    assert "=pause 0" in await ann.see(older)
    assert "=resume 25" not in await ann.see("/audit?action=pause")
    assert "No act is like that" in await ann.see("/audit?who=nobody")
    file = await ann.see("/audit.csv?action=pause")
    assert file.splitlines()[0] == "number,at,who,action,object,reason,session_role,client"
    assert ",'=pause 3," in file


async def test_the_doctor_looks_and_streams_are_shown(live: ConsumerHarness, ann: Browser) -> None:
    assert "things need attention" in text_of(await ann.see("/doctor"))
    answer = await ann.send("/doctor", {"token": await ann.token()})
    assert answer.status_code == 200
    assert live.stream.name in text_of(await ann.see("/streams"))


async def test_minutes_are_told_by_the_command_line_too(s: Any, cli: Cli) -> None:
    counted = json.loads((await cli.run("status", "--by", "minute", "--json")).out)["counted"]
    failed = [(one["name"], one["n"]) for one in counted if one["outcome"] == "failed"]
    assert failed == [("Orders", 1)]
    assert {one["name"] for one in counted if one["outcome"] == "applied"} == {"Orders", "Spend"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", one["what"]) for one in counted)


async def test_without_consumers_the_overview_says_what_to_do(live: ConsumerHarness) -> None:
    async with serving(App(), live.settings, name="shop.app:app") as served:
        assert "projectionist run shop.app:app" in await (await served.logged_in()).see("/")


async def test_the_map_shows_what_hangs_on_what_and_what_needs_somebody(
    live: ConsumerHarness, ann: Browser
) -> None:
    page = await ann.see("/map")
    said = text_of(page)
    assert "2 consumers need somebody." in said
    assert f"Orders not running {live.stream.name} orders Receipt to email" in said
    assert page.count('<path class="edge"') == 2 + 2 + 2, "streams, read models, and the intent of one"
    async with serving(App(), live.settings) as empty:
        assert "The app is empty" in await (await empty.logged_in()).see("/map")


async def test_the_last_hour_is_drawn_and_a_journey_leads_to_its_trace(live: ConsumerHarness, s: Any) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    came = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    await live.publish(OrderPlaced("zoe", 5), "o9", 1, id="traced", headers=came)
    await live.settle(s.Orders, s.Spend)
    await live.fetch(
        "update {s}.minute_counts set minute = minute - interval '1 minute', place = (place + 59) % 60"
    )
    settings = msgspec.structs.replace(
        live.settings,
        postgres=msgspec.structs.replace(live.settings.postgres, trace_index=True),
        telemetry=msgspec.structs.replace(
            live.settings.telemetry, trace_page="https://traces.example/trace/{trace}"
        ),
    )
    async with serving(App(projections=[s.Orders, s.Spend]), settings) as served:
        ann = await served.logged_in()
        for path in ("/", "/consumer?name=Orders"):
            assert 'aria-label="applied a minute, last 60 minutes: 0 to ' in await ann.see(path)
        said = text_of(await ann.see("/consumer?name=Orders"))
        assert re.search(r"Failed tries by minute \d+ tr\w+ ha\w+ failed in \d of the last 60 minutes", said)
        assert "Failed tries by minute None in" in text_of(await ann.see("/consumer?name=Spend"))
        journey = await ann.see(f"/search?q={trace}")
        assert "Journey of traced" in journey, "what one event alone has leads to it"
        assert f'href="https://traces.example/trace/{trace}"' in journey
        assert f'href="/flow?trace={trace}"' in journey


async def test_what_there_is_is_shown_with_where_it_leads(ann: Browser) -> None:
    outbox = text_of(await ann.see("/outbox"))
    assert re.search(r"Providers .*Circuits that are not closed .*email .*none", outbox)
    streams = text_of(await ann.see("/streams"))
    assert "The first is from" in streams
    assert re.search(r"\d+ s ago|just now|now", streams)
    incidents = await ann.see("/incidents")
    assert "/journey?id=" in incidents
    assert "Version 2 is missing" not in await ann.see("/aggregate?name=order%2Fo1"), "it has failed"
