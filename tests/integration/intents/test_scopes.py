"""Intents that several rows of one event ask for in one slot are told apart by the row, wherever they are shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.cli import Cli
from tests.support.console_client import serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import WORD, contents, erase, holders, holding
from tests.support.retention import age, purge, sent
from tests.support.several_rows import Cancelled, LineAdded, Picked, Placed, several

from projectionist.outbox import Cancel, Intent, Scheduled
from projectionist.outbox.relay.database_link import DatabaseLink
from projectionist.outbox.relay.opener import Opener
from projectionist.outbox.relay.schedule_store import ScheduleStore
from projectionist.projections import Delete, Projection, on
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

OTHER = "stool"
FIRST, SECOND = '["o1",0]', '["o1",1]'
NEXT_YEAR = datetime.now(UTC) + timedelta(days=365)


class Reminder(Intent, provider="stub"):
    """What is scheduled with each line."""

    line_no: int


def reminding(live: ConsumerHarness) -> type[Projection]:
    """Lines that are each to be reminded of, unless they go before that."""

    class Reminded(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
        table="reminded",
        key=("order_id", "line_no"),
    ):
        order_id: str
        line_no: int

        @on(Placed, each=lambda event: range(len(event.skus)))
        def placed(self, event: Placed) -> Scheduled:
            return Reminder(self.line_no).at(NEXT_YEAR)

        @on(LineAdded, each=lambda event: [event.line_no])
        def done(self, event: LineAdded) -> Cancel:
            return Cancel(Reminder)

        @on(Cancelled, rows="order_id")
        def cancelled(self, event: Cancelled) -> Iterator[Delete | Cancel]:
            yield Cancel(Reminder)
            yield Delete()

    return Reminded


@asynccontextmanager
async def opening(live: ConsumerHarness) -> AsyncIterator[Opener]:
    """The opener of a relay, a step at a time."""
    link = DatabaseLink(live.settings.postgres, "test")
    try:
        yield Opener(ScheduleStore(link), lambda: None, 2.0)
    finally:
        await link.close()


async def placed(live: ConsumerHarness, cls: type) -> None:
    """An order of two lines, which ask for the same in the same slot."""
    await live.migrate(cls)
    await live.publish(Placed(("a", "a"), (1, 1)), "o1", 1, id="e1")
    await live.settle(cls)


async def test_commands_and_pages_tell_two_intents_of_one_slot_apart(live: ConsumerHarness, cli: Cli) -> None:
    s = several(live.stream)
    await placed(live, s.Lines)

    listed = (await cli.seen("outbox", "list", "--each"))["intents"]
    assert [(one["class"], one["scope"]) for one in listed] == [("Picked", FIRST), ("Picked", SECOND)]
    text = await cli.done("outbox", "list", "--each")
    assert [sum(scope in line for line in text.splitlines()) for scope in (FIRST, SECOND)] == [1, 1]
    for one in listed:
        assert (await cli.seen("outbox", "show", one["key"]))["scope"] == one["scope"]
        assert one["scope"] in await cli.done("outbox", "show", one["key"])

    [journey] = (await cli.seen("journey", "e1"))["events"]
    assert [one["scope"] for one in journey["consumers"][0]["intents"]] == [FIRST, SECOND]
    assert f"Picked of row {SECOND} to stub: ready" in await cli.done("journey", "e1")

    async with serving(App(projections=[s.Lines]), live.settings) as served:
        ann = await served.logged_in("ann")
        group = text_of(await ann.see("/outbox/group?state=ready&provider=stub"))
        assert (FIRST in group, SECOND in group) == (True, True)
        shown = text_of(await ann.see(f"/outbox/intent?key={listed[1]['key']}"))
        assert (FIRST in shown, SECOND in shown) == (False, True)
        drawn = text_of(await ann.see("/journey?id=e1"))
        assert [f"Picked of row {scope}: ready" in drawn for scope in (FIRST, SECOND)] == [True, True]


async def test_another_content_for_one_row_is_an_incident_that_names_the_row(live: ConsumerHarness) -> None:
    s = several(live.stream)
    await live.migrate(s.Lines)
    async with batch_drivers(live, s.Lines) as (driver,):
        event = driver.read(Placed(("a", "a"), (1, 1)), "o1", 1, id="e1", seq=1)
        await driver.settle(event)
        assert await inspection.count_intents(live) == 2
        await live.pool.execute("delete from projectionist.inbox; delete from projectionist.positions")
        await live.pool.execute("update projectionist.intents set hash = 'else' where scope = $1", SECOND)
        driver.context.positions.clear()
        await driver.settle(event)

    assert await inspection.count_intents(live) == 2
    assert await inspection.value(live, "incidents", "detail") == (
        f"slot Picked of row {SECOND} of this event has an intent with other content; the first stands"
    )


@pytest.mark.parametrize("event", [LineAdded(1, "x"), Cancelled()], ids=["each", "rows"])
async def test_a_cancel_takes_back_what_its_own_row_has_scheduled(live: ConsumerHarness, event: Any) -> None:
    cls = reminding(live)
    await placed(live, cls)
    await live.publish(event, "o1", 2, id="e2")
    await live.settle(cls)
    async with opening(live) as opener:
        await opener.step()

    found = dict(await inspection.rows(live, "intents", "scope", "state"))
    assert found == {FIRST: "open" if isinstance(event, LineAdded) else "cancelled", SECOND: "cancelled"}


@pytest.mark.parametrize(("archive", "kept"), [(None, "scope"), ("table", "content"), ("files", "file")])
async def test_a_row_whose_key_names_somebody_is_erased_with_the_event(
    live: ConsumerHarness, tmp_path: Path, archive: str | None, kept: str
) -> None:
    """Wherever retention has moved the intent by then; another event's is left."""

    class Watched(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
        table="watched",
        key="sku",
    ):
        sku: str
        times: int = 0

        @on(Placed, each=lambda event: event.skus, shared=True)
        def placed(self, event: Placed) -> Picked:
            self.times += 1
            return Picked("it")

    await live.migrate(Watched)
    await live.publish(Placed((WORD, "chair"), (1, 1)), "o1", 1, id="e1")
    await live.publish(Placed((OTHER,), (1,)), "o2", 1, id="e2")
    await live.settle(Watched)
    await sent(live)
    assert await holding(live, WORD) == {("intents", "scope"), ("watched__g1", "sku")}
    if archive is not None:
        await age(live, 100)
        await purge(live, Watched, archive=archive, archive_folder=str(tmp_path))
    await erase(live, Watched, aggregate="order/o1", folder=tmp_path)

    assert await holders(live, WORD) == []
    assert WORD not in "".join(contents(tmp_path).values())
    left = {column for _, column in await holding(live, OTHER)}
    left |= {"file" for text in contents(tmp_path).values() if OTHER in text}
    assert left == {"sku", kept}
