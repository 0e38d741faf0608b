"""Indexes that a deployment may ask for beside the migrations; made and removed without keeping anybody waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.identifiers import quoted
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

CORRELATION = "inbox_correlation"


async def pending(connection: Connection, schema: str, *, correlation: bool) -> list[str]:
    """Return the statements that bring the schema, whose migrations are applied, to what is wanted."""
    sql = Statements("projectionist.migrations", schema)
    valid: bool | None = await connection.fetchval(sql["has_index"], schema, CORRELATION)
    if valid is correlation or (valid is None and not correlation):
        return []
    home = quoted(schema, what="schema")
    drop = f"drop index concurrently if exists {home}.{CORRELATION}"
    create = (
        f"create index concurrently {CORRELATION} on {home}.inbox (correlation) where correlation is not null"
    )
    if not correlation:
        return [drop]
    return [create] if valid is None else [drop, create]


async def apply(connection: Connection, statements: list[str]) -> None:
    """Run them, however long that takes; what was interrupted is made anew by the next call."""
    if statements:
        await connection.execute("set statement_timeout = 0")
    for statement in statements:
        await connection.execute(statement)
