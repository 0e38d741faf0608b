"""The bulk of a SqlProjection: its handlers run in stream order, in transactions that end with a checkpoint."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from projectionist.core.testpoints import announce
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from projectionist.runner.database.queries import Build, Queries
    from projectionist.runner.decoding.delivery import Delivery
    from projectionist.runner.history.fold_stream import Bulk
    from projectionist.runner.rebuild.shadow import Shadow


BATCH = 500
"""How many events one transaction folds."""


class ForeignTableWrite(RebuildError):
    """A handler wrote a table that is not its generation's: a rebuild would change what is live."""


class SqlBulk:
    """Runs the handlers of one build."""

    def __init__(
        self, queries: Queries, build: Build, shadow: Shadow, bulk: Bulk, silent: Counter[str]
    ) -> None:
        self._queries = queries
        self._build = build
        self._shadow = shadow
        self._bulk = bulk
        self._silent = silent

    async def run(self, filter_subject: str) -> None:
        """Apply the events from the last checkpoint to the bulk limit."""
        first, limit = self._build.checkpoint + 1, self._build.bulk_limit
        async for deliveries, seq in self._bulk.batches(filter_subject, first, limit, BATCH):
            await self._write(deliveries, seq)
        await self._write([], limit)
        async with self._queries.connection.transaction():
            await self._queries.hold(self._build)
            await self._queries.run("mark_bucket_done", self._build.number, 0)

    async def _write(self, deliveries: list[Delivery], seq: int) -> None:
        queries, build = self._queries, self._build
        moved = {d.aggregate: d.version for d in deliveries if None not in (d.aggregate, d.version)}
        async with queries.connection.transaction():
            await queries.hold(build)
            await self._shadow.apply(deliveries, self._silent)
            if moved:
                await queries.run(
                    "upsert_shadow_positions", build.positions, *zip(*sorted(moved.items()), strict=True)
                )
            await queries.run("set_build_checkpoint", build.number, seq)
            await guard(queries, self._shadow)
        announce("rebuild.flushed")


async def guard(queries: Queries, shadow: Shadow) -> None:
    """Raise ForeignTableWrite if this transaction holds a write lock on a table of others. Before its commit."""
    strayed = await queries.rows(
        "select_foreign_write_locks", [name for view in shadow.views for name in view.bare_names()]
    )
    if strayed:
        names = ", ".join(row["name"] for row in strayed)
        raise ForeignTableWrite(
            f"handlers of {shadow.definition.name} wrote {names}, which a rebuild must not change",
            remedy="Name its own tables by {table} placeholders only, and write no others",
        )
