"""What handlers of own SQL leave behind when many share a savepoint: what each would have left in its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.sql_actions import (
    DEFERRED,
    ODD,
    USUAL,
    WRONG,
    Acted,
    Action,
    Strayed,
    actor,
    outcome,
    undone,
)

from projectionist.projections import SqlProjection, Tx, on
from projectionist.projections.tables import ddl
from projectionist.runner.batch.sql_handlers import SqlHandlers
from projectionist.runner.decoding.delivery import Delivery

pytestmark = pytest.mark.asyncio

Told = tuple[int, bool, list[Action]]
"""The number of an aggregate, whether its event may stray, and what its event does."""


@pytest_asyncio.fixture
async def driver(live: ConsumerHarness) -> AsyncIterator[BatchDriver]:
    cls = actor(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        yield driver


def told(driver: BatchDriver, batch: Sequence[Told]) -> list[Delivery]:
    versions: dict[int, int] = {}
    found = []
    for aggregate, strays, actions in batch:
        version = versions[aggregate] = versions.get(aggregate, 0) + 1
        event = Strayed(actions=actions) if strays else Acted(actions=actions)
        found.append(driver.read(event, f"o{aggregate}", version))
    return found


def actions(names: Sequence[str], most: int) -> st.SearchStrategy[list[Action]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 3), st.integers(0, 40)), max_size=most)


EVENTS = st.one_of(
    st.tuples(st.integers(0, 3), st.just(value=False), actions(DEFERRED, 4)),
    st.tuples(st.integers(0, 3), st.just(value=False), actions(USUAL, 3)),
    st.tuples(st.integers(0, 3), st.just(value=False), actions([*USUAL, *USUAL, *WRONG], 3)),
    st.tuples(st.integers(0, 3), st.just(value=True), actions([*USUAL, *WRONG, *ODD], 3)),
)


def one_by_one(*names: str, strays: bool = False) -> list[Told]:
    return [(number, strays, [(name, 1, 1)]) for number, name in enumerate(names)]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, max_size=14))
@example(one_by_one("save", "undo", strays=True))
@example(one_by_one("new", "swallow", "new", "mail"))
@example(one_by_one("mark", "halve", "mark"))
@example([*one_by_one("put"), *((number, False, [("mark", 2, 1), ("copy", 1, 1)]) for number in range(3))])
@example(one_by_one("put", "mark", "count", "mark", "count"))
@example(one_by_one("put", "tag", "survive", strays=True))
@example(one_by_one("put", "reuse", "mark", strays=True))
@example(one_by_one("put", "speak", "put", strays=True))
@example(one_by_one("put", "misuse", "peek", "put", strays=True))
@example(one_by_one("put", "misuse", "persist", "put", strays=True))
async def test_what_is_tried_together_ends_as_each_event_on_its_own(
    driver: BatchDriver, batch: list[Told]
) -> None:
    """Rows, failures with their errors, and intents, under anything that handlers may do."""
    deliveries = told(driver, batch)
    assert await outcome(driver, deliveries) == await outcome(driver, deliveries, singly=True)


async def statements(driver: BatchDriver, batch: Sequence[Told]) -> list[str]:
    found: list[str] = []
    await outcome(driver, told(driver, batch), logged=found.append)
    return found


async def savepoints(driver: BatchDriver, batch: Sequence[Told]) -> int:
    return sum(text.startswith("SAVEPOINT") for text in await statements(driver, batch))


async def writes(driver: BatchDriver, batch: Sequence[Told]) -> int:
    return sum(text.startswith(("insert", "update", "delete")) for text in await statements(driver, batch))


GOOD: Sequence[Told] = [(number, False, [("put", number, 1)]) for number in range(40)]


async def test_events_share_one_savepoint_until_one_fails(driver: BatchDriver) -> None:
    """One for what settings are looked at in, and one for all of the handlers."""
    assert await savepoints(driver, GOOD) == 2


@pytest.mark.parametrize("wrong", ["poison", "misuse"])
async def test_a_poison_costs_its_batch_few_savepoints(driver: BatchDriver, wrong: str) -> None:
    batch = [*GOOD[:23], (23, False, [(wrong, 1, 1)]), *GOOD[24:]]
    assert await savepoints(driver, batch) <= 2 + 2 * len(bin(len(batch)))


async def test_where_most_fail_events_are_run_one_by_one(driver: BatchDriver) -> None:
    """Not each a few times over."""
    batch: list[Told] = [(number, False, [("new", 1, 91)]) for number in range(200)]
    assert await savepoints(driver, batch) < len(batch) * 1.5


async def test_a_handler_that_names_savepoints_has_one_of_its_own(driver: BatchDriver) -> None:
    """From its first event on, so that it is not called twice for each."""
    batch: list[Told] = [(number, True, [("save", number % 3, 1)]) for number in range(20)]
    assert await savepoints(driver, batch) <= 2 + 2 * len(batch) + 2


async def test_handlers_that_run_no_statement_do_not_let_their_session_idle(driver: BatchDriver) -> None:
    """PostgreSQL would end it, and the batch would never get through."""
    batch: list[Told] = [(number, False, [("wait", 0, 0)]) for number in range(7)]
    assert (await statements(driver, batch)).count("select") == 6 + 1


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["put"], 1),
        (["mark", "tally"], 2),  # tables that nothing ties to each other
        (["both", "tally"], 2),
        (["put", "tally"], 40),  # a foreign key is on the one
        (["tally", "trim"], 40),  # of one table in its own order
        (["mark", "mail", "tally"], 40),  # read between them
    ],
)
async def test_equal_statements_of_a_batch_run_at_once(
    driver: BatchDriver, actions: list[str], expected: int
) -> None:
    batch: list[Told] = [(number, False, [(what, number, 1) for what in actions]) for number in range(20)]
    assert await writes(driver, batch) == expected


async def test_a_handler_that_reads_a_tag_is_called_once_more_and_gets_it(driver: BatchDriver) -> None:
    """Then, and for all that follows: each event's statements are its own."""
    batch: list[Told] = [(number, True, [("tag", number, 1)]) for number in range(20)]
    assert await writes(driver, batch) == 40


