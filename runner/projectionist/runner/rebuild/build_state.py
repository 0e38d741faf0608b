"""Opens a build, goes on with one that was left, and gives one up; each under the consumer's exclusive barrier."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.core.identifiers import quoted
from projectionist.core.postgres.search_path import default_names
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.planning import MONOTONIC, UNORDERED
from projectionist.runner.database.queries import (
    POSITIONS,
    Build,
    BuildView,
    InUse,
    Queries,
    RebuildError,
)
from projectionist.runner.read_models.generations import (
    check_not_left,
    drop_unused_positions,
    positions_table,
)
from projectionist.runner.read_models.migrate import own
from projectionist.runner.read_models.rehearsal import rehearse
from projectionist.runner.read_models.table_statements import keeping
from projectionist.runner.read_models.views import drop_tables, table_names

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.rebuild.shadow import Shadow

ROWS_AT_ONCE = 200_000
"""How many rows the bulk folds in memory at a time; what is beyond is put on disk, by hash of the row's key."""


def fits(build: Build, views: Mapping[int, Definition]) -> bool:
    """Return whether what is in the shadow is of these views, by number, and was made by this very code."""
    made = {one.view: (one.shape, one.code, one.revision) for one in build.views}
    return made == {number: (view.shape, view.code, view.revision) for number, view in views.items()}


def left_open(build: Build, views: Container[int], *, joins_wait: bool = False) -> RebuildError | None:
    """Return why no build of these views, by number, can begin beside one that was left: it makes others. Pure.

    `joins_wait`: a build of others that join is given up, since their set goes on without them and they are built
    again.
    """
    left = [one for one in build.views if one.view not in views]
    others = [one.name for one in left]
    if not others or (joins_wait and all(one.joins for one in left)):
        return None
    return RebuildError(
        f"a build of {', '.join(others)} is open, which {build.owner} has left; one at a time is",
        remedy=f"Name {', '.join(others)} as well and it begins anew for all, or give it up with --abort",
    )


async def begin(
    queries: Queries,
    consumer: int,
    views: Mapping[int, Definition],
    *,
    epoch: int,
    owner: str,
    partial: bool,
) -> Build:
    """Open a build of these views of a consumer: from its commit on, live batches and verbs leave marks for it."""
    async with queries.alone(consumer, "open"):
        if (found := await queries.open_build(consumer)) is not None:
            raise RebuildError(f"a build of {found} is open already", remedy="Start again")
        await check_not_left(queries, views)
        made_of = [(number, view.revision, view.shape, view.code) for number, view in views.items()]
        given = (epoch, owner, partial, *zip(*made_of, strict=True))
        build_number = await queries.value("insert_build", consumer, *given)
        for number, view in views.items():
            await own(queries.connection, queries.schema, consumer, view)
            tables = msgspec.json.encode(keeping(view)).decode()
            await queries.run("insert_building_generation", build_number, number, tables)
        await queries.run("set_active_build", consumer, build_number)
        build = await queries.open_build(consumer)
        assert build is not None, "it was opened above"
    announce("rebuild.opened")
    return build


async def resume(queries: Queries, build: Build, *, epoch: int, owner: str, partial: bool = False) -> Build:
    """Go on with a build that another process has left; from now on, perhaps, without what is gone.

    Raises InUse while a session of that process, which may be dead or asleep, is still at work on it.
    """
    partial = partial or build.partial
    try:
        await queries.run("take_over_build", build.number, epoch, owner, partial)
    except asyncpg.LockNotAvailableError as error:
        raise InUse(
            f"a session of the process that had build {build.number} is still at work on it",
            remedy="Try again once it has ended, or end it: pg_stat_activity names it 'projectionist rebuild …'",
        ) from error
    announce("rebuild.resumed")
    return msgspec.structs.replace(build, epoch=epoch, owner=owner, partial=partial)


