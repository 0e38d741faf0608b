"""Rebuild from beginning to end: open, bulk, catch up, verify, swap. After any of them the next call goes on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.postgres import connections
from projectionist.core.retry_policy import interval
from projectionist.core.telemetry import names, tracing
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.view_set import of_views
from projectionist.runner.batch.consumer import Consumer, ControlRow
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.consumers.registry import registration
from projectionist.runner.database.barrier import BarrierTimeout, patience
from projectionist.runner.database.queries import Build, BuildLost, InUse, Queries, RebuildError, record_act
from projectionist.runner.history.progress import Watched
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_tail import tailing
from projectionist.runner.read_models.generations import begin_rollback, mark_moved
from projectionist.runner.read_models.views import carry_indexes, check, table_names
from projectionist.runner.rebuild import build_state
from projectionist.runner.rebuild.build_lease import AlreadyBuilding, build_lease, owner
from projectionist.runner.rebuild.bulk_phase import BulkPhase
from projectionist.runner.rebuild.catch_up import CatchUp
from projectionist.runner.rebuild.catch_up_race import Brake, CatchUpRace, judge
from projectionist.runner.rebuild.compare import Compared, Comparison
from projectionist.runner.rebuild.plan import check_history
from projectionist.runner.rebuild.reader_snapshots import Snapshots
from projectionist.runner.rebuild.registration_check import (
    floor_of,
    views_to_build,
    waiting_views,
    with_looked_up,
)
from projectionist.runner.rebuild.shadow import Shadow
from projectionist.runner.rebuild.swap import swap
from projectionist.runner.rebuild.times import RATES, USUAL, RebuildTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.history.progress import Progress

FEW = 500
"""Catching up without a lock ends when a round had no more to do than this."""
MOST_TRIES = 50
MOST_OPENINGS = 5


class LateBuild(AlreadyBuilding):
    """Another process has built what was waited for."""


class Options(msgspec.Struct, frozen=True):
    """The operator's deviations from a usual rebuild."""

    restart: bool = False
    back_to: int | None = None
    """Go back to this kept generation instead of building one."""
    partial: bool = False
    waiting_only: bool = False
    """Build only those views that no batch can write before, once it has the build lease."""
    accept_differences: bool = False
    slow_live: bool = False
    """Keep batches waiting now and then, where they apply events as fast as they can be caught up."""


class RebuiltView(msgspec.Struct):
    """The generation that was made of a view."""

    view: str
    generation: int
    compared: Compared


class Rebuilt(msgspec.Struct):
    """The result of a rebuild."""

    consumer: str
    views: list[RebuiltView]
    resumed: bool
    events: int
    caught_up: int
    silent: dict[str, int]
    """Intents that handlers asked for and that were not written, by slot."""
    seconds: float
    phases: dict[str, float]
    held_s: float
    """How long it has kept the consumer's batches waiting at most."""


