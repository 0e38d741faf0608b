"""Runs the statements of a usual batch over nothing, before there is one: the first event finds them prepared.

A driver prepares a statement where it is run first, and asks for the types of its arguments; PostgreSQL makes the plans
of its first runs anew. Together that is ten times what a lone event takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

WARM_UPS = 6
"""PostgreSQL plans a statement anew five times; the sixth run may find the plan that stays."""

_arguments = re.compile(r"\$([0-9]+)").findall


async def warm_up(connection: Connection, statements: Iterable[str]) -> None:
    """Run each of them with nulls for all arguments, so that it locks, reads and writes nothing."""
    for text in statements:
        await connection.fetch(text, *[None] * max(map(int, _arguments(text)), default=0))