async def test_statements_that_overlap_are_the_error_that_they_are(driver: BatchDriver) -> None:
    """Put off they would not overlap, and the event would get through in company alone.

    The event fails, or all of its batch where the first statement still runs when the savepoint is to be undone.
    """
    deliveries = told(driver, [(0, True, [("gather", 1, 1)]), (1, True, [("put", 2, 2)])])
    try:
        errors = [error for _, _, error in (await outcome(driver, deliveries)).failures.values()]
    except asyncpg.InterfaceError as error:
        errors = [str(error)]
    assert ["another operation is in progress" in str(error) for error in errors] == [True]


async def test_a_trigger_ties_its_table_to_all_others(live: ConsumerHarness, driver: BatchDriver) -> None:
    """What it sees of them depends on the order of statements."""
    names = ddl.sql_names(driver.consumer.view.definition.tables, SCHEMA, driver.consumer.view.generation)
    await live.pool.execute(
        f"""
        create function public.counted() returns trigger language plpgsql as
            $$ begin new.v := (select count(*) from {names["tallies"]}); return new; end $$;
        create trigger counts before insert on {names["marks"]} for each row execute function public.counted()
        """
    )
    batch: list[Told] = [(n, False, [("mark", n, 1), ("tally", n, 1)]) for n in range(5)]
    assert (await outcome(driver, told(driver, batch))).rows["marks"] == [(n, n) for n in range(5)]


@pytest.mark.parametrize(
    "body",
    [
        "k int primary key, v int references {a}",
        "k serial primary key",
        "k int primary key default nextval('public.numbers')",
        "k int primary key, v int check (public.looks(v))",
        "k int primary key, v public.looked",
        "k int primary key, v int, exclude using btree (public.seen(v) with =)",
    ],
)
async def test_a_table_that_may_look_elsewhere_is_tied(live: ConsumerHarness, body: str) -> None:
    class Tied(SqlProjection, stream=live.stream.name, subjects=live.stream.subject("order", "{aggregate}")):
        tables = {
            "a": "k int primary key",
            "b": body,
            "c": "k int generated always as identity, v text default 'x'",
        }

        @on(Acted)
        async def acted(self, tx: Tx, event: Acted) -> None: ...

    await live.pool.execute(
        """
        create sequence public.numbers;
        create function public.looks(int) returns bool language sql as 'select true';
        create function public.seen(int) returns int immutable language sql as 'select $1';
        create domain public.looked as int check (public.looks(value));
        """
    )
    await live.migrate(Tied)
    async with batch_drivers(live, Tied) as (driver,):
        store, _ = await driver.session.ready()
        model = SqlHandlers(store.connection, driver.consumer, SCHEMA)
        async with undone(store.connection):
            await model.fold([], None)
    assert model._tx.untied == {"c"} | ({"a"} if "{a}" not in body else set())
