"""Doubts intents after a failover: a database that took another one's place may lack attempts that were made.

The start of an attempt is on the disk of one machine, unless commits wait for a standby. So every intent from before
the schema moved (a failover, a restore, an adopted copy: `core.postgres.database_identity`) may have been sent,
whatever its row says, and is treated like an attempt without a recorded reply.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.postgres.statements import Statements

log = logging.getLogger("projectionist.outbox")


async def judge(connection: Connection, sql: Statements) -> None:
    """Doubt all intents where the owner is another than relays last sent for; before any lease."""
    row = await connection.fetchrow(sql["select_owner_tokens"])
    if row is None:
        raise asyncpg.CannotConnectNowError("the row that names the owner of this schema cannot be had yet")
    if row["here"] == row["before"]:
        return
    if row["before"] is not None:
        # Intents that are staged here may have been unpacked, and sent, by relays of the other database.
        await unpack_all(connection, sql)
    if await connection.fetchval(sql["set_owner_token"], row["here"]):
        log.warning(
            "PostgreSQL has failed over: intents from before may have been sent, and are resolved like unknown ones"
        )
        announce("relay.failed_over")
