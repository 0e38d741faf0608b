"""Takes a view out of its set without a deploy, and lets it join again; no batch is open at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all
from projectionist.runner.admin.pause import alone
from projectionist.runner.database.queries import Queries, RebuildError, record_act

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection


class CannotDetach(RebuildError):
    """The view cannot leave its set, or come back, as things are. Nothing was changed."""


class SetView(msgspec.Struct, frozen=True):
    """Says where a view stands in its set after an act."""

    consumer: str
    view: str
    state: str
    changed: bool
    scheduled: int
    """Intents of it that wait for their time, and are sent then all the same."""


async def detach(connection: Connection, schema: str, name: str, act: Act) -> SetView:
    """Have batches leave a view of a set out from now on; its rows stay as they are.

    What failed on all views together is tried again without it. Raises NotThere, CannotDetach or Busy.
    """
    return await _change(connection, schema, name, act, "detached")


async def attach(connection: Connection, schema: str, name: str, act: Act) -> SetView:
    """Let a view that was detached join its set again: a build brings it to where the others are.

    Raises NotThere, CannotDetach or Busy.
    """
    return await _change(connection, schema, name, act, "joining")


async def _change(connection: Connection, schema: str, name: str, act: Act, state: str) -> SetView:
    queries, word = Queries(connection, schema), "detach" if state == "detached" else "attach"
    await unpack_all(connection, Statements("projectionist.outbox", schema))
    consumer = (await _found(queries, name))["name"]
    async with alone(connection, schema, consumer, f"{word} a view"):
        row = await _found(queries, name)
        told = SetView(
            consumer,
            row["view_name"],
            state,
            _changes(row, state),
            row["scheduled"] if state == "detached" else 0,
        )
        if told.changed:
            await queries.run("set_view_state", row["view"], state)
            await record_act(queries, row["number"], f"{word}-view", told.view, act)
    if told.changed:
        announce(f"view.{state}")
        return told
    return msgspec.structs.replace(told, state=row["state"])


async def _found(queries: Queries, name: str) -> Record:
    row = await queries.row("select_set_view", name)
    if row is None or row["view_name"] == row["name"]:
        raise NotThere(
            f"no set has a view {name!r}", remedy="`projectionist status --json` lists the views of sets"
        )
    return row


def _changes(row: Record, state: str) -> bool:
    """Return whether the view is to have another state; raises CannotDetach where it cannot. Pure."""
    name = f"{row['name']}.{row['view_name']}"
    if row["state"] == "retired":
        raise CannotDetach(f"{name} is retired: no code lists it", remedy="List it in its set, and migrate")
    if state == "joining":
        return bool(row["state"] == "detached")
    if row["state"] == "detached":
        return False
    if row["is_built"]:
        raise CannotDetach(
            f"a build of {name} is open",
            remedy="Finish it, or `projectionist rebuild --abort`, and try again",
        )
    if row["lookers"]:
        lookers = [f"{row['name']}.{looker}" for looker in row["lookers"]]
        raise CannotDetach(
            f"{name} is looked up by {', '.join(lookers)}, which could not go on without it, nor the set",
            remedy=f"`projectionist views detach {lookers[0]}` first",
        )
    if row["state"] == "live" and not row["others"]:
        raise CannotDetach(
            f"{name} is the only view of its set that batches write",
            remedy=f"`projectionist pause {row['name']}`",
        )
    return True
