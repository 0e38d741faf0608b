"""Writes each act of an operator to the log of the observer, with its hash: a copy out of the database owner's reach.

Not where the act is done, which may be a terminal of somebody's: every act is a row, whoever has written it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

log = logging.getLogger("projectionist.audit")


class AuditLog:
    """The acts that were not written yet, by this process: after a restart those of a day come again, by place."""

    def __init__(self, schema: str) -> None:
        self._select = Statements("projectionist.runner", schema)["select_new_acts"]
        self._place: int | None = None

    async def step(self, connection: Connection) -> None:
        """Write what has come."""
        for row in await connection.fetch(self._select, self._place):
            act = dict(row) | {"detail": msgspec.json.decode(row["detail"])}
            log.info("act %s", msgspec.json.encode(act).decode())
            self._place = row["place"]
        self._place = self._place or 0
        announce("audit.logged")
