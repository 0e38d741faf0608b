"""Indexes that a deployment may ask for beside the migrations; made and removed without keeping anybody waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.identifiers import quoted
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

INDEXES = {
    "inbox_correlation": "(correlation) where correlation is not null",
    "inbox_trace": "(split_part(traceparent, '-', 2)) where traceparent is not null",
}
"""Of the inbox, by name."""


async def pending(connection: Connection, schema: str, *, correlation: bool, trace: bool) -> list[str]:
    """Return the statements that bring the schema, whose migrations are applied, to what is wanted."""
    asked = {"inbox_correlation": correlation, "inbox_trace": trace}
    return [
        statement
        for name, wanted in asked.items()
        for statement in await _pending(connection, schema, name, wanted=wanted)
    ]


async def _pending(connection: Connection, schema: str, name: str, *, wanted: bool) -> list[str]:
    sql = Statements("projectionist.migrations", schema)
    valid: bool | None = await connection.fetchval(sql["has_index"], schema, name)
    if valid is wanted or (valid is None and not wanted):
        return []
    home = quoted(schema, what="schema")
    drop = f"drop index concurrently if exists {home}.{name}"
    create = f"create index concurrently {name} on {home}.inbox {INDEXES[name]}"
    if not wanted:
        return [drop]
    return [create] if valid is None else [drop, create]


async def apply(connection: Connection, statements: list[str]) -> None:
    """Run them, however long that takes; what was interrupted is made anew by the next call."""
    if statements:
        await connection.execute("set statement_timeout = 0")
    for statement in statements:
        await connection.execute(statement)
