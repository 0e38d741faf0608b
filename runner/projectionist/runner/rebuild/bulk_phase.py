"""The bulk phase: the stream up to the floor, folded into the shadow in parts that are kept, then its indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from projectionist.core.postgres.search_path import default_names
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.planning import MONOTONIC, UNORDERED
from projectionist.runner.database.queries import RebuildError, first_position
from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter
from projectionist.runner.history.fold_stream import Bulk, FoldedView, Slow
from projectionist.runner.history.spill_files import Spill
from projectionist.runner.read_models.indexes import refusals
from projectionist.runner.rebuild.bulk_phase_sql import SqlBulk
from projectionist.runner.rebuild.plan import check_met

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Build, Queries
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.rebuild.shadow import Shadow, ShadowView


class BulkPhase:
    """The bulk of one build."""

    def __init__(
        self,
        queries: Queries,
        build: Build,
        shadow: Shadow,
        client: Client,
        consumer: Consumer,
        progress: Progress,
        *,
        kept_s: float,
    ) -> None:
        self._kept_s = kept_s
        self._queries = queries
        self._build = build
        self._shadow = shadow
        self._client = client
        self._consumer = consumer
        self._definition = consumer.definition
        self._progress = progress
        self.silent: Counter[str] = Counter()
        """Intents that handlers asked for and that were not written, by slot."""
        self.events = 0

    async def run(self) -> None:
        """Fold what is not kept yet, and go over to catching up."""
        queries, build = self._queries, self._build
        self._progress.begin("reading", build.bulk_limit)
        if len(build.finished) < build.buckets:
            decisions = Decisions(await queries.rows("select_decisions", build.consumer))
            bulk = await self._begun(decisions)
            if self._definition.kind is Kind.SQL:
                sql = SqlBulk(queries, build, self._shadow, bulk, self.silent)
                await sql.run(self._definition.subjects.filter)
            else:
                bulk = await self._fold(bulk, decisions)
            self.silent.update(bulk.silent)
            self.events = bulk.events
            for view in bulk.views:
                await self._note_own_type(view)
        if self._definition.sequence == UNORDERED and not build.partial:
            await check_met(queries, self._client, build, self._definition)
        await self._index()

    async def _note_own_type(self, view: FoldedView) -> None:
        own = view.own
        if own.known is not None and own.known != await self._queries.value(
            "set_row_key_aggregate_type", view.number, own.known, own.since
        ):
            raise RebuildError(
                "live has applied events of other aggregates than this build took the rows' ids to be of",
                remedy="Rebuild with --restart",
            )

    async def _index(self) -> None:
        queries, build = self._queries, self._build
        self._progress.begin("indexing", 0)
        async with queries.connection.transaction():
            await queries.hold(build)
            for view in self._shadow.views:
                with refusals(view.definition):
                    await self._make_indexes(view)
            await queries.run("mark_all_moved_dirty", build.consumer, build.positions, self._consumer.start)
            # Now, and not in the swap, where batches wait.
            await queries.run("delete_excluded_sequences", build.number)
            await queries.run("start_catch_up_phase", build.number)
            announce("rebuild.indexed")
        announce("rebuild.bulk_done")

    async def _make_indexes(self, view: ShadowView) -> None:
        connection = self._queries.connection
        async with default_names(connection) if view.definition.has_own_ddl else nullcontext():
            for statement in view.index():
                await connection.execute(statement)

    async def _begun(self, decisions: Decisions) -> Bulk:
        judge = await self._judge(decisions)
        given = (self._client, self._consumer, judge, decisions, self._progress)
        return Bulk(*given, self._shadow.lookups)

    async def _judge(self, decisions: Decisions) -> AppliedFilter:
        queries, build = self._queries, self._build
        tracks: dict[str, AggregateProgress] = {}
        resumes, start = self._definition.kind is Kind.SQL, first_position(self._definition)
        async with queries.connection.transaction():
            async for row in queries.cursor("select_position_caps", build.positions):
                tracks[row["aggregate"]] = AggregateProgress(row["version"] if resumes else start, row["cap"])
        apart = {row["seq"] for row in await queries.rows("select_excluded_sequences", build.number)}
        return AppliedFilter(self._definition.sequence, tracks, decisions, apart)

    async def _fold(self, bulk: Bulk, decisions: Decisions) -> Bulk:
        """Fold what is not kept yet; return the reading that did it."""
        build, filter_subject = self._build, self._definition.subjects.filter
        if build.buckets == 1:
            try:
                kept_s = None if any(view.definition.looks_up for view in bulk.views) else self._kept_s
                rows = await bulk.fold(filter_subject, 1, build.bulk_limit, kept_s=kept_s)
            except Slow as slow:
                build.buckets = slow.buckets
                await self._queries.run("start_bulk_phase", build.number, build.bulk_limit, build.buckets)
                self._progress.say(f"{slow}: reading again, to fold and keep it in {build.buckets} parts")
                announce("rebuild.divided")
                bulk = await self._begun(decisions)
            else:
                await self._write_positions(bulk.judge)
                await self._flush(rows, 0)
        if build.buckets > 1:
            await self._fold_divided(bulk)
        return bulk

    async def _fold_divided(self, bulk: Bulk) -> None:
        build = self._build
        with Spill(build.buckets, build.finished) as spill:
            await bulk.spill(self._definition.subjects.filter, 1, build.bulk_limit, spill)
            await self._write_positions(bulk.judge)
            self._progress.begin("folding", build.buckets)
            for bucket in spill.open:
                rows = await bulk.fold_spilled(spill, bucket)
                await self._flush(rows, bucket)
                await self._progress.advance(1)

    async def _write_positions(self, judge: AppliedFilter) -> None:
        """Write down which aggregates did not get to where live stood; the others stand at their caps."""
        if self._definition.sequence == MONOTONIC:
            return
        queries, build = self._queries, self._build
        incomplete = sorted((aggregate, version) for aggregate, version, _ in judge.incomplete())
        if incomplete:
            async with queries.connection.transaction():
                await queries.hold(build)
                await queries.run("upsert_shadow_positions", build.positions, *zip(*incomplete, strict=True))

    async def _flush(self, rows: Sequence[Iterable[tuple[Any, ...]]], bucket: int) -> None:
        """Write the rows of one bucket, of each view, and that they are there, in one transaction."""
        queries, build = self._queries, self._build
        async with queries.connection.transaction():
            await queries.hold(build)
            for view, of_view in zip(self._shadow.views, rows, strict=True):
                await view.copy(of_view)
                announce("rebuild.copied")
            await queries.run("mark_bucket_done", build.number, bucket)
        announce("rebuild.flushed")
