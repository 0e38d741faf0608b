"""Operations at a terminal: carried out or watched to their end, and told in lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.states import OperationOutcome
from projectionist.ops.cli.output import Exit, note, warn
from projectionist.runner.operations import parked_group
from projectionist.runner.operations.operation import OperationReport
from projectionist.runner.operations.operation_store import OperationStore

if TYPE_CHECKING:
    from projectionist.ops.cli.database import Database
    from projectionist.runner.operations.operation_store import Grant

TOLD_S = 2.0
LOOKED_S = 0.5


class ProgressLines:
    """Tells how far an operation is, now and then."""

    def __init__(self) -> None:
        self._told = clock.now()

    def __call__(self, report: OperationReport) -> None:
        """Say it, unless it was said just now."""
        if clock.now() - self._told >= TOLD_S:
            self._told = clock.now()
            note(line(report))


async def carry_out(db: Database, grant: Grant, actor: str) -> OperationReport:
    """Carry an operation out here. Whoever interrupts the command stops it."""
    note(f"operation {grant.number}: `projectionist operations watch {grant.number}` follows it elsewhere")
    try:
        return await parked_group.carry_out(
            db.settings.postgres, grant, actor, ProgressLines(), interrupted=OperationOutcome.STOPPED
        )
    except asyncio.CancelledError:
        warn(f"operation {grant.number} was interrupted: `projectionist operations show {grant.number}`")
        raise


async def watch(db: Database, number: int) -> OperationReport:
    """Tell how far an operation is until it has ended, or nobody carries it out."""
    store, lines = OperationStore(db.connection, db.schema), ProgressLines()
    while (found := await store.show(number)).is_carried_out:
        lines(found)
        await asyncio.sleep(LOOKED_S)
    return found


def line(one: OperationReport) -> str:
    """Return how an operation is, in a line."""
    failed = f", {one.failed:,} failed again" if one.failed else ""
    refused = f", {one.refused:,} refused" if one.refused else ""
    ends = f", about {one.left_s:.0f} s" if one.left_s is not None else ""
    far = f"{one.done:,} of {one.matched:,} done{failed}{refused}, {one.left:,} left{ends}"
    return f"operation {one.number}: {one.state}: {far}"


def as_row(one: OperationReport) -> dict[str, Any]:
    """Return an operation for programs."""
    row: dict[str, Any] = msgspec.to_builtins(one)
    return row | {"state": one.state, "left": one.left, "per_s": one.per_s, "left_s": one.left_s}


def exit_code(one: OperationReport) -> Exit:
    """Return whether somebody has to look at it."""
    return Exit.DONE if one.is_well or one.is_carried_out else Exit.ATTENTION
