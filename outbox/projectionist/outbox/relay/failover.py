"""What a failover means for intents: a database that took another one's place may lack attempts that were made.

The start of an attempt is on the disk of one machine, unless commits wait for a standby. So whatever was asked for
before the schema moved (a failover, a restore, an adopted copy: `core.owner`) may have been sent, whatever its row
says, and is treated like an attempt that nobody told the end of.
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
    """Have what is there be doubted where the owner is another than relays last sent for; before any lease."""
    row = await connection.fetchrow(sql["select_owner_tokens"])
    if row is None:
        raise asyncpg.CannotConnectNowError("the row that names the owner of this schema cannot be had yet")
    if row["here"] == row["before"]:
        return
    if row["before"] is not None:
        await unpack_all(
            connection, sql
        )  # what is still staged here may have been opened, and sent, over there
    if await connection.fetchval(sql["set_owner_token"], row["here"]):
        log.warning(
            "PostgreSQL has failed over: what was asked for before may have been sent, and is looked after"
        )
        announce("relay.failed_over")
