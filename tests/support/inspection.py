"""Reads of our own tables for tests: what they are called, and what their columns are called, is said here alone.

Each read takes the harness first; `reaches` waits until one of them answers what is wanted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import eventually

P = ParamSpec("P")


async def reaches(
    wanted: object, read: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Wait until a read answers what is wanted."""

    async def reached() -> bool:
        found = await read(*args, **kwargs)
        assert found == wanted, f"{read.__name__} says {found!r}, not {wanted!r}"
        return True

    await eventually(reached)


async def count_inbox(harness: ConsumerHarness, *, state: str | None = None) -> int:
    """Count the rows of the inbox, of one state or of all."""
    return await _count(harness, "inbox", state=state)


async def count_parked(harness: ConsumerHarness, *, cause: str | None = None) -> int:
    """Count the parked events, of one cause or of all."""
    return await _count(harness, "parked", cause=cause)


async def count_quarantined(harness: ConsumerHarness, *, state: str | None = None) -> int:
    """Count the entries of quarantine, of one state or of all."""
    return await _count(harness, "quarantine", state=state)


async def count_intents(harness: ConsumerHarness, *, state: str | None = None) -> int:
    """Count the intents, staged ones too, of one state or of all."""
    return await _count(harness, "intents", state=state)


async def count_incidents(
    harness: ConsumerHarness, *, kind: str | None = None, unsettled: bool = False
) -> int:
    """Count the incidents, of one kind or of all, and of those that nobody has settled where asked so."""
    return await _count(harness, "incidents", "closed is null" if unsettled else "true", kind=kind)


async def count_decisions(harness: ConsumerHarness) -> int:
    """Count the decisions of operators and of the runner that are on record."""
    return await _count(harness, "decisions")


async def count_duplicates(harness: ConsumerHarness) -> int:
    """Count the messages that brought an event again."""
    return await _count(harness, "duplicates")


async def count_marks(harness: ConsumerHarness, table: str) -> int:
    """Count the rows of a table of marks: crash_marks, dirty_marks or settled_batches."""
    return await _count(harness, table)


async def count_running(harness: ConsumerHarness) -> int:
    """Count the runners that have not said that they stopped, one a consumer and process."""
    return await _count(harness, "runners", "stopped is null")


async def count_outcomes(harness: ConsumerHarness, outcome: str) -> int:
    """Add up what the counters say of one outcome, over types and runners."""
    query = "select coalesce(sum(n), 0)::int from {s}.counters where outcome = $1"
    return int(await harness.value(query, outcome))


async def consumer_number(harness: ConsumerHarness, name: str | None = None) -> int:
    """Return the number of the consumer of this name, or of the only one."""
    return int(await _of_consumer(harness, "number", name))


async def durable_name(harness: ConsumerHarness, name: str | None = None) -> str:
    """Return the name of the durable of the consumer of this name, or of the only one."""
    return str(await _of_consumer(harness, "durable", name))


async def own_type(harness: ConsumerHarness) -> str | None:
    """Return the aggregate type that the only consumer has taken for its own."""
    found: str | None = await _of_consumer(harness, "own_type", None)
    return found


async def parked_error(harness: ConsumerHarness) -> str:
    """Return the error of the only parked event."""
    return str(await harness.value("select error from {s}.parked"))


async def parked_attempts(harness: ConsumerHarness) -> int:
    """Return how often the only parked event has been tried."""
    return int(await harness.value("select attempts from {s}.parked") or 0)


async def head_state(harness: ConsumerHarness, aggregate: str | None = None) -> str | None:
    """Return the head of an aggregate (`type/id`), or of the only one."""
    found: str | None = await _of_position(harness, "head", aggregate)
    return found


async def head_version(harness: ConsumerHarness) -> int | None:
    """Return the version that the only aggregate stands at."""
    found: int | None = await _of_position(harness, "version", None)
    return found


async def ack_floor(harness: ConsumerHarness) -> int | None:
    """Return the ack floor on record of the only consumer."""
    found: int | None = await harness.value("select floor from {s}.floors")
    return found


async def incidents(harness: ConsumerHarness) -> list[tuple[Any, ...]]:
    """Return kind and stream sequence of each incident, by sequence."""
    return await harness.fetch("select kind, seq from {s}.incidents order by seq, kind")


async def duplicates(harness: ConsumerHarness) -> list[tuple[Any, ...]]:
    """Return stream sequence and event id of each message that brought an event again, by sequence."""
    return await harness.fetch("select seq, id from {s}.duplicates order by seq")


async def _of_consumer(harness: ConsumerHarness, column: str, name: str | None) -> Any:
    rows = await harness.fetch(
        f"select {column} from {{s}}.consumers where name = coalesce($1, name) order by number", name
    )
    assert rows, "no such consumer yet"
    return rows[0][0]


async def _of_position(harness: ConsumerHarness, column: str, aggregate: str | None) -> Any:
    return await harness.value(
        f"select {column} from {{s}}.positions where aggregate = coalesce($1, aggregate)", aggregate
    )


async def _count(harness: ConsumerHarness, table: str, condition: str = "true", **equal: object) -> int:
    given = [(column, value) for column, value in equal.items() if value is not None]
    conditions = [condition, *(f"{column} = ${n}" for n, (column, _) in enumerate(given, 1))]
    where = " and ".join(conditions)
    return int(
        await harness.value(
            f"select count(*) from {{s}}.{table} where {where}", *(value for _, value in given)
        )
    )
