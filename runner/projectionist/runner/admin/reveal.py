"""Puts on record that somebody is shown content: a payload, an error's text, a header's value, the values of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection


async def record_reveal(connection: Connection, schema: str, things: Iterable[str], act: Act) -> None:
    """Record each of the things that an operator is shown; committed before any of it is."""
    sql = Statements("projectionist.runner", schema)
    await connection.execute(sql["insert_reveals"], act.actor, act.reason, sorted(set(things)))
