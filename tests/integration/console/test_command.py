"""`projectionist console`: the process that serves it, from its link to its end."""

from __future__ import annotations

import re
import signal

import msgspec
import pytest
from tests.support.cli import Cli
from tests.support.console_client import Browser, serving
from tests.support.consumer_harness import ConsumerHarness
from tests.support.duties import named, with_duties
from tests.support.process import projectionist
from tests.support.scrape import free_port
from tests.support.shop import shop
from tests.support.shop_app import APP, environment

from projectionist.core.postgres.rights import Duty
from projectionist.core.settings.secret import Url
from projectionist.runner import App

pytestmark = pytest.mark.asyncio


async def test_it_prints_a_link_serves_whoever_follows_it_and_ends_well(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    port = free_port()
    words = ("console", APP, "--listen", f"127.0.0.1:{port}", "--read-only", "--actor", "ann")
    async with projectionist(*words, env=environment(live)) as child:
        await child.heard("console.listening")
        link = re.search(rf"http://127\.0\.0\.1:{port}(/login\?link=\S+)", child.out)
        assert link is not None, child.out
        browser = Browser(f"http://127.0.0.1:{port}")
        page = await browser.submit(link[1], name="ann")
        assert "ann, role view" in page
        assert "Orders" in page
        again = ("console", APP, "--listen", f"127.0.0.1:{port}")
        async with projectionist(*again, env=environment(live)) as other:
            ended = await other.ended()
            assert ended.code == 1
            assert f"cannot listen at 127.0.0.1:{port}" in ended.err
        child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0
        await browser.http.aclose()


async def test_a_role_of_the_database_that_may_only_look_is_told_what_it_lacks(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with with_duties(live) as urls:
        postgres = msgspec.structs.replace(live.settings.postgres, url=Url(urls[Duty.OBSERVER]))
        settings = msgspec.structs.replace(live.settings, postgres=postgres)
        async with serving(App(projections=[s.Orders]), settings) as served:
            ann = await served.logged_in()
            for path in ("/", "/consumer?name=Orders", "/incidents", "/audit", "/doctor", "/streams"):
                await ann.see(path)
            refused = await ann.submit("/act/pause?consumer=Orders", 403, reason="x")
            assert f"projectionist roles apply --operator {named(live, Duty.OBSERVER)}" in refused


async def test_it_listens_on_this_machine_alone(cli: Cli) -> None:
    for place in ("0.0.0.0:8710", "10.0.0.7:8710", "[::]:8710"):
        assert "can be reached from other machines" in await cli.refused("console", APP, "--listen", place)
    assert "Write --listen 127.0.0.1:8710" in await cli.refused("console", APP, "--listen", "nowhere")
