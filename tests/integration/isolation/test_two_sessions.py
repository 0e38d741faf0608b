"""Two sessions, one after the other on the same rows: who waits for whom, and what the second sees when it goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.isolation import GIVEN, PAIRS, UNPAIRED, Asked, C, Call, Pair, locking_statements
from tests.support.servers import SCHEMA, Servers
from tests.support.waiting import HANG_S, eventually

from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHERS = os.environ.get("ISOLATION_POSTGRES", "").split()
"""URLs of migrated databases of other versions, which are tried as well."""
WAITING = "select $1 = any (pg_blocking_pids($2))"
NUMBERS = count(1_000)


@pytest.fixture(scope="module", params=["", *OTHERS])
def url(servers: Servers, request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database."""
    if request.param:
        yield request.param
        return
    made = servers.make_database()
    yield made
    servers.drop_database(made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(url: str) -> AsyncIterator[list[asyncpg.Connection[Any]]]:
    """Two sessions, and one that looks at them."""
    opened = [await asyncpg.connect(url) for _ in range(3)]
    yield opened
    for one in opened:
        await one.close()


async def run(session: asyncpg.Connection[Any], call: Call, consumer: int) -> str:
    """Run a statement; the tag of its command."""
    given = [await _given(session, one, consumer) for one in call.given]
    statement = await session.prepare(Statements(call.package, SCHEMA)[call.statement])
    await statement.fetch(*given)
    return statement.get_statusmsg() or ""


async def _given(session: asyncpg.Connection[Any], one: Any, consumer: int) -> Any:
    match one:
        case Asked():
            rows = await session.fetch(one.query.format(s=SCHEMA, c=consumer))
            return [row[0] for row in rows]
        case str():
            return one.format(c=consumer)
        case list():
            return [await _given(session, each, consumer) for each in one]
        case _:
            return consumer if one is C else one


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
async def test_the_second_of_two_sessions_waits_or_passes_by_and_sees_what_is_there(
    sessions: list[asyncpg.Connection[Any]], pair: Pair, ending: str
) -> None:
    first, second, look = sessions
    consumer = next(NUMBERS)
    await look.execute(GIVEN.format(s=SCHEMA, c=consumer))
    done = pair.rolled_back if ending == "rollback" and pair.rolled_back else pair.committed

    await first.execute("begin")
    await second.execute("begin")
    try:
        await run(first, pair.first, consumer)
        running = asyncio.create_task(run(second, pair.second, consumer))
        if pair.waits:
            pids = first.get_server_pid(), second.get_server_pid()
            await eventually(lambda: look.fetchval(WAITING, *pids))
            assert not running.done()
            await first.execute(ending)
        assert await asyncio.wait_for(running, HANG_S) == done
    finally:
        await first.execute("rollback")
        await second.execute("rollback")


async def test_each_statement_that_locks_is_in_a_pair_or_says_why_not() -> None:
    paired = {call.statement for pair in PAIRS for call in (pair.first, pair.second)}
    locking = locking_statements()

    assert locking <= paired | UNPAIRED.keys(), "enter them in tests/support/isolation.py"
    assert UNPAIRED.keys() <= locking - paired
