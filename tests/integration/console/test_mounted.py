"""The console inside another ASGI application, which says who comes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support import inspection
from tests.support.console_client import Browser, listening
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import shop

from projectionist import console
from projectionist.console import Person, Role
from projectionist.console.access import request_guard
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

ROLES = {"ann": Role.OPERATE, "bob": Role.VIEW}


def who(headers: Mapping[str, str]) -> Person | None:
    """As a proxy in front would say it."""
    name = headers.get("x-user", "")
    return Person(name, ROLES[name]) if name in ROLES else None


def mounted(live: ConsumerHarness, s: Any, **options: Any) -> Starlette:
    made = console.app(App(projections=[s.Orders]), settings=live.settings, **options)
    return Starlette(routes=[Mount("/ops/console", app=made)])


async def test_below_another_application_every_link_and_form_leads_where_it_is(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with listening(mounted(live, s, identify=who)) as url:
        ann, bob = Browser(url, **{"x-user": "ann"}), Browser(url, **{"x-user": "bob"})
        eve = Browser(url, **{"x-user": "eve"})
        for path in ("/ops/console/", "/ops/console/waiting", "/ops/console/consumer?name=Orders"):
            page = await ann.see(path)
            links = re.findall(r'(?:href|action)="([^"#]*)"', page)
            assert {link for link in links if not link.startswith("/ops/console/")} == set(), path
            await eve.see(path, 401)
        await ann.see("/ops/console/static/console.css")
        path = "/ops/console/act/pause?consumer=Orders"
        assert "Orders is paused." in await ann.submit(path, reason="moved")
        assert (await bob.http.get(path)).status_code == 403
        assert await inspection.rows(live, "audit", "who", "reason", action="pause") == [("ann", "moved")]
        assert "Whoever stands in front" in await eve.see("/ops/console/login", 401)
        for each in (ann, bob, eve):
            await each.http.aclose()


async def test_without_a_way_to_log_in_nobody_gets_in_and_other_hosts_have_to_be_named(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with listening(mounted(live, s, hosts=["ops.example"])) as url:
        somebody = Browser(url)
        await somebody.see("/ops/console/", 421)
        answer = await somebody.http.get("/ops/console/", headers={"host": "ops.example:8443"})
        assert answer.status_code == 401
        form = {"link": "", "name": "eve"}
        told = {"host": "ops.example", "origin": "https://ops.example"}
        answer = await somebody.http.post("/ops/console/login", data=form, headers=told)
        assert answer.status_code == 401
        await somebody.http.aclose()


async def test_however_many_come_nobody_loses_a_form_or_gets_the_one_of_another(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_guard, "MOST_PEOPLE", 1)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    everybody = console.app(
        App(projections=[s.Orders]),
        settings=live.settings,
        identify=lambda headers: Person(headers["x-user"], Role.OPERATE) if "x-user" in headers else None,
    )
    async with listening(everybody) as url:
        ann, bob = Browser(url, **{"x-user": "ann"}), Browser(url, **{"x-user": "bob"})
        token, other = await ann.token(), await bob.token()
        assert token != other
        form = {"token": token, "seen": "1", "reason": "moved"}
        assert (await bob.send("/act/pause?consumer=Orders", form)).status_code == 403
        assert (await ann.send("/act/pause?consumer=Orders", form)).status_code == 200
        for each in (ann, bob):
            await each.http.aclose()
    assert await inspection.rows(live, "audit", "who", action="pause") == [("ann",)]
