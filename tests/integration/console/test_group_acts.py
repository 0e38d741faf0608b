"""The page before an act on a group: the database counts, and the page is sent what it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.console_client import behind
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway, gateway
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, shop

from projectionist.console.background_work import BackgroundWorks
from projectionist.console.console_database import ConsoleDatabase
from projectionist.console.screens.acting import VERBS
from projectionist.core.digest import digest
from projectionist.ops.cli.database import database
from projectionist.runner import App
from projectionist.runner.admin.parked_queries import CountedEvents, ParkedFilter, ParkedQueries
from projectionist.runner.admin.quarantine_queries import QuarantineFilter, QuarantineQueries

pytestmark = pytest.mark.asyncio

ALIKE = digest("ValueError: cannot digest bad …")
GROUP = ParkedFilter(consumer="Orders", cause="failed", type="order.noted", error=ALIKE)
FAILED = {"consumer": "Orders", "cause": "failed", "type": "order.noted", "error": ALIKE}
FEW, MANY = 3, 60
SLACK = 2_000
"""So many bytes more may be sent of many: longer numbers. One event alone takes three hundred."""


@pytest_asyncio.fixture
async def gate(live: ConsumerHarness) -> AsyncIterator[Gateway]:
    async with gateway(live.database) as made:
        yield made


async def trouble(live: ConsumerHarness, first: int, end: int) -> Any:
    """A shop in which so many orders have failed, each with a follower, and so many messages could not be read."""
    made = shop(live.stream)
    made.trouble.poison.update(f"bad {n}" for n in range(end))
    for n in range(first, end):
        await live.publish(OrderNoted(f"bad {n}"), f"o{n}", 1, id=f"bad-{n}")
        await live.publish(OrderPaid(), f"o{n}", 2, id=f"paid-{n}")
        await live.publish(OrderNoted("odd"), f"q{n}", 1, headers={"ce-aggregateversion": "none"})
    await live.settle(made.Orders)
    return made


async def carried(live: ConsumerHarness, gate: Gateway, verb: str, given: dict[str, str]) -> tuple[int, str]:
    """How many bytes the database sends for the page before an act, statements being known, and its title."""
    async with database("test", behind(live, gate)) as opened:
        db = ConsoleDatabase(opened.settings, opened.connection, App(), "app", BackgroundWorks())
        await VERBS[verb].ask(db, given)
        before = gate.carried
        asked = await VERBS[verb].ask(db, given)
        return gate.carried - before, asked.title


@pytest.mark.parametrize(
    ("verb", "given", "told"),
    [
        ("parked-retry", FAILED, "Retry {} events"),
        ("parked-skip", FAILED, "Skip {} events"),
        ("parked-discard", {"consumer": "Orders", "type": "order.noted"}, "Discard {} events"),
        ("quarantine-retry", {"cause": "version"}, "Read {} entries again"),
    ],
)
async def test_the_page_before_an_act_is_sent_no_more_where_the_group_is_larger(
    live: ConsumerHarness, gate: Gateway, verb: str, given: dict[str, str], told: str
) -> None:
    await live.migrate(shop(live.stream).Orders)
    await trouble(live, 0, FEW)
    few, title = await carried(live, gate, verb, given)
    assert title == told.format(FEW)
    await trouble(live, FEW, MANY)
    many, title = await carried(live, gate, verb, given)
    assert title == told.format(MANY)
    assert many < few + SLACK


async def test_counts_stop_where_they_are_told_to_and_name_the_first_of_the_stream(
    live: ConsumerHarness,
) -> None:
    await live.migrate(shop(live.stream).Orders)
    await trouble(live, 0, 3)
    async with live.connected() as connection:
        parked, aside = ParkedQueries(connection, SCHEMA), QuarantineQueries(connection, SCHEMA)

        async def counted(
            chosen: ParkedFilter, *, heads: bool = True, most: int = 100
        ) -> CountedEvents | None:
            return await parked.count(chosen, heads=heads, most=most)

        named: dict[str, Any] = {"name": "Orders", "source": "shop", "ordered": True, "aggregate": "order/o0"}
        first = CountedEvents(events=3, id="bad-0", **named)
        for chosen in (GROUP, ParkedFilter(error=ALIKE), ParkedFilter(consumer="Orders")):
            assert await counted(chosen) == first
        assert await counted(GROUP, most=2) == await counted(ParkedFilter(), most=2)
        assert await counted(GROUP, most=2) == CountedEvents(events=2, id="bad-0", **named)
        assert await counted(ParkedFilter(error="ValueError: cannot digest bad 1")) == CountedEvents(
            events=1, id="bad-1", **named | {"aggregate": "order/o1"}
        )
        assert await counted(ParkedFilter(), heads=False) == CountedEvents(events=6, id="bad-0", **named)
        for nothing in (ParkedFilter(cause="gap"), ParkedFilter(error="0" * 8)):
            assert await counted(nothing) is None
        assert await counted(GROUP, most=0) is None
        [one] = await parked.heads(first.first, 1)
        assert (one.id, one.place) == ("bad-0", first.place)

        number = await inspection.value(live, "consumers", "number")
        oldest = (number, (1, 3))
        for most, entries in ((100, 3), (2, 2)):
            found = await aside.count(QuarantineFilter(cause="version"), idle=True, most=most)
            assert found == (entries, oldest)
        assert await aside.count(QuarantineFilter(cause="json"), idle=True, most=9) is None
