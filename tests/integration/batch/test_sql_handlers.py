"""What a SqlProjection's handler may not do to the transaction it stands in."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted

from projectionist.projections import Delete, Event, SqlProjection, Tx, on

pytestmark = pytest.mark.asyncio


def notes(stream: Stream) -> type:
    """A table of notes; what a note says is run."""

    class Notes(
        SqlProjection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {"notes": "note text primary key"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted) -> Any:
            await tx.execute("insert into {notes} values ($1)", event.text)
            if event.text == "delete":
                return Delete()
            await tx.execute(event.text)
            return None

    return Notes


@pytest.mark.parametrize(
    "statement",
    [
        "commit",
        "  COMMIT ; ",
        "/* that is all */ end",
        "rollback",
        "abort",
        "select 1; commit",
        "select ';' ; -- and now\n rollback",
        "prepare transaction 'x'",
    ],
)
async def test_a_handler_cannot_end_the_batch_it_is_part_of(live: ConsumerHarness, statement: str) -> None:
    """It would make durable that its event is settled, and what follows it a transaction a statement."""
    cls = notes(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(
            driver.read(OrderNoted("select 1"), "o1", 1),
            driver.read(OrderNoted(statement), "o2", 1),
            driver.read(OrderNoted("select 2"), "o3", 1),
        )

    assert await live.rows("notes") == [("select 1",), ("select 2",)]
    assert await live.states(cls) == {"o1:1": "applied", "o2:1": "parked", "o3:1": "applied"}
    error = await inspection.parked_error(live)
    assert "cannot end the transaction" in error or "multiple commands" in error


@pytest.mark.parametrize(
    "statement", ["select 'commit'", 'select 1 as "commit"', "create temp table t on commit drop as select 1"]
)
async def test_a_statement_that_only_speaks_of_ends_is_run(live: ConsumerHarness, statement: str) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(driver.read(OrderNoted(statement), "o1", 1))

    assert await live.rows("notes") == [(statement,)]


class Picked(Event, type="order.picked"):
    """What was picked for an order, piece by piece."""

    pieces: list[str]


async def test_a_batch_that_is_run_again_hands_out_its_events_as_they_came(live: ConsumerHarness) -> None:
    """The handler takes the list apart, the connection is lost, and the same delivery is tried once more."""
    runs: list[int] = []

    class Pieces(
        SqlProjection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {"pieces": "piece text primary key"}

        @on(Picked)
        async def picked(self, tx: Tx, event: Picked) -> None:
            runs.append(len(event.pieces))
            while event.pieces:
                await tx.execute("insert into {pieces} values ($1)", event.pieces.pop())
            if len(runs) == 1:
                await tx.execute("select pg_terminate_backend(pg_backend_pid())")

    await live.migrate(Pieces)
    async with batch_drivers(live, Pieces) as (driver,):
        await driver.settle(driver.read(Picked(pieces=["nut", "bolt"]), "o1", 1))

    assert runs == [2, 2]
    assert await live.rows("pieces") == [("bolt",), ("nut",)]


async def test_a_delete_that_nobody_would_carry_out_fails_the_event(live: ConsumerHarness) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(driver.read(OrderNoted("delete"), "o1", 1))

    assert await live.rows("notes") == []
    assert "no row to delete" in await inspection.parked_error(live)


LEAKS = [
    "set timezone = 'Asia/Tokyo'",
    "set local timezone = 'Asia/Tokyo'",
    "/* for a moment */ SET search_path = pg_catalog",
    "select set_config('TimeZone', 'Asia/Tokyo', true)",
    "set role pg_read_all_data",
    "reset all",
    "discard plans",
    "set constraints all deferred",
    "do $$ begin set timezone = 'Asia/Tokyo'; end $$",
    "do $$ begin execute 'set ' || 'search_path = pg_catalog'; end $$",
    "do $$ begin set local role pg_read_all_data; end $$",
    "do $$ begin set lock_timeout = 1; end $$",
]


@pytest.mark.parametrize("statement", LEAKS)
async def test_what_a_handler_sets_reaches_no_other_event(live: ConsumerHarness, statement: str) -> None:
    """Neither in its batch nor on its connection: its own event fails, and is undone with the setting."""
    cls = settings_of(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(
            driver.read(OrderNoted("select 1"), "o1", 1),
            driver.read(OrderNoted(statement), "o2", 1),
            driver.read(OrderNoted("select 2"), "o3", 1),
        )
        await driver.settle(driver.read(OrderNoted("select 3"), "o4", 1))

    seen = await live.fetch("select distinct zone, path, role, patience from seen")
    assert len(seen) == 1, seen
    assert await live.value("select count(*)::int from seen") == 3
    assert (await live.states(cls))["o2:1"] == "parked"
    assert "settings" in await inspection.parked_error(live)


async def test_a_setting_of_a_functions_own_is_nobody_elses(live: ConsumerHarness) -> None:
    """That is what the refusal advises."""
    cls = settings_of(live.stream)
    await live.migrate(cls)
    await live.pool.execute(
        "create function public.tokyo() returns text set timezone = 'Asia/Tokyo' language sql as"
        " $$ select current_setting('TimeZone') $$"
    )
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(driver.read(OrderNoted("select public.tokyo()"), "o1", 1))

    assert await live.states(cls) == {"o1:1": "applied"}


def settings_of(stream: Stream) -> type:
    """A table of the settings that handlers saw; what a note says is run after that."""

    class Seen(
        SqlProjection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {"seen": "note text primary key, zone text, path text, role text, patience text"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted) -> None:
            await tx.execute(
                "insert into {seen} values ($1, current_setting('TimeZone'), current_setting('search_path'),"
                " current_user, current_setting('lock_timeout'))",
                event.text,
            )
            await tx.execute(event.text)

    return Seen
