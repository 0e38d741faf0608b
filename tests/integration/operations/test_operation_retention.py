"""Operations that ended long ago go, by whoever purges; what has not ended stays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.duties import with_duties, working_as
from tests.support.parked_operations import failed_orders
from tests.support.retention import DAY, age, purge
from tests.support.servers import SCHEMA

from projectionist.core.operator import Act
from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.rights import Duty
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import OperationOutcome
from projectionist.runner.admin.parked_queries import ParkedFilter
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.operations.operation_store import OperationStore

pytestmark = pytest.mark.asyncio


async def begun(live: ConsumerHarness, *, ended: bool) -> None:
    """An operation on three events."""
    connection = await connect(live.settings.postgres, application_name="test")
    store = OperationStore(connection, "projectionist")
    given: dict[str, Any] = {"rate": 200, "patience_s": 30}
    act = Act("ann", "mended")
    grant = await store.begin(OperationKind.RETRY_PARKED, ParkedFilter(), act, "a host", **given)
    assert grant is not None
    if ended:
        await store.end(grant, OperationOutcome.STOPPED)
    await connection.close()


async def test_operations_that_ended_long_ago_go_with_their_items_and_their_acts_stay(
    live: ConsumerHarness,
) -> None:
    s = await failed_orders(live, 3)
    for _ in range(11):
        await begun(live, ended=True)
    await begun(live, ended=False)
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]):
        await age(live, 30)
        await purge(live, s.Orders)
        assert await inspection.count(live, "operations") == 12
        await purge(live, s.Orders, operation_retention_s="forever")
        assert await inspection.count(live, "operations") == 12
        await purge(live, s.Orders, operation_retention_s=29 * DAY)
    assert await inspection.rows(live, "operations", "number") == [(12,)]
    assert await inspection.rows(live, "operation_items", "operation") == [(12,)] * 3
    assert await inspection.count(live, "audit", action="begin-operation") == 12


async def test_operations_with_many_items_go_a_few_at_a_time_and_one_at_least(live: ConsumerHarness) -> None:
    await failed_orders(live, 1)
    for _ in range(5):
        await begun(live, ended=True)
    for number, items in enumerate((2_000_000, 60, 30, 11, 5), start=1):
        await live.pool.execute(
            f"update {SCHEMA}.operations set matched = $2 where number = $1", number, items
        )
    await age(live, 30)
    sql = Statements("projectionist.runner", SCHEMA)["delete_ended_operations"]
    before = datetime.now(UTC)
    steps = [await live.pool.fetchval(sql, before, most, 100) for most in (1_000, 1_000, 1, 1_000, 1_000)]
    assert steps == [1, 2, 1, 1, 0]
    assert await inspection.count(live, "operation_items") == 0


async def test_of_an_operation_no_text_of_an_error_is_kept(live: ConsumerHarness) -> None:
    await failed_orders(live, 1)
    connection = await connect(live.settings.postgres, application_name="test")
    store = OperationStore(connection, "projectionist")
    chosen = ParkedFilter(error="ValueError: cannot digest bad …")
    given: dict[str, Any] = {"rate": 200, "patience_s": 30}
    kind, act = OperationKind.RETRY_PARKED, Act("ann", "mended")
    assert await store.begin(kind, chosen, act, "a host", **given) is not None
    await connection.close()
    for table in ("operations", "operation_items", "audit"):
        assert await live.value(f"select count(*) from {{s}}.{table} t where t::text ~ 'digest bad'") == 0
