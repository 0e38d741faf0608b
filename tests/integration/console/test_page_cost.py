"""What open pages cost the database: statements a second, however many people look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.console_client import Browser, Served, serving
from tests.support.console_shop import troubled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import HANG_S

from projectionist.console import application, console_context
from projectionist.console.kept_connections import KeptConnections
from projectionist.console.live_regions import EVERY_S, SHARED_S, SharedReads
from projectionist.console.snapshot import Onlooker
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

GROUP = "/waiting/group?consumer=Orders&cause=failed&type=OrderPlaced&error=00000000"
OPEN = (
    *("/", "/consumer?name=Orders", "/waiting", GROUP, "/quarantine", "/quarantine/group", "/incidents"),
    *("/outbox", "/outbox/group?state=dead&provider=email", "/streams", "/operations", "/rebuilds"),
    *("/rebuild?consumer=Orders", "/operation?number=1", "/live?here=audit"),
)
VIEWERS = 5
SECONDS = 20
MOST_A_SECOND = 1
"""Statements of one address, its share of what is seldom asked among them; BEGIN and SET count as any other."""


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of snapshots and of what open pages share."""
    clock = Clock()
    monkeypatch.setattr(application, "Onlooker", partial(Onlooker, now=clock, within_s=HANG_S))
    monkeypatch.setattr(application, "KeptConnections", partial(KeptConnections, now=clock))
    monkeypatch.setattr(console_context, "SharedReads", partial(SharedReads, now=clock))
    return clock


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what connections that are opened from now on ask."""
    found, connect = list[str](), asyncpg.connect

    async def listened(*args: Any, **options: Any) -> Any:
        made = await connect(*args, **options)
        made.add_query_logger(lambda one: found.append(one.query))
        return made

    monkeypatch.setattr(asyncpg, "connect", listened)
    return found


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, time: Clock) -> AsyncIterator[Served]:
    s: Any = await troubled(live)
    async with serving(App(projections=[s.Orders, s.Spend]), live.settings) as made:
        yield made


async def look(viewers: list[Browser], pages: tuple[str, ...], time: Clock, seconds: int = SECONDS) -> None:
    """Let pages be open for a while: each asks every few seconds, and no two people at the same moment."""
    for second in range(seconds):
        time.now += 1
        for place, viewer in enumerate(viewers):
            if second % EVERY_S == place % EVERY_S:
                for path in pages:
                    answer = await viewer.http.get(path, headers={"hx-request": "true"})
                    assert answer.status_code == 200, path


async def cost(asked: list[str], viewers: list[Browser], pages: tuple[str, ...], time: Clock) -> int:
    """Return how many statements these pages cost while they are open, after a first look at each."""
    time.now += 60
    await look(viewers[:1], pages, time, seconds=1)
    time.now += EVERY_S - 1
    asked.clear()
    await look(viewers, pages, time)
    return len(asked)


async def test_a_page_is_of_the_moment_at_which_the_oldest_of_its_figures_was_read(
    served: Served, time: Clock
) -> None:
    ann = await served.logged_in()
    await ann.see("/")
    for seconds in (2, 3):
        between = datetime.now(UTC)
        time.now += seconds
        page = (await ann.http.get("/outbox", headers={"hx-request": "true"})).text
    told = re.search(r'as of <time datetime="([^"]+)"', page)
    assert told is not None
    assert datetime.fromisoformat(told[1]) < between, "its snapshot is newer than what it shares"


async def test_an_open_page_costs_one_statement_a_second_however_many_look(
    served: Served, time: Clock, asked: list[str]
) -> None:
    viewers = [await served.logged_in(f"v{n}") for n in range(VIEWERS)]
    for page in OPEN:
        statements = await cost(asked, viewers, (page,), time)
        told = Counter(one.strip().partition("\n")[0] for one in asked)
        assert 0 < statements / SECONDS <= MOST_A_SECOND, (page, statements, told)
    alone, shared = [await cost(asked, some, OPEN, time) for some in (viewers[:1], viewers)]
    assert shared / alone <= (SECONDS / SHARED_S + 1) / (SECONDS / EVERY_S), (alone, shared)
