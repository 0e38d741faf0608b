"""Reads the audit trail: who has done what, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of acts; what is None does not matter."""

    consumer: str | None = None
    who: str | None = None
    action: str | None = None
    about: str | None = None
    """A part of what the act was on."""
    newer_s: float | None = None
    before: int | None = None
    """Only acts with a lower number: how whoever has seen some goes on."""


async def acts(
    connection: Connection, schema: str, chosen: AuditFilter, *, limit: int
) -> list[dict[str, Any]]:
    """Return so many of the chosen, the newest last."""
    rows = await connection.fetch(
        Statements("projectionist.runner", schema)["select_audit_log"],
        *msgspec.structs.astuple(chosen),
        limit,
    )
    return [dict(row) | {"detail": msgspec.json.decode(row["detail"])} for row in rows]
