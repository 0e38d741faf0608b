"""What a database has been told to write, by its own count."""

from __future__ import annotations

from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import eventually

Writes = list[tuple[str, int, int, int]]

_OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state is not null"


async def writes(harness: ConsumerHarness) -> Writes:
    """Rows that were ever inserted, updated and deleted, by table.

    A session tells what it has done when it ends, so all others are ended first; the harness opens new ones.
    """
    connection = await harness.own_connection()

    async def alone() -> bool:
        await connection.execute(f"select pg_terminate_backend(pid) {_OTHERS}")
        return not await connection.fetchval(f"select count(*) {_OTHERS}")

    try:
        await eventually(alone)
        rows = await connection.fetch(
            "select schemaname || '.' || relname, n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables order by 1"
        )
    finally:
        await connection.close()
    return [tuple(row) for row in rows]
