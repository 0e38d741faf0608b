"""Tells what is known of one consumer beside its status, read by one statement, for whoever shows it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.runner.consumers.status import Counted

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection


class ConsumerAct(msgspec.Struct, frozen=True):
    """Something that somebody has done about it."""

    at: datetime
    who: str
    action: str
    reason: str | None


class RegisteredView(msgspec.Struct, frozen=True, kw_only=True):
    """A view as it is on record, with what its consumer reads."""

    view_name: str
    kind: str
    state: str
    revision: int
    code: str
    """The fingerprint of the code that runs, as digits."""
    durable: str | None
    sequence: str
    subjects: str


class ConsumerState(msgspec.Struct, frozen=True):
    """Holds what was found."""

    counted: list[Counted]
    """By event type."""
    views: list[RegisteredView]
    acts: list[ConsumerAct]
    """The newest, the last one last."""
    made_by: str
    """The fingerprint of the code that has made the rows of its only view; "" where nothing remembers it."""


async def consumer_state(connection: Connection, schema: str, name: str, acts: int) -> ConsumerState:
    """Return it for the consumer of this name, with so many acts; without views if there is none."""
    sql = Statements("projectionist.ops", schema)["select_consumer_state"]
    row = await connection.fetchrow(sql, name, acts)
    assert row is not None, "it always answers"
    decode = msgspec.json.decode
    views = decode(row["views"])
    for each in views:
        each["code"] = each["code"].removeprefix("\\x")
    return ConsumerState(
        decode(row["counted"], type=list[Counted]),
        msgspec.convert(views, list[RegisteredView]),
        decode(row["acts"], type=list[ConsumerAct]),
        "" if row["made_by"] is None else bytes(row["made_by"]).hex(),
    )
