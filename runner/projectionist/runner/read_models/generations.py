"""The generations of a read model: the live one, those kept to go back to, and how they go."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.core.identifiers import quoted
from projectionist.core.testpoints import announce
from projectionist.runner.database.queries import (
    POSITIONS,
    Build,
    Queries,
    RebuildError,
    first_position,
    record_act,
)
from projectionist.runner.read_models.views import drop_tables, remembered, shown, views, withdraw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from projectionist.core.operator import Act
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition


READERS_MS = 100
"""How long the end of a generation waits for those who read it, and keeps batches waiting; it is tried again."""


class Generation(msgspec.Struct, frozen=True):
    """One physical build of a read model."""

    generation: int
    state: str
    revision: int
    created: datetime
    kept_until: datetime | None
    can_roll_back: bool
    tables: list[str]


async def generations(queries: Queries, view: int) -> list[Generation]:
    """Return those of a view that have tables, by number."""
    return [
        Generation(
            generation=row["generation"],
            state=row["state"],
            revision=row["revision"],
            created=row["created"],
            kept_until=row["kept_until"],
            can_roll_back=row["state"] == "kept" and row["build"] is not None,
            tables=[
                one.physical(queries.schema) for one in views(remembered(row["tables"]), row["generation"])
            ],
        )
        for row in await queries.rows("select_generations", view)
    ]


async def drop(
    queries: Queries, view: int, generation: int, *, consumer: int = 0, act: Act | None = None
) -> None:
    """Drop a kept generation of a view; raises RebuildError for any other, and where it is being read.

    `act`: who drops it and why, which is put on record for this consumer.
    """
    try:
        async with queries.connection.transaction():  # no batch writes it: none is kept waiting
            before = await queries.value("set_lock_timeout")
            await _drop(queries, view, generation)
            if act is not None:
                await record_act(queries, consumer, "drop-generation", f"generation {generation}", act)
            await queries.connection.execute(
                f"set local lock_timeout = '{before}'"
            )  # of the caller's transaction
    except asyncpg.LockNotAvailableError:
        raise RebuildError(
            f"generation {generation} is in use: a session reads it",
            remedy="Try again; kept generations whose time is over are dropped by themselves",
        ) from None
    announce("generation.dropped")


async def _drop(queries: Queries, view: int, generation: int) -> None:
    await queries.connection.execute(f"set local lock_timeout = '{READERS_MS}ms'")
    row = await queries.row("select_kept_generation", view, generation)
    if row is None:
        raise RebuildError(
            f"generation {generation} is not kept",
            remedy="Only kept generations can be dropped: see `projectionist generations list`",
        )
    if await queries.value("is_generation_being_built", view, generation):
        raise RebuildError(
            f"a rollback to generation {generation} is open",
            remedy="Finish it, or `projectionist rebuild --abort`",
        )
    if generation == (await queries.control(view))["generation"]:  # of a view that no class lists any more
        for public in (await shown(queries, view, generation)).values():
            await withdraw(queries, public)
    await drop_tables(queries, view, generation)
    await queries.run("mark_generation_dropped", view, generation)
    await queries.run("release_unused_names", view)
    if row["build"] is not None:
        await drop_unused_positions(queries, row["build"])


async def sweep(queries: Queries, view: int) -> list[int]:
    """Drop what has been kept long enough, unless a rollback to it is open; which ones.

    One that cannot be dropped keeps no other: it is raised at the end.
    """
    over = await expired(queries, view)
    refused: list[RebuildError] = []
    for generation in over:
        try:
            await drop(queries, view, generation)
        except RebuildError as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return over


async def expired(queries: Queries, view: int) -> list[int]:
    """Return the generations that have been kept long enough, but one that a rollback goes back to."""
    return [row["generation"] for row in await queries.rows("select_generations", view) if row["expired"]]


async def check_not_left(queries: Queries, views: Collection[int]) -> None:
    """Raise RebuildError where one of these views has left its set since they were chosen; under the barrier."""
    for row in await queries.rows("select_left_views", list(views)):
        raise RebuildError(f"{row['name']} was {row['state']} at this moment", remedy="Nothing was changed")


async def begin_rollback(
    queries: Queries,
    consumer: int,
    views: Mapping[int, Definition],
    generation: int,
    *,
    epoch: int,
    owner: str,
) -> Build:
    """Open the way back to a kept generation of one view; raises RebuildError where its code is not the one at hand.

    From its commit on live batches and verbs leave marks for it; what had moved before is marked by `mark_moved`.
    """
    [(view, definition)] = views.items()
    async with queries.alone(consumer, "roll back"):
        await check_not_left(queries, views)
        row = await queries.row("select_kept_generation", view, generation)
        if row is None or row["build"] is None:
            raise RebuildError(
                f"generation {generation} of {definition.name} is not kept so that one can go back to it",
                remedy="See `projectionist generations list`; without order there is no way back but a rebuild",
            )
        if (row["shape"], row["code"]) != (definition.shape, definition.code):
            raise RebuildError(
                f"generation {generation} of {definition.name} was run by other code than this",
                remedy="Deploy the code it was run by, then roll back with it",
            )
        if await queries.open_build(consumer) is not None:
            raise RebuildError(f"a build of {definition.name} is open", remedy="Finish it, or --abort it")
        number = await queries.value("insert_rollback_build", view, generation, epoch, owner)
        await queries.run("set_active_build", consumer, number)
        build = await queries.open_build(consumer)
        assert build is not None, "it was opened above"
    announce("rebuild.opened")
    return build


async def mark_moved(
    queries: Queries, definition: ConsumerDefinition, build: Build, *, last_seq: int
) -> Build:
    """Mark what has moved since a kept generation was left, while batches go on: they write the other slot.

    What lies up to `last_seq`, the stream's end, is history for a view that joins by going back.
    """
    async with queries.connection.transaction():
        await queries.hold(build)
        await queries.run("raise_build_top", build.number, last_seq)
        if await queries.value("are_positions_shared", build.positions):
            build = await _take_positions_along(queries, build)
        await queries.run("mark_all_moved_dirty", build.consumer, build.positions, first_position(definition))
        await queries.run("start_catch_up_phase", build.number)
        announce("rebuild.marked")
    return build


async def _take_positions_along(queries: Queries, build: Build) -> Build:
    """Give a generation that goes back positions of its own: others that are kept stand where they were left."""
    mine, theirs = positions_table(queries, build.number), positions_table(queries, build.positions)
    await queries.connection.execute(f"create table {mine} (like {theirs} including all)")
    await queries.connection.execute(f"insert into {mine} select * from {theirs}")
    await queries.run("take_positions_along", build.number)
    found = await queries.open_build(build.consumer)
    assert found is not None, "it is held"
    await queries.run("renumber_positions", build.number)
    return found


def positions_table(queries: Queries, build: int) -> str:
    """Return the quoted name of the table that holds a build's positions."""
    return f"{quoted(queries.schema)}.{quoted(f'{POSITIONS}_{build}')}"


async def drop_positions(queries: Queries, build: int) -> None:
    """Drop where a generation stood: it cannot be caught up any more."""
    await queries.connection.execute(f"drop table if exists {positions_table(queries, build)}")


async def drop_unused_positions(queries: Queries, build: int) -> None:
    """Drop where generations stood of which none is kept any more."""
    if not await queries.value("are_positions_kept", build):
        await drop_positions(queries, build)
