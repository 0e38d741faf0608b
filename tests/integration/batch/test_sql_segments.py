"""What handlers of own SQL leave behind when many share a savepoint: what each would have left in its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.sql_actions import ODD, USUAL, WRONG, Acted, Action, Strayed, actor, outcome

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
    st.tuples(st.integers(0, 3), st.just(value=False), actions(USUAL, 3)),
    st.tuples(st.integers(0, 3), st.just(value=False), actions([*USUAL, *USUAL, *WRONG], 3)),
    st.tuples(st.integers(0, 3), st.just(value=True), actions([*USUAL, *WRONG, *ODD], 3)),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, max_size=14))
@example([(0, True, [("save", 1, 1)]), (1, True, [("undo", 1, 1)])])
@example(
    [
        (0, False, [("new", 1, 1)]),
        (1, False, [("new", 1, 2), ("swallow", 1, 1)]),
        (0, False, [("mail", 0, 0)]),
    ]
)
async def test_what_is_tried_together_ends_as_each_event_on_its_own(
    driver: BatchDriver, batch: list[Told]
) -> None:
    """Rows, failures with their errors, and intents, under anything that handlers may do."""
    deliveries = told(driver, batch)
    assert await outcome(driver, deliveries) == await outcome(driver, deliveries, singly=True)


async def savepoints(driver: BatchDriver, batch: Sequence[Told]) -> int:
    statements: list[str] = []
    await outcome(driver, told(driver, batch), logged=statements.append)
    return sum(text.startswith("SAVEPOINT") for text in statements)


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
    statements: list[str] = []
    batch: list[Told] = [(number, False, [("wait", 0, 0)]) for number in range(7)]
    await outcome(driver, told(driver, batch), logged=statements.append)
    assert statements.count("select") == 6 + 1
