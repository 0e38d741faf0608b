"""The command line that a page shows does what the page does, to nothing else, whatever names others have chosen."""

from __future__ import annotations

import re
import shlex
from html import unescape
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import Browser
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, shop

from projectionist.runner import App

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def s(live: ConsumerHarness) -> Any:
    """A shop in which two orders have failed, one of them by an event whose id looks like an option."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    made.trouble.poison.add("bad")
    await live.publish(OrderNoted("bad"), "o1", 1, id="--all")
    await live.publish(OrderNoted("bad"), "o2", 1, id="bad-2")
    await live.settle(made.Orders)
    return made


@pytest.fixture
def app(s: Any) -> App:
    return App(projections=[s.Orders])


async def test_of_an_event_whose_id_looks_like_an_option_no_other_is_skipped(
    live: ConsumerHarness, cli: Cli, ann: Browser
) -> None:
    path = "/act/parked-skip?consumer=Orders&source=shop&id=--all"
    assert "skip: 1 done" in await cli.done(*shown(await ann.see(path)))
    assert await inspection.rows(live, "decisions", "id", kind="skip") == [("--all",)]
    for page in ("/journey?source=shop&id=--all", "/search?q=--all"):
        assert "order/o1" in await cli.done(*shown(await ann.see(page)))


def shown(page: str) -> list[str]:
    """Return the command line that a page shows, as a shell hands it on, with a reason."""
    (told,) = re.findall(r'<code class="command">projectionist (.*)</code>', page)
    return shlex.split(unescape(told).replace("--reason …", "--reason 'as shown'"))
