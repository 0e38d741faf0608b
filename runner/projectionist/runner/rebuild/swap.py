"""The swap: under the barrier the last events are folded, all is compared, and the views are pointed anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import asyncpg

from projectionist.core import clock
from projectionist.core.postgres import connections
from projectionist.core.postgres.rights import grant_recorded
from projectionist.core.testpoints import announce
from projectionist.runner.database.barrier import BarrierTimeout
from projectionist.runner.database.queries import Build, BuildView, Queries, RebuildError
from projectionist.runner.read_models.generations import drop_unused_positions
from projectionist.runner.read_models.views import repoint_view, shown, withdraw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.core.settings.settings import Postgres
    from projectionist.runner.jetstream.stream_tail import Tail
    from projectionist.runner.rebuild.catch_up import CatchUp
    from projectionist.runner.rebuild.compare import Comparison
    from projectionist.runner.rebuild.reader_snapshots import Snapshots

AT_MOST = 2_000
"""How many events are folded under the barrier; more are folded before it."""
READERS_MS = 100
"""How long it waits for those who read the views; they wait for it as long."""
OTHERS_MS = 5
"""How long it waits for those who read a view while it holds another, for which they may wait."""


async def swap(
    queries: Queries,
    build: Build,
    catch_up: CatchUp,
    tail: Tail,
    comparisons: Sequence[Comparison],
    snapshots: Snapshots,
    keep_s: float,
    hold_s: float,
    postgres: Postgres,
) -> bool:
    """Make the shadow the live generation; False if it would keep batches or readers waiting for too long.

    Open batches are waited for `hold_s`, and no longer it takes from there on: what it could not finish is undone, and
    more is folded before it. The broker is not asked: what has come since the last round is in the tail, or is left to
    the next one. Where a signal cuts the COMMIT off, the database is asked over a new connection what became of it.
    """
    announce("swap.asked")
    to_its_end = anyio.CancelScope()
    try:
        with to_its_end:
            async with queries.alone_once(build.consumer, "swap", within_s=hold_s, wait_s=hold_s):
                await queries.hold(build)
                announce("swap.entered")
                if not await catch_up.last(catch_up.pace.within(hold_s / 2, AT_MOST), tail):
                    raise _Behind
                # Readers see the rows of their snapshot: from here on those of any hold all that live has.
                await queries.show(build.consumer)
                await snapshots.note()
                await queries.hold(build)
                announce("swap.shown")
                await catch_up.assert_equal()
                moved = catch_up.moved()
                for comparison in comparisons:
                    await comparison.settle(moved[comparison.built.view])
                await _lock_together(queries, build)
                await queries.connection.execute(f"set local lock_timeout = '{READERS_MS}ms'")
                await _exchange(queries, build, keep_s, None if catch_up.unordered else build.positions)
                if not await snapshots.passed():
                    raise _Behind
                # Whoever stops it from here on is told that it is done, so nothing cuts the COMMIT off.
                to_its_end.shield = True
                announce("swap.written")
    except (_Behind, BarrierTimeout, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        announce("swap.left")
        return False
    except asyncio.CancelledError:
        # A signal's comes through a shield.
        if not to_its_end.shield or await _is_open(postgres, build):
            raise
    announce("swap.committed")
    return True


async def _is_open(postgres: Postgres, build: Build) -> bool:
    """Return whether a build goes on, once a COMMIT that is under way is over."""
    try:
        connection = await connections.connect(postgres, application_name="projectionist swap")
        try:
            async with connection.transaction():
                queries = Queries(connection, postgres.schema)
                return await queries.row("lock_build", build.number, build.epoch) is not None
        finally:
            connection.terminate()
    except OSError as error:
        raise RebuildError(
            "it was interrupted in its COMMIT, and the database cannot be asked whether that came through",
            remedy="`projectionist generations list` says which generation is live. Rebuild again if it is the old one",
        ) from error


async def _lock_together(queries: Queries, build: Build) -> None:
    """Keep readers out of all public views that are pointed anew.

    Who joins two of them the other way round holds one and waits for the other, for ever where that is held here. So
    one is waited for with none in hand; where another is in use then, all are let go, and that one is the first.
    """
    fresh = [
        await shown(queries, one.view, one.generation) for one in await queries.build_views(build.number)
    ]
    left = [public for views in fresh for public in views]
    until = clock.now() + READERS_MS / 1000
    while len(left) > 1:
        public = left[0]
        try:
            async with queries.connection.transaction():
                for public in left:
                    wait_ms = READERS_MS if public == left[0] else OTHERS_MS
                    await queries.connection.execute(f"set local lock_timeout = '{wait_ms}ms'")
                    if (lock := await queries.value("lock_view", public)) is not None:
                        await queries.connection.execute(lock)
            return
        except asyncpg.LockNotAvailableError:
            if clock.now() > until:
                raise
            left = [public, *(one for one in left if one != public)]


async def _exchange(queries: Queries, build: Build, keep_s: float, caught_up: int | None) -> None:
    """Make what was built live; `caught_up`: by which build's positions what was live can be caught up."""
    found = await queries.build_views(build.number)
    if any(one.running not in (one.base, one.code) for one in found):
        raise RebuildError(
            "live runs other code by now than when this build was opened",
            remedy="Rebuild with that code, and --restart",
        )
    for one in found:
        await _repoint(queries, one)
    await queries.run("mark_generations_kept", build.number, caught_up, keep_s)
    await queries.run("set_live_generations", build.number)
    await queries.run("finish_build", build.number, "done")
    await queries.run("delete_catch_up_plan", build.number)  # its marks went when they were seen to
    await drop_unused_positions(queries, build.positions)


async def _repoint(queries: Queries, one: BuildView) -> None:
    """Have the public views show what was built of a view, and take away those that it feeds no more."""
    live = await shown(queries, one.view, one.live)
    fresh = await shown(queries, one.view, one.generation)
    is_new = bool(fresh.keys() - live.keys())
    for public, view in fresh.items():
        await repoint_view(queries, view, live.pop(public, None))
    if is_new:
        await grant_recorded(queries.connection, queries.schema)  # there was none to have rights from
    for view in live.values():
        await withdraw(queries, view)


class _Behind(Exception):
    """Live has moved on too far for the time the barrier may be held, or by events not at hand, or a reader has not."""