class Rebuild:
    """Builds the next generation of a consumer's views: one reading, one swap."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        settings: Settings,
        client: Client,
        progress: Progress,
        options: Options | None = None,
        *,
        views: Sequence[Definition] | None = None,
        act: Act | None = None,
        times: RebuildTimes = USUAL,
        who: str | None = None,
    ) -> None:
        """Take which `views` of the consumer are built, all where it is not said.

        Who rebuilds and why (`act`) is put on record before anything is done. Lease and build bear the name `who`, for
        whoever is to find them by it.
        """
        self._named = views
        self._times = times
        self._definition = definition
        self._settings = settings
        self._client = client
        self._progress = Watched(progress)
        self._options = options or Options()
        self._act, self._who = act, who or owner()
        self._schema = settings.postgres.schema
        self._silent: Counter[str] = Counter()
        self._phases: dict[str, float] = {}
        self._events = 0
        self._views: dict[int, Definition] = {}
        """What is built, by the numbers of the views."""
        self._keep_s = settings.policy(definition.name).keep_generation_s
        self._resumed, self._began = False, clock.now()
        self._done: Rebuilt | None = None
        """What came of it, from the swap's COMMIT on."""

    async def run(self) -> Rebuilt:
        """Do it; returns when the new generation is live. Whatever ends it before, the live generation serves."""
        with tracing.whole(names.REBUILD, self._definition.name) as span:
            try:
                await self._run()
            except (asyncio.CancelledError, BuildLost):
                if self._done is None:  # what was swapped in is live, whatever ends this then
                    raise
            assert self._done is not None, "it ends with the swap, or by an error"
            span.set_attribute(names.EVENTS_READ, self._done.events + self._done.caught_up)
            return self._done

    async def _run(self) -> None:
        name = f"projectionist rebuild {self._definition.name}"[:63]
        connection = await connections.connect(self._settings.postgres, application_name=name)
        try:
            await connection.execute("set statement_timeout = 0")
            await self._under_lease(Queries(connection, self._schema))
        finally:
            connection.terminate()

    async def _under_lease(self, queries: Queries) -> None:
        who = self._who
        row = await self._choose(queries)
        stream = await api.stream(self._client, self._definition.stream)
        if self._options.back_to is None and not self._options.partial:
            await check_history(queries, self._client, row, stream, self._definition.known)
        mine = (self._settings.postgres, self._definition, row["number"], who)
        ttl_s, renewed_s = self._times.lease_s, self._times.renewed_s
        async with build_lease(
            queries, *mine, self._record_progress, ttl_s=ttl_s, renewed_s=renewed_s
        ) as lease:
            row = await self._choose(queries)
            await self._record_act(queries, row["number"])
            build, self._resumed = await self._opened(queries, row, lease.epoch, who)
            await self._build(queries, build)

    async def _choose(self, queries: Queries) -> Row:
        """Look up what is to be built; return the registration of one of the views."""
        going_back, named = self._options.back_to is not None, self._named
        if self._options.waiting_only:
            named = await waiting_views(queries, self._definition, named)
            if not named:
                raise LateBuild("it has been built by another process, or has left its set")
        wanted = named if going_back else with_looked_up(self._definition, named)
        found = await views_to_build(queries, self._definition, wanted, going_back=going_back)
        if going_back:
            _check_way_back(self._definition, [view for view, _ in found])
        self._definition = of_views(self._definition, [view for view, _ in found])
        self._views = {row["view"]: view for view, row in found}
        return found[0][1]

    async def _record_act(self, queries: Queries, consumer: int) -> None:
        """Put on record that somebody has this done, before it is: what is done is then never without a reason."""
        if self._act is None:
            return
        back_to = self._options.back_to
        about = "a new generation" if back_to is None else f"generation {back_to}"
        if members := [view.name for view in self._views.values() if view.is_member]:
            about += f" of {', '.join(members)}"
        action = "rebuild" if back_to is None else "rollback"
        await record_act(queries, consumer, action, about, self._act, msgspec.to_builtins(self._options))

    async def _record_progress(self, queries: Queries, consumer: int, epoch: int) -> None:
        """Write down how far it has come."""
        at = self._progress
        kept = (self._times.measured_s, RATES)
        await queries.run(
            "upsert_build_progress", consumer, epoch, at.phase, at.done, at.total, at.per_s, *kept
        )
        announce("rebuild.progress_written")

    async def _opened(self, queries: Queries, row: Row, epoch: int, who: str) -> tuple[Build, bool]:
        """Open a build, again where that would have kept batches waiting for too long."""
        for number in range(1, MOST_OPENINGS):
            try:
                return await self._open(queries, row, epoch, who)
            except BarrierTimeout:
                announce("rebuild.lock_wait")
                await anyio.sleep(interval(self._times.tries, number))
        return await self._open(queries, row, epoch, who)

    async def _open(self, queries: Queries, row: Row, epoch: int, who: str) -> tuple[Build, bool]:
        """Return the build that was left, if it can go on; a new one otherwise."""
        build, back_to = await queries.open_build(row["number"]), self._options.back_to
        if build is not None:
            others = build_state.left_open(build, self._views, joins_wait=self._options.waiting_only)
            if others is not None:
                raise others
            left_by = build.owner
            build = await build_state.resume(
                queries, build, epoch=epoch, owner=who, partial=self._options.partial
            )
            if self._goes_on(build):
                self._progress.say(f"going on with {build}, {build.phase}")
                return build, True
            self._progress.say(f"giving up {build}, begun by {left_by}")
            await build_state.abort(queries, build)
        given = (queries, row["number"], self._views)
        if back_to is not None:
            return await begin_rollback(*given, back_to, epoch=epoch, owner=who), False
        partial = self._options.partial
        return await build_state.begin(*given, epoch=epoch, owner=who, partial=partial), False

    def _goes_on(self, build: Build) -> bool:
        back_to = self._options.back_to
        wanted = build.kind == "rebuild" if back_to is None else build.views[0].generation == back_to
        goes_on = wanted and build.is_marked and not self._options.restart
        return goes_on and build_state.fits(build, self._views)

    async def _build(self, queries: Queries, build: Build) -> None:
        self._began = clock.now()
        consumer = await consumer_for(queries, self._definition, self._settings, build)
        shadow = Shadow(queries.connection, consumer, self._schema)
        filter_subject = self._definition.subjects.filter
        if build.phase == "open" and build.kind == "rollback":
            last_seq = (await api.stream(self._client, self._definition.stream)).state.last_seq
            build = await mark_moved(queries, self._definition, build, last_seq=last_seq)
        elif build.phase == "open":
            build = await self._prepare(queries, build, shadow)
        for one in build.views:
            await check(queries, one.view, one.live, one.generation)
        if build.phase == "bulk":
            build = await self._bulk(queries, build, shadow, consumer)
        catch_up = CatchUp(
            queries, build, shadow, self._client, consumer.reader, filter_subject, self._progress
        )
        await self._finish(queries, build, catch_up, filter_subject)

    def _rebuilt(self, queries: Queries, catch_up: CatchUp, comparisons: Sequence[Comparison]) -> Rebuilt:
        return Rebuilt(
            consumer=self._definition.name,
            views=[RebuiltView(one.built.name, one.built.generation, one.result) for one in comparisons],
            resumed=self._resumed,
            events=self._events,
            caught_up=catch_up.folded,
            silent=dict(sorted((self._silent + catch_up.silent).items())),
            seconds=clock.now() - self._began,
            phases=self._phases,
            held_s=queries.held_s,
        )

    async def _bulk(self, queries: Queries, build: Build, shadow: Shadow, consumer: Consumer) -> Build:
        bulk = BulkPhase(
            queries, build, shadow, self._client, consumer, self._progress, kept_s=self._times.kept_s
        )
        await self._phase("bulk", bulk.run())
        self._silent.update(bulk.silent)
        self._events = bulk.events
        found = await queries.open_build(build.consumer)
        assert found is not None, "it is ours"
        return found

    async def _prepare(self, queries: Queries, build: Build, shadow: Shadow) -> Build:
        row = await queries.row("select_consumer", self._definition.name)
        assert row is not None, "consumers are never deleted"
        stream = self._definition.stream
        floor = await floor_of(self._client, stream, row["durable"])
        last_seq = (await api.stream(self._client, stream)).state.last_seq
        rows = 0
        for one in build.views:
            live = [] if one.live is None else await table_names(queries, one.view, one.live)
            rows += await queries.value("estimate_rows", build.consumer, live)
        return await build_state.prepare(queries, build, shadow, floor, rows, last_seq=last_seq)

    async def _phase(self, name: str, work: Any) -> None:
        began = clock.now()
        await work
        self._phases[name] = self._phases.get(name, 0.0) + clock.now() - began

    # -- to the swap ---------------------------------------------------------------------------------------------

    async def _finish(self, queries: Queries, build: Build, catch_up: CatchUp, filter_subject: str) -> None:
        """Catch up, compare, wait for old snapshots, swap; again where live was faster."""
        self._progress.begin("catching up", 0)
        if not self._options.slow_live:
            await self._swap(queries, build, catch_up, filter_subject, None)
            return
        async with Brake(self._settings.postgres, build.consumer).at_hand() as brake:
            await self._swap(queries, build, catch_up, filter_subject, brake)

    async def _swap(
        self, queries: Queries, build: Build, catch_up: CatchUp, filter_subject: str, brake: Brake | None
    ) -> None:
        await self._carry_indexes(queries, build)
        given = (self._client, self._definition.stream, filter_subject)
        snapshots = Snapshots(
            queries,
            build,
            self._progress,
            blindly=self._settings.postgres.unseen_readers,
            wait_s=self._times.readers_s,
            unseen_s=self._times.unseen_s,
        )
        for number in range(MOST_TRIES):
            await self._phase("catch_up", self._converge(catch_up, brake))
            comparisons = await self._comparisons(queries, build)
            await self._phase("verify", self._verify(catch_up, comparisons, brake))
            await self._phase("catch_up", self._converge(catch_up, brake))
            await snapshots.wait(partial(self._converge, catch_up, brake))
            async with tailing(*given, catch_up.top) as tail:
                await tail.ready()
                hold_s = patience(number, self._times.holds)
                await self._phase("catch_up", self._converge(catch_up, brake, hold_s))
                moved = catch_up.moved()
                for one in comparisons:
                    await one.confirm(moved[one.built.view])
                began = clock.now()
                beside = (snapshots, self._keep_s, hold_s, self._settings.postgres)
                if await swap(queries, build, catch_up, tail, comparisons, *beside):
                    self._phases["swap"] = clock.now() - began
                    self._done = self._rebuilt(queries, catch_up, comparisons)
                    return
            self._progress.say("live was faster, or a table was in use: trying again")
            await anyio.sleep(interval(self._times.tries, number + 1) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        order = "; have readers who join its views name them in one order" if len(build.views) > 1 else ""
        raise RebuildError(
            f"{self._definition.name} could not be swapped in {MOST_TRIES} tries",
            remedy=f"Look for long transactions that use the view{order}. Then rebuild again: it goes on from here",
        )

    async def _carry_indexes(self, queries: Queries, build: Build) -> None:
        """Make the indexes that users have made on the live tables, before batches wait."""
        for one in build.views:
            if one.live is None:
                continue
            async for text in carry_indexes(queries, one.view, one.live, one.generation):
                self._progress.say(text)

    async def _comparisons(self, queries: Queries, build: Build) -> list[Comparison]:
        """Return a comparison a view."""
        accept = self._options.accept_differences or build.kind == "rollback"
        found = await queries.build_views(build.number)
        return [Comparison(queries, one, self._views[one.view], accept=accept) for one in found]

    async def _verify(
        self, catch_up: CatchUp, comparisons: Sequence[Comparison], brake: Brake | None
    ) -> None:
        await catch_up.look()
        for one in comparisons:
            await one.look()
        if again := [one for one in comparisons if one.needs_again]:
            await self._converge(catch_up, brake)
            for one in again:
                await one.again()

    async def _converge(self, catch_up: CatchUp, brake: Brake | None, hold_s: float | None = None) -> None:
        """Catch up until what is left fits into the swap."""
        race, most_s = CatchUpRace(self._times.outrun_s), hold_s or self._times.holds.maximum_s
        with nullcontext() if brake is None else brake.on():
            while True:
                try:
                    events = await catch_up.round()
                except (asyncpg.LockNotAvailableError, InUse, BarrierTimeout):
                    announce("rebuild.lock_wait")
                    continue
                if events <= catch_up.pace.within(most_s / 4, FEW):
                    return
                race.round(events)
                judge(race, brake, self._definition.name, self._progress)


def _check_way_back(definition: ConsumerDefinition, views: Sequence[Definition]) -> None:
    if len(views) > 1:
        raise RebuildError(f"{definition.name} is a set of views", remedy="Name the view that goes back")
    for needed in views[0].looks_up:
        raise RebuildError(
            f"{views[0].full_name} looks up {needed.name}, whose rows are not as they were any more",
            remedy="Deploy the code it was run by, and rebuild with that",
        )


async def consumer_for(
    queries: Queries, definition: ConsumerDefinition, settings: Settings, build: Build
) -> Consumer:
    """Return the consumer as the builder sees it: with what is built of each view as its generation."""
    rows = {one.view: await queries.control(one.view) for one in build.views}
    live = ControlRow.of(list(rows.values()))
    made = {one.view: one.generation for one in build.views}
    control = msgspec.structs.replace(
        live,
        views=tuple(msgspec.structs.replace(one, generation=made[one.number]) for one in live.views),
    )
    by_name = {row["view_name"]: row for row in rows.values()}
    views = [
        View(view, row["key_name"], None, ViewRow(number=row["view"]))
        for view in definition.views
        if (row := by_name.get(view.name)) is not None
    ]
    return Consumer(definition, settings.policy(definition.name), build.consumer, 0, views, control)


async def give_up(
    definition: ConsumerDefinition, settings: Settings, act: Act | None = None
) -> dict[str, int]:
    """End the consumer's open build and drop its tables; return its generations by view, none if no build is open.

    `act` is put on record before.

    Raises AlreadyBuilding while it works.
    """
    name, schema = f"projectionist rebuild {definition.name}"[:63], settings.postgres.schema
    connection = await connections.connect(settings.postgres, application_name=name)
    try:
        await connection.execute("set statement_timeout = 0")  # marks may be any number
        queries, who = Queries(connection, schema), owner()
        row = await registration(connection, schema, definition.name)
        async with build_lease(queries, settings.postgres, definition, row["number"], who) as lease:
            build = await queries.open_build(row["number"])
            if build is None:
                return {}
            if act is not None:
                await record_act(queries, row["number"], "abort-rebuild", str(build), act)
            build = await build_state.resume(queries, build, epoch=lease.epoch, owner=who)
            await build_state.abort(queries, build)
            return {one.name: one.generation for one in build.views}
    finally:
        connection.terminate()
    raise AssertionError("the task group neither returned nor raised")
