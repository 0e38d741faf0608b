"""Which duty a role of the database needs for each command, and what a refusal by PostgreSQL means in one of them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from projectionist.core.postgres.rights import Duty
from projectionist.core.task_groups import leaves

if TYPE_CHECKING:
    from projectionist.core.errors import ProjectionistError

_RIGHTS = "42501"
_LOOKING: Sequence[str] = ("list", "show", "watch")
COMMANDS: Mapping[str, Duty | None] = {
    "adopt": Duty.OPERATOR,
    "asyncapi": None,
    "audit": Duty.OBSERVER,
    "audit-stream": None,
    "bench": None,
    "breaker": Duty.OPERATOR,
    "completion": None,
    "console": Duty.OPERATOR,
    "demo": None,
    "dev": None,
    "doctor": Duty.OBSERVER,
    "events": Duty.OPERATOR,
    "generations": Duty.OWNER,
    "incidents": Duty.OPERATOR,
    "init": None,
    "journey": Duty.OBSERVER,
    "migrate": Duty.OWNER,
    "models": Duty.OBSERVER,
    "observe": Duty.OBSERVER,
    "operations": Duty.OPERATOR,
    "outbox": Duty.OPERATOR,
    "parked": Duty.OPERATOR,
    "pause": Duty.OPERATOR,
    "preview": Duty.RUNNER,
    "purge": Duty.RUNNER,
    "quarantine": Duty.OPERATOR,
    "rebuild": Duty.OWNER,
    "recompute": Duty.RUNNER,
    "relay": Duty.RELAY,
    "replay": Duty.RUNNER,
    "reset": Duty.OWNER,
    "resume": Duty.OPERATOR,
    "retire": Duty.OWNER,
    "erase": Duty.OWNER,
    "roles": Duty.OWNER,
    "row": Duty.RUNNER,
    "run": Duty.RUNNER,
    "status": Duty.OBSERVER,
    "verify": Duty.RUNNER,
    "views": Duty.OPERATOR,
    "wait": Duty.OBSERVER,
}
"""None: it asks no database, or one of its own."""


def duty_of(args: argparse.Namespace) -> Duty | None:
    """Return the duty that a command takes with these arguments. Pure."""
    name = args.command.__name__.rpartition(".")[2].replace("_", "-")
    if getattr(args, "act", None) in _LOOKING and not getattr(args, "reveal", False):
        return Duty.OBSERVER
    return COMMANDS[name]


def explained(args: argparse.Namespace, error: BaseException) -> ProjectionistError | None:
    """Return what to say where PostgreSQL has refused a right; None where it is about something else."""
    refused = next((one for one in leaves(error) if getattr(one, "sqlstate", None) == _RIGHTS), None)
    duty = duty_of(args)
    if refused is None or duty is None:
        return None
    return asyncio.run(_explained(refused, duty))


async def _explained(error: BaseException, duty: Duty) -> ProjectionistError:
    from projectionist.core.postgres.connections import connect  # noqa: PLC0415  every call imports this module
    from projectionist.core.postgres.rights import RightMissing, ownership, refusal  # noqa: PLC0415
    from projectionist.ops.cli.find_servers import settings  # noqa: PLC0415

    found = settings()
    connection = await connect(found.postgres, application_name="projectionist rights")
    try:
        told = await refusal(connection, found.postgres.schema, error, duty)
        if told is not None:
            return told
        whose = await ownership(connection, found.postgres.schema)
    finally:
        await connection.close()
    return RightMissing(
        f"role {whose.role!r} of the database may not do this: {error}",
        remedy=f"It takes the owner of the tables: run it as {whose.owner!r}, or make this role its member",
    )
