"""Who gets in, who does not, and what a request has to be: against a real uvicorn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.console_client import FIELDS, Browser, Served, behind, serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.console.access.sessions import Role
from projectionist.console.application import ADDRESSES
from projectionist.console.kept_connections import KeptConnections
from projectionist.console.screens.acting import VERBS
from projectionist.console.snapshot import Onlooker
from projectionist.runner import App

pytestmark = pytest.mark.asyncio


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    made = shop(live.stream)
    await live.migrate(made.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(made.Orders)
    return made


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, s: Any, time: Clock) -> AsyncIterator[Served]:
    async with serving(App(projections=[s.Orders]), live.settings, now=time) as made:
        yield made


def addresses() -> list[tuple[str, str]]:
    """Every address and every act."""
    fixed = [(one.method, one.path) for one in ADDRESSES if "{verb}" not in one.path]
    acts = [(method, f"/act/{verb}?consumer=Orders&number=1") for verb in VERBS for method in ("GET", "POST")]
    return [*fixed, *acts, ("POST", "/logout"), ("GET", "/nothing")]


async def test_no_address_is_answered_without_a_login(live: ConsumerHarness, served: Served) -> None:
    stranger = served.browser(cookie=f"{served.access.cookie}=made-up")
    for method, path in addresses():
        answer = await (stranger.http.get(path) if method == "GET" else stranger.send(path, {"reason": "x"}))
        assert answer.status_code == 401, (method, path)
        assert "Orders" not in answer.text.replace("consumer=Orders", ""), (method, path)
    assert await inspection.count(live, "audit", who="ann") == 0


async def test_a_link_logs_one_person_in_once_and_for_some_minutes(served: Served, time: Clock) -> None:
    link, used, late = (served.access.new_link() for _ in range(3))
    first, second = served.browser(), served.browser()
    page = await first.see(f"/login?link={link}")
    assert 'value="ann"' in page, "looking at it uses it up for nobody, and proposes who"
    assert "Overview" in (await first.send("/login", {"link": link, "name": "ann"})).text
    assert (await second.send("/login", {"link": link, "name": "eve"})).status_code == 401
    assert (await second.send("/login", {"link": "", "name": "eve"})).status_code == 401
    assert (await second.send("/login", {"link": used, "name": "  "})).status_code == 401
    time.now += 601
    assert (await second.send("/login", {"link": late, "name": "eve"})).status_code == 401
    await second.see(f"/login?link={late}", 401)


async def test_a_new_link_is_written_where_the_console_runs_and_not_on_the_page(served: Served) -> None:
    stranger = served.browser()
    answer = await stranger.send("/login/link", {})
    [link] = served.links
    assert link not in answer.text
    await stranger.send("/login/link", {})
    assert len(served.links) == 1, "whoever asks again and again fills nobody's terminal"
    assert (await stranger.send("/login", {"link": link, "name": "bob"})).status_code == 200


async def test_after_a_login_the_page_that_was_asked_for_follows_and_no_other_site(served: Served) -> None:
    browser = served.browser()
    await browser.see("/consumer?name=Orders", 401)
    for next_page, told in (
        ("/audit?who=ann", "/audit?who=ann"),
        ("//evil.example/", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
    ):
        form = {"link": served.access.new_link(), "name": "ann", "next": next_page}
        answer = await browser.http.post(
            "/login", data=form, headers={"origin": served.url}, follow_redirects=False
        )
        assert answer.headers["location"] == told


async def test_a_login_ends_when_nobody_looks_when_it_is_old_and_by_hand(served: Served, time: Clock) -> None:
    idle, busy = await served.logged_in("idle"), await served.logged_in("busy")
    time.now += 1700
    await busy.see("/")
    time.now += 200
    await idle.see("/", 401)
    for _ in range(23):
        await busy.see("/")
        time.now += 1790
    assert "idle" not in await busy.see("/")
    time.now += 1790
    await busy.see("/", 401)
    third = await served.logged_in("third")
    assert (await third.send("/logout", {"token": await third.token()})).status_code == 200
    await third.see("/", 401)


async def test_the_cookie_is_kept_from_scripts_and_from_other_sites(served: Served) -> None:
    form = {"link": served.access.new_link(), "name": "ann"}
    answer = await served.browser().http.post(
        "/login", data=form, headers={"origin": served.url}, follow_redirects=False
    )
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "domain" not in cookie
    assert "max-age" not in cookie, "it goes with the browser's session"


async def test_each_answer_forbids_what_no_page_needs(served: Served) -> None:
    ann, stranger = await served.logged_in(), served.browser()
    for browser, path in ((ann, "/"), (ann, "/nothing"), (stranger, "/"), (stranger, "/static/console.css")):
        headers = (await browser.http.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert not {name for name in headers if name.startswith("access-control")}
        assert path.startswith("/static") or headers["cache-control"] == "no-store"
        assert "server" not in headers or headers["server"] == "uvicorn"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::2]:80", "10.0.0.7"])
async def test_a_name_that_is_not_ours_is_refused(served: Served, host: str) -> None:
    ann = await served.logged_in()
    assert (await ann.http.get("/", headers={"host": host})).status_code == 421


async def test_a_form_of_somebody_else_changes_nothing(live: ConsumerHarness, served: Served) -> None:
    ann, bob = await served.logged_in("ann"), await served.logged_in("bob")
    own, other, path = await ann.token(), await bob.token(), "/act/pause?consumer=Orders"
    form = {"reason": "x", "seen": "1"}
    for token in ("", other, own[:-1]):
        assert (await ann.send(path, form | {"token": token})).status_code == 403
    for origin in ("https://evil.example", "null", "", "http://127.0.0.1:1", "http://["):
        assert (await ann.send(path, form | {"token": own}, origin=origin)).status_code == 403
    for site in ("cross-site", "same-site", "none"):
        answer = await ann.send(path, form | {"token": own}, **{"sec-fetch-site": site})
        assert answer.status_code == 403
    answer = await ann.http.post(path, json=form | {"token": own}, headers={"origin": served.url})
    assert answer.status_code == 413
    assert (await ann.http.put(path, headers={"origin": served.url})).status_code == 405
    assert (await ann.http.options(path, headers={"origin": served.url})).status_code == 405
    assert await inspection.count(live, "audit", action="pause") == 0
    assert (await ann.send(path, form | {"token": own})).status_code == 200
    assert await inspection.count(live, "audit", action="pause") == 1


async def test_a_form_that_is_too_large_is_refused(served: Served) -> None:
    ann = await served.logged_in()
    large = {"token": await ann.token(), "reason": "x" * 2_000_000}
    assert (await ann.send("/act/pause?consumer=Orders", large)).status_code == 413


ROLES: list[tuple[str, str, Role]] = [
    *((one.method, one.path, one.role) for one in ADDRESSES if one.role and "{verb}" not in one.path),
    *(("GET", f"/act/{verb}", each.role) for verb, each in VERBS.items()),
    *(("POST", f"/act/{verb}", each.role) for verb, each in VERBS.items()),
]


@pytest.mark.parametrize("role", Role)
async def test_each_address_asks_for_the_role_that_it_says(
    live: ConsumerHarness, served: Served, role: Role
) -> None:
    ann = await served.logged_in(role=role)
    token = await ann.token()
    for method, path, needed in ROLES:
        answer = await (ann.http.get(path) if method == "GET" else ann.send(path, {"token": token}))
        refused = answer.status_code == 403
        assert refused == (not role.may(needed)), (method, path, answer.status_code)
    assert await inspection.count(live, "audit", who="ann") == 0
    assert ("You may look, not act" in await ann.see("/")) == (role is Role.VIEW)
    assert ("Pause…" in await ann.see("/consumer?name=Orders")) == (role is not Role.VIEW)


async def test_two_people_act_under_their_own_names_and_the_second_is_told(
    live: ConsumerHarness, served: Served
) -> None:
    ann, bob = await served.logged_in("ann"), await served.logged_in("bob")
    pages = [dict(FIELDS.findall(await each.see("/act/pause?consumer=Orders"))) for each in (ann, bob)]
    for each, page, reason in ((ann, pages[0], "first"), (bob, pages[1], "second")):
        await each.send("/act/pause?consumer=Orders", page | {"reason": reason})
    assert await inspection.rows(live, "audit", "who", "reason", action="pause") == [("ann", "first")]
    assert "paused by ann" in text_of(await bob.see("/consumer?name=Orders"))
    assert "ann, role" not in await bob.see("/")


async def test_with_the_database_gone_an_open_page_says_so_and_nothing_is_done(
    live: ConsumerHarness, s: Any
) -> None:
    async with gateway(live.database) as gate:
        settings = behind(live, gate)
        async with serving(App(projections=[s.Orders]), settings) as served:
            ann = await served.logged_in()
            assert "Orders" in await ann.see("/")
            form = dict(FIELDS.findall(await ann.see("/act/pause?consumer=Orders")))
            gate.refusing = True
            gate.cut()
            away = await eventually(lambda: shown(ann, banner=True))
            assert "Orders" in away, "the figures there were are shown, grey"
            answer = await ann.send("/act/pause?consumer=Orders", form | {"reason": "x"})
            assert answer.status_code == 503
            for path in ("/incidents", "/audit", "/consumer?name=Orders"):
                page = await ann.see(path, 503)
                assert BANNER in page
                assert "Traceback" not in page
            gate.refusing = False
            assert await eventually(lambda: shown(ann, banner=False))
    assert await inspection.count(live, "audit", action="pause") == 0


async def test_however_many_look_the_servers_are_asked_once(live: ConsumerHarness, s: Any) -> None:
    async with gateway(live.database) as gate:
        settings = behind(live, gate)
        kept = KeptConnections(settings.postgres)
        onlooker = Onlooker(settings, kept, now=lambda: 1.0)
        seen = await asyncio.gather(*(onlooker.look() for _ in range(50)))
        assert {id(one) for one in seen} == {id(seen[0])}
        assert gate.attempts == 1
        onlooker.forget()
        assert await onlooker.look() is not seen[0]
        assert gate.attempts == 1
        kept.close()


BANNER = "PostgreSQL does not answer"


async def shown(browser: Browser, *, banner: bool) -> str:
    """Return the overview, if it has the banner or has it not."""
    page = await browser.see("/")
    return page if (BANNER in page) == banner else ""


async def test_what_no_name_may_hold_is_refused_and_no_error_of_a_server(
    live: ConsumerHarness, served: Served
) -> None:
    ann, own = await served.logged_in("ann"), {"token": "", "reason": "x", "seen": "1"}
    own["token"] = await ann.token()
    assert (await ann.http.get("/waiting?consumer=%00")).status_code == 400
    assert (await ann.send("/act/pause?consumer=Orders", own | {"reason": "a\0b"})).status_code == 413
    for number in ("1 2", "%20", "x"):
        await ann.see(f"/quarantine/entry?consumer=Orders&seq={number}", 404)
        await ann.see(f"/quarantine/entry?consumer=Orders&seq=1&incarnation={number}", 404)
    assert await inspection.count(live, "audit", who="ann") == 0


async def test_what_was_typed_is_kept_where_a_login_or_its_form_is_over(served: Served, time: Clock) -> None:
    ann, path = await served.logged_in("ann"), "/act/pause?consumer=Orders"
    form = {"token": await ann.token(), "seen": "1", "reason": "moved <b>away</b>"}
    kept = ">moved &lt;b&gt;away&lt;/b&gt;</textarea>"
    answer = await ann.send(path, form | {"token": "of another login"})
    assert answer.status_code == 403
    assert kept in answer.text
    assert 'href="/act/pause?consumer=Orders"' in answer.text
    time.now += 1900
    answer = await ann.send(path, form)
    assert answer.status_code == 401
    assert kept in answer.text
    assert form["token"] not in answer.text
    assert "What you had written" not in await ann.see(path, 401)
