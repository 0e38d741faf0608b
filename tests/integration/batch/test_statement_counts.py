"""How many statements a batch takes does not depend on how many events it has."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.several_rows import Placed, several
from tests.support.shop import OrderNoted, OrderPlaced, shop

from projectionist.runner.decoding.delivery import Delivery

pytestmark = pytest.mark.asyncio

MANY = 50


async def statements(driver: BatchDriver, *deliveries: Delivery) -> list[str]:
    """What one batch of these asks of the database."""
    store, _ = await driver.session.ready()
    found: list[str] = []
    with store.connection.query_logger(lambda one: found.append(one.query)):
        await driver.settle(*deliveries)
    return [one for one in found if one not in ("BEGIN;", "COMMIT;")]


def of(driver: BatchDriver, first: int, many: int, version: int) -> list[Delivery]:
    """So many events of one version, each of an aggregate of its own."""
    body = OrderPlaced("ann", 1) if version == 1 else OrderNoted("more")
    return [driver.read(body, f"o{number}", version) for number in range(first, first + many)]


async def test_many_events_take_as_many_statements_as_one(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)

    async with batch_drivers(live, s.Orders) as (driver,):
        for version in (1, 3, 2, 2):  # new, parked, filled with what it drains, known
            await driver.settle(*of(driver, 0, 1, version))  # what a process asks once
            one = await statements(driver, *of(driver, 100, 1, version))
            many = await statements(driver, *of(driver, 200, MANY, version))
            assert many == one, version


async def test_intents_of_many_rows_take_as_many_statements_as_one(live: ConsumerHarness) -> None:
    s = several(live.stream)
    await live.migrate(s.Lines)

    async with batch_drivers(live, s.Lines) as (driver,):
        counted = []
        for number, lines in enumerate((1, 1, MANY)):  # the first asks what a process asks once
            order = Placed(("a",) * lines, (1,) * lines)
            counted.append(await statements(driver, driver.read(order, f"o{number}", 1)))
    assert counted[2] == counted[1]
    assert len(set(await inspection.rows(live, "intents", "scope"))) == 2 + MANY
