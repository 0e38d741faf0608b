"""Operations at a terminal: carried out or watched to their end, and told in lines."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.operator import Act, NotThere
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.error_text import said
from projectionist.core.states import OperationOutcome
from projectionist.core.testpoints import announce
from projectionist.ops.cli.output import Exit, note, say, say_json, warn
from projectionist.runner.admin.bulk_actions import named
from projectionist.runner.operations import group
from projectionist.runner.operations.operation import OperationKind, OperationReport
from projectionist.runner.operations.operation_store import OperationStore, lent_store
from projectionist.runner.rebuild.build_lease import owner

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from projectionist.ops.cli.database import Database
    from projectionist.runner.operations.operation import Chosen, ItemReport
    from projectionist.runner.operations.operation_store import Grant

NAMED = 1_000
"""So many of what it acted on are named where the command ends: an operation may have had a million."""
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


async def operate(db: Database, kind: str, chosen: Chosen, args: argparse.Namespace) -> int:
    """Begin an operation on all that is chosen, carry it out here, and say what it did."""
    store, act = OperationStore(db.connection, db.schema), Act(args.actor, args.reason)
    pace = {"rate": args.rate, "patience_s": args.wait}
    grant = await store.begin(OperationKind(kind), chosen, act, owner(), **pace)
    if grant is None:
        return report(None, [], args)
    ended = await carry_out(db, grant, args.actor)
    return report(ended, await store.touched(ended.number, NAMED), args)


def report(one: OperationReport | None, items: Sequence[ItemReport], args: argparse.Namespace) -> int:
    """Say what an operation did, and what became of its first items; None: nothing was like what was chosen."""
    name = named(items, lambda item: item.name, _whole_name)
    refused = {name(item): item.note or "" for item in items if item.state == "refused"}
    changed = [name(item) for item in items if item.state != "refused"]
    failed = [name(item) for item in items if item.state == "failed"]
    done, again, refusals, left, said = _counts(one)
    if args.json:
        told = {"changed": changed, "failed": failed, "unchanged": refused, "left": left, "note": said}
        counts = {"changed": done, "failed": again, "unchanged": refusals}
        say_json({"act": args.act, "operation": one and one.number, **told, "counts": counts})
    else:
        say(f"{args.act}: {done:,} done" + (f", {again:,} of them failed again" if again else ""))
        for event, why in refused.items():
            say(f"{event}: {why}")
        if one is not None and refusals > len(refused):
            more = f"{refusals - len(refused):,} more were refused"
            warn(f"{more}: `projectionist operations show {one.number}` names the first")
        if said:
            warn(f"{said}; {left:,} left" if left else said)
    return Exit.DONE if one is not None and one.is_well else Exit.ATTENTION


def _counts(one: OperationReport | None) -> tuple[int, int, int, int, str]:
    """Return what was acted on, failed again, was refused, was not touched, and why it ended early."""
    if one is None:
        return 0, 0, 0, 0, ""
    return one.done + one.failed + one.tried, one.failed, one.refused, one.left - one.tried, one.note or ""


def _whole_name(item: ItemReport) -> str:
    if item.seq is None:
        return f"{item.id} of {item.source} ({item.consumer})"
    return f"{item.seq} of incarnation {item.incarnation} ({item.consumer})"


async def carry_out(db: Database, grant: Grant, actor: str) -> OperationReport:
    """Carry an operation out here. Whoever interrupts the command stops it."""
    note(f"operation {grant.number}: `projectionist operations watch {grant.number}` follows it elsewhere")
    try:
        return await group.carry_out(
            db.settings.postgres, grant, actor, ProgressLines(), interrupted=OperationOutcome.STOPPED
        )
    except asyncio.CancelledError:
        warn(f"operation {grant.number} was interrupted: `projectionist operations show {grant.number}`")
        raise


async def watch(db: Database, number: int) -> OperationReport | None:
    """Tell how far an operation is until it has ended, or nobody carries it out; None: it was done at once.

    Then it has left no row, and was there before. Raises NotThere where it was not. A PostgreSQL that goes away
    meanwhile is waited for, as who carries the operation out does.
    """
    store, lines, away = OperationStore(db.connection, db.schema), ProgressLines(), False
    found = await store.show(number)
    async with AsyncExitStack() as opened:
        while found.is_carried_out:
            announce("operation.watched")
            if not away:
                lines(found)
            await asyncio.sleep(LOOKED_S)
            try:
                if store.connection.is_closed():
                    await opened.aclose()
                    store = await opened.enter_async_context(lent_store(db.settings.postgres))
                found, away = await store.show(number), False
            except NotThere:
                return None
            except Exception as error:
                if not is_transient(error):
                    raise
                if not away:
                    warn(f"PostgreSQL does not answer, and is waited for: {said(error)}")
                away = True
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
