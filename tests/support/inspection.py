"""Reads of our own tables for tests: what they are called, and what their columns are called, is said here alone.

Each read takes the harness first; `reaches` waits until one of them answers what is wanted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import eventually

P = ParamSpec("P")

FIELDS = {
    "attempts": "intent",
    "audit": "action client number object os_user reason session_role who",
    "audit_chain": "number place",
    "build_progress": "done rates",
    "builds": "number",
    "code_fingerprints": "",
    "consumer_breakers": "openings state",
    "consumers": "durable epoch name number paused",
    "counters": "n outcome runner type",
    "crash_marks": "",
    "decisions": "actor aggregate data hash headers id incarnation kind number reason seq source upto version",
    "dirty_marks": "mark",
    "duplicates": "id seq",
    "floors": "acked floor purged purged_from written",
    "generations": "build generation state view",
    "held_counts": "",
    "inbox": "consumer data hash id incarnation seq state",
    "incidents": "aggregate closed detail id kind seq settled version",
    "intents": "aggregate baggage body class destination id key ordering provider scope seq slot source "
    "state traceparent version view",
    "minute_counts": "applied",
    "operation_items": "operation state",
    "operations": "done ended kind number outcome",
    "own_names": "name",
    "parked": "aggregate attempts baggage budget cause due edited_hash error error_class hash id ordered version view",
    "parked_counts": "",
    "positions": "aggregate due finding head owner parked version",
    "quarantine": "aggregate attempts data detail due headers id reason seq state subject version",
    "runners": "instance leased_until number stopped",
    "setbacks": "consumer",
    "settled_batches": "",
    "views": "code effects_incarnation effects_mark generation name number own_type revision state",
}
"""The tables that tests read, and what they call the fields: as the columns, unless `COLUMNS` has another name."""
COLUMNS: dict[tuple[str, str], str] = {}
"""The columns that are not called as tests call the field: by table and field."""


async def reaches(
    wanted: object, read: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Wait until a read answers what is wanted."""

    async def reached() -> bool:
        found = await read(*args, **kwargs)
        assert found == wanted, f"{read.__name__} says {found!r}, not {wanted!r}"
        return True

    await eventually(reached)


async def rows(
    harness: ConsumerHarness, table: str, *fields: str, order: str = "", **equal: object
) -> list[tuple[Any, ...]]:
    """Return these fields of the rows whose fields have these values; None: those that have none."""
    wanted = ", ".join(_column(table, field) for field in fields)
    sql, values = _where(table, equal)
    if order:
        sql += " order by " + ", ".join(_column(table, field) for field in order.split(", "))
    return await harness.fetch(f"select {wanted} from {sql}", *values)


async def value(harness: ConsumerHarness, table: str, field: str, *, order: str = "", **equal: object) -> Any:
    """Return one field of the first of these rows; None where there is none."""
    found = await rows(harness, table, field, order=order, **equal)
    return found[0][0] if found else None


async def count(harness: ConsumerHarness, table: str, **equal: object) -> int:
    """Count the rows whose fields have these values."""
    sql, values = _where(table, equal)
    return int(await harness.value(f"select count(*) from {sql}", *values))


def _where(table: str, equal: dict[str, object]) -> tuple[str, list[object]]:
    """A table and the conditions on its rows, with the values that they compare with."""
    conditions, values = ["true"], []
    for field, found in equal.items():
        if found is None:
            conditions.append(f"{_column(table, field)} is null")
        else:
            values.append(found)
            conditions.append(f"{_column(table, field)} = ${len(values)}")
    return f"{{s}}.{table} where {' and '.join(conditions)}", values


def _column(table: str, field: str) -> str:
    assert field in FIELDS[table].split(), f"say in FIELDS that tests read {field} of {table}"
    return COLUMNS.get((table, field), field)


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
    given = {"closed": None} if unsettled else {}
    return await count(harness, "incidents", **given, **({} if kind is None else {"kind": kind}))


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
    return await count(harness, "runners", stopped=None)


async def count_outcomes(harness: ConsumerHarness, outcome: str) -> int:
    """Add up what the counters say of one outcome, over types and runners."""
    query = "select coalesce(sum(n), 0)::int from {s}.counters where outcome = $1"
    return int(await harness.value(query, outcome))


async def consumer_number(harness: ConsumerHarness, name: str | None = None) -> int:
    """Return the number of the consumer of this name, or of the only one."""
    return int(await _of_consumer(harness, "number", name))


async def view_number(harness: ConsumerHarness, name: str | None = None) -> int:
    """Return the number of the view of this name, or of the only one."""
    return int(await _of_consumer(harness, "number", name, "views"))


async def durable_name(harness: ConsumerHarness, name: str | None = None) -> str:
    """Return the name of the durable of the consumer of this name, or of the only one."""
    return str(await _of_consumer(harness, "durable", name))


async def own_type(harness: ConsumerHarness) -> str | None:
    """Return the aggregate type that the only consumer has taken for its own."""
    found: str | None = await _of_consumer(harness, "own_type", None, "views")
    return found


async def parked_error(harness: ConsumerHarness) -> str:
    """Return the error of the only parked event."""
    return str(await value(harness, "parked", "error"))


async def parked_attempts(harness: ConsumerHarness) -> int:
    """Return how often the only parked event has been tried."""
    return int(await value(harness, "parked", "attempts") or 0)


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
    found: int | None = await value(harness, "floors", "floor")
    return found


async def incidents(harness: ConsumerHarness) -> list[tuple[Any, ...]]:
    """Return kind and stream sequence of each incident, by sequence."""
    return await rows(harness, "incidents", "kind", "seq", order="seq, kind")


async def duplicates(harness: ConsumerHarness) -> list[tuple[Any, ...]]:
    """Return stream sequence and event id of each message that brought an event again, by sequence."""
    return await rows(harness, "duplicates", "seq", "id", order="seq")


async def _of_consumer(
    harness: ConsumerHarness, column: str, name: str | None, table: str = "consumers"
) -> Any:
    given = {} if name is None else {"name": name}
    found = await rows(harness, table, column, order="number", **given)
    assert found, "no such consumer yet"
    return found[0][0]


async def _of_position(harness: ConsumerHarness, column: str, aggregate: str | None) -> Any:
    given = {} if aggregate is None else {"aggregate": aggregate}
    return await value(harness, "positions", column, **given)


async def _count(harness: ConsumerHarness, table: str, **equal: object) -> int:
    return await count(harness, table, **{name: one for name, one in equal.items() if one is not None})