async def prepare(
    queries: Queries, build: Build, shadow: Shadow, floor: int, rows: int, *, last_seq: int
) -> Build:
    """Make the shadow's tables, and write down where live stands: what the bulk may fold.

    `floor` was read from the broker after the build was opened: live has settled everything up to there. So was
    `last_seq`, the stream's end: what lies up to there is history for a view that joins. One snapshot holds the caps
    and what live left out; what moves later is marked.
    """
    positions = positions_table(queries, build.number)
    like, definition = f"{quoted(queries.schema)}.{POSITIONS}", shadow.definition
    async with queries.connection.transaction(isolation="repeatable_read"):
        await queries.hold(build)
        for statement in (
            f"drop table if exists {positions}",
            f"create table {positions} (like {like} including all)",
        ):
            await queries.connection.execute(statement)
        await _create(queries, build, shadow)
        # Catch-up alone knows in which order a monotonic sequence was applied; a SqlProjection counts as it goes.
        floor = 0 if definition.sequence == MONOTONIC else floor
        start = shadow.start if definition.kind is Kind.SQL or definition.sequence == MONOTONIC else None
        await queries.run("snapshot_live_positions", build.number, build.consumer, start)
        every = definition.sequence == UNORDERED
        await queries.run("delete_excluded_sequences", build.number)
        await queries.run(
            "insert_excluded_sequences", build.number, build.consumer, floor, every, build.incarnation
        )
        if definition.sequence == UNORDERED:
            await queries.run("delete_dirty_marks_up_to", build.consumer, floor)
            await queries.run("mark_dirty_above_ack_floor", build.consumer, floor, build.incarnation)
        # What a view looks up may be in any bucket.
        is_divided = any(view.definition.table is not None for view in shadow.views) and not any(
            view.looks_up for view in definition.views
        )
        buckets = -(-max(rows, 1) // ROWS_AT_ONCE) if is_divided else 1
        await queries.run("start_bulk_phase", build.number, floor, buckets)
        await queries.run("raise_build_top", build.number, max(floor, last_seq))
    await queries.connection.execute(f"analyze {positions}")
    announce("rebuild.prepared")
    return msgspec.structs.replace(build, phase="bulk", bulk_limit=floor, buckets=buckets)


async def _create(queries: Queries, build: Build, shadow: Shadow) -> None:
    try:
        for view in shadow.views:
            await rehearse(queries.connection, view.definition, queries.schema)
            async with default_names(queries.connection) if view.definition.has_own_ddl else nullcontext():
                for statement in view.create():
                    await queries.connection.execute(statement)
    except asyncpg.DuplicateTableError as error:
        raise RebuildError(
            f"{build} cannot be made: {error}, and is not this build's",
            remedy="Rename or drop it; or rebuild with --restart, which takes the next number",
        ) from error


async def abort(queries: Queries, build: Build) -> None:
    """Give a build up: live batches leave no more marks, and its tables go. A kept generation stays kept.

    Batches are kept out for the first of it alone. A build that is left between the two can only be given up.
    """
    if build.is_marked:
        async with queries.alone(build.consumer, "abort"):
            await queries.hold(build)
            await queries.run("set_active_build", build.consumer, None)
        announce("rebuild.given_up")
    try:
        async with queries.connection.transaction():
            await queries.hold(build)
            await _remove(queries, build)
            announce("rebuild.cleared")
    except asyncpg.LockNotAvailableError as error:
        raise InUse(
            f"{build} cannot be removed: a session uses its tables",
            remedy="pg_stat_activity names the transaction; the next rebuild, or --abort, goes on from here",
        ) from error
    announce("rebuild.aborted")


async def _remove(queries: Queries, build: Build) -> None:
    for one in build.views:
        await _remove_view(queries, build, one)
    await drop_unused_positions(queries, build.positions)
    await queries.run("finish_build", build.number, "aborted")
    await queries.run("delete_dirty_marks", build.consumer)
    await queries.run("delete_excluded_sequences", build.number)
    await queries.run("delete_catch_up_plan", build.number)


async def _remove_view(queries: Queries, build: Build, one: BuildView) -> None:
    """Remove what was made of a view; a kept generation stays kept."""
    given = (one.view, one.generation)
    if build.kind == "rollback" and await queries.value(
        "do_tables_exist", await table_names(queries, *given)
    ):
        await queries.run("restore_kept_generation", *given)
        return
    if build.kind == "rollback" or build.phase != "open":  # until then none of them is this build's
        await drop_tables(queries, *given)
    await queries.run("mark_generation_dropped", *given)
    await queries.run("release_unused_names", one.view)
