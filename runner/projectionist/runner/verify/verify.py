"""Verify: do the live rows equal what their events make? Read-only, on the live system, at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.view_set import with_support
from projectionist.projections.tables import ddl
from projectionist.runner.batch.consumer import Consumer, ControlRow
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.planning import MONOTONIC, UNORDERED
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter
from projectionist.runner.history.fold_stream import Bulk
from projectionist.runner.history.lost_events import holes_of, is_own
from projectionist.runner.history.spill_files import Buckets, Spill
from projectionist.runner.read_models.views import table_names
from projectionist.runner.rebuild.build_state import ROWS_AT_ONCE
from projectionist.runner.rebuild.registration_check import floor_of, registered
from projectionist.runner.verify.refold_rows import ExactFold, FoldObserver, Load, Refolded, load, table_of
from projectionist.runner.verify.row_difference import differing, same

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres import connections
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.tables.table_key import TableKey
    from projectionist.runner.history.progress import Progress

CHUNK = 5_000
MOST = 1_000
"""So many rows that differ at first sight are looked at exactly."""
Row = tuple[Any, ...]

SUBJECTS = 500
"""Up to so many rows of aggregates with subjects of their own are read one by one."""
LISTED = 100


class RowDrift(msgspec.Struct, frozen=True):
    """A live row that is not what its events make."""

    key: str
    since: str | None
    """The first event whose trace is missing or wrong in the live row."""
    live: dict[str, Any] | None
    folded: dict[str, Any] | None


class UndecidableRow(msgspec.Struct, frozen=True):
    """A live row that differs from what is left of its events: whether it is right cannot be decided."""

    key: str
    lost: str
    """An event that live has applied, and that cannot be had any more."""


class Verified(msgspec.Struct):
    """The result of a verification."""

    consumer: str
    generation: int
    rows: int
    drifted: int
    drifts: list[RowDrift]
    """The first of them."""
    other_code: bool
    """Whether the live rows may have been made by other code than this, so that drift is no surprise."""
    unsure: int = 0
    """Rows that differed at first sight and were too many to be looked at again."""
    undecidable: int = 0
    """Rows that differ from what is left of their events, some of which are gone from the stream."""
    undecidable_rows: list[UndecidableRow] = []
    """The first of them."""
    not_judged: int = 0
    """Rows that differ, and hold what a handler has looked up: in tables that others have changed since, perhaps."""
    not_judged_keys: list[str] = []
    """The first of them."""


class Verifier:
    """Verifies one consumer with the code at hand."""

    def __init__(
        self, queries: Queries, definition: Definition, settings: Settings, client: Client, progress: Progress
    ) -> None:
        self._queries = queries
        self._definition = definition
        self._settings = settings
        self._client = client
        self._progress = progress
        self._bucket: tuple[Buckets, int] | None = None

    async def run(self, sample: int | None) -> Verified:
        """Verify this many rows, chosen by chance; None: all of them, and rows that should be there."""
        consumer, live_code = await live_consumer(self._queries, self._definition, self._settings)
        await self._check_columns(consumer)
        other = live_code != self._definition.code
        self.result = Verified(
            consumer=self._definition.name,
            generation=consumer.view.generation,
            rows=0,
            drifted=0,
            drifts=[],
            other_code=other,
        )
        # What a monotonic sequence has applied, only the inbox knows: there all rows are looked at exactly.
        if sample is None and self._definition.sequence != MONOTONIC:
            await self._all(consumer)
        else:
            await self._sample(consumer, sample)
        announce("verify.done")
        return self.result

    async def _check_columns(self, consumer: Consumer) -> None:
        """Raise RebuildError where the live rows lack a column of the class, or are found by another key."""
        table, key = table_of(consumer)
        name = ddl.physical(table, self._queries.schema, consumer.view.generation)
        live = [row["name"] for row in await self._queries.rows("select_columns", name)]
        lacking = [column.name for column in table.columns if column.name not in live]
        found_by = [row["name"] for row in await self._queries.rows("select_primary_key", name)]
        if lacking or found_by != list(key.names):
            why = f"no column {', '.join(lacking)}" if lacking else f"the key {', '.join(found_by)}"
            raise RebuildError(
                f"the live rows of {consumer.view.definition.name} have {why}: they cannot be compared",
                remedy="`projectionist migrate` says what they need; `preview` compares what both have",
            )

    async def _sample(self, consumer: Consumer, most: int | None) -> None:
        """Verify a sample: rows of aggregates with subjects of their own one by one, others in one pass over the
        stream."""
        key, chosen = self._keys(consumer)
        rows = await self._queries.connection.fetch(f"{chosen} order by random() limit $1", most)
        keys = [key.selected(row) for row in rows]
        alone = is_own(consumer) and self._definition.is_exact
        one_by_one = alone and self._definition.subjects.names_aggregate and len(keys) <= SUBJECTS
        self._progress.begin("verifying", len(keys))
        for chunk in [[key] for key in keys] if one_by_one else [keys]:
            await self._exactly(consumer, chunk)
            self.result.rows += len(chunk)
            await self._progress.advance(len(chunk))

    async def _all(self, consumer: Consumer) -> None:
        """Fold everything to where live stood; rows that differ may have moved since, and are looked at exactly."""
        suspects: list[Any] = []
        async for rows in self._folded(consumer):
            suspects += await self._differing(consumer, rows)
        suspects = await self._decidable(consumer, suspects) if suspects else []
        self._progress.begin("looking again", len(suspects))
        for start in range(0, min(len(suspects), MOST), CHUNK):
            await self._exactly(consumer, suspects[start : start + CHUNK])
        self.result.unsure = max(0, len(suspects) - MOST)

    async def _folded(self, consumer: Consumer) -> AsyncIterator[dict[Any, Row]]:
        """Yield the rows as the stream makes them, a bucket at a time."""
        _, key = table_of(consumer)
        row = await self._queries.row("select_view", self._definition.name)
        assert row is not None, "it is live"
        floor = await floor_of(self._client, self._definition.stream, row["durable"])
        judge, decisions = await self._judge(consumer, floor)
        folded = await self._with_support(consumer)
        lookups = {
            view.number: LookupReader(self._queries.connection, view.definition, keeps=True)
            for view in folded.views
        }
        bulk = Bulk(self._client, folded, judge, decisions, self._progress, lookups)
        filter_subject = self._definition.subjects.filter
        self._progress.begin("folding", floor)
        live = await table_names(self._queries, consumer.view.number, consumer.view.generation)
        rows = await self._queries.value("estimate_rows", consumer.number, live)
        # What is looked up may be in any bucket, so that all is folded at once.
        buckets = 1 if self._definition.looks_up else -(-max(rows, 1) // ROWS_AT_ONCE)
        if buckets == 1:
            *_, found = await bulk.fold(filter_subject, 1, floor)
            yield {key.of(row): row for row in found}
            return
        with Spill(buckets, []) as spill:
            await bulk.spill(filter_subject, 1, floor, spill)
            for bucket in spill.open:
                self._bucket = (Buckets(self._definition, buckets), bucket)
                [found] = await bulk.fold_spilled(spill, bucket)
                yield {key.of(row): row for row in found}

    async def _with_support(self, consumer: Consumer) -> Consumer:
        """Return the consumer with the views that this one looks up before it: they are folded beside it."""
        needed = [await live_consumer(self._queries, one, self._settings) for one in self._definition.support]
        if not needed:
            return consumer
        views = [*(one.view for one, _ in needed), consumer.view]
        given = (with_support(self._definition), consumer.policy, consumer.number, consumer.runner, views)
        return Consumer(
            *given, msgspec.structs.replace(consumer.control, views=tuple(one.row for one in views))
        )

    async def _judge(self, consumer: Consumer, floor: int) -> tuple[AppliedFilter, Decisions]:
        queries, sequence = self._queries, self._definition.sequence
        tracks: dict[str, AggregateProgress] = {}
        async with queries.connection.transaction(isolation="repeatable_read", readonly=True):
            async for row in queries.cursor("select_all_positions", consumer.number):
                tracks[row["aggregate"]] = AggregateProgress(consumer.start, row["version"])
            every = sequence == UNORDERED
            given = (consumer.number, floor, every, consumer.incarnation)
            apart = {row["seq"] for row in await queries.rows("select_unapplied_sequences", *given)}
            decisions = Decisions(await queries.rows("select_decisions", consumer.number))
        return AppliedFilter(sequence, tracks, decisions, apart), decisions

    async def _differing(self, consumer: Consumer, folded: dict[Any, Row]) -> list[Any]:
        """Return keys of one bucket whose live row is not the folded one, or that only one side has."""
        suspects, keys = list[Any](), list(folded)
        table, _ = table_of(consumer)
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            live = await load(self._queries, consumer, chunk)
            suspects += [one for one in chunk if not same(table, live.get(one), folded[one])]
            self.result.rows += len(chunk)
        key, chosen = self._keys(consumer)
        async with self._queries.connection.transaction():
            async for row in self._queries.connection.cursor(chosen, prefetch=CHUNK):
                found = key.selected(row)
                if found not in folded and self._is_at_hand(found):
                    suspects.append(found)
                    self.result.rows += 1
        return suspects

    def _is_at_hand(self, key: Any) -> bool:
        """Return whether a row is of the bucket that is compared."""
        return self._bucket is None or self._bucket[0].of(key) == self._bucket[1]

    async def _exactly(self, consumer: Consumer, keys: Sequence[Any]) -> None:
        found = await exactly(self._queries, consumer, self._client, keys)
        differing = {one.key: one for one in found if one.differs}
        for key in await self._decidable(consumer, list(differing)) if differing else []:
            if differing[key].looked_up:
                self._leave_unjudged(consumer, key)
                continue
            self.result.drifted += 1
            if len(self.result.drifts) < LISTED:
                self.result.drifts.append(drift(self._definition, differing[key]))

    def _leave_unjudged(self, consumer: Consumer, key: Any) -> None:
        self.result.not_judged += 1
        if len(self.result.not_judged_keys) < LISTED:
            self.result.not_judged_keys.append(table_of(consumer)[1].shown(key))

    async def _decidable(self, consumer: Consumer, keys: Sequence[Any]) -> list[Any]:
        """Return those of these rows, which differ, that can be told: of the others history is lost. After the fold."""
        holes = await holes_of(self._queries, self._client, consumer, keys)
        _, named = table_of(consumer)
        decidable = []
        for key in keys:
            lost = holes.at(key)
            if lost is None:
                decidable.append(key)
                continue
            self.result.undecidable += 1
            if len(self.result.undecidable_rows) < LISTED:
                self.result.undecidable_rows.append(UndecidableRow(named.shown(key), str(lost)))
        return decidable

    def _keys(self, consumer: Consumer) -> tuple[TableKey, str]:
        """Return the key of the rows, and what selects it of all of them."""
        table, key = table_of(consumer)
        columns = ", ".join(map(quoted, key.names))
        return (
            key,
            f"select {columns} from {ddl.physical(table, self._queries.schema, consumer.view.generation)}",
        )


async def exactly(
    queries: Queries,
    consumer: Consumer,
    client: Client,
    keys: Sequence[Any],
    *,
    observer: FoldObserver | None = None,
    load_rows: Load | None = None,
) -> list[Refolded]:
    """Fold these rows to exactly where live stands with them, however it moves meanwhile."""
    exact: ExactFold | None = None
    while True:
        decided = await queries.rows("select_decisions", consumer.number)
        exact = await begun(
            queries, consumer, client, keys, decided, exact, observer=observer, load_rows=load_rows
        )
        await exact.read()
        async with queries.connection.transaction(isolation="repeatable_read", readonly=True):
            await queries.connection.execute("set local idle_in_transaction_session_timeout = 0")
            decided = await queries.rows("select_decisions", consumer.number)
            await exact.read()  # the stream holds by now whatever live has applied in this snapshot
            found = await exact.end()
        if exact.is_whole and not exact.outdated(decided):
            return found
        announce("verify.again")


async def begun(
    queries: Queries,
    consumer: Consumer,
    client: Client,
    keys: Sequence[Any],
    decided: Sequence[connections.Row],
    before: ExactFold | None = None,
    *,
    observer: FoldObserver | None = None,
    load_rows: Load | None = None,
) -> ExactFold:
    """Return a fold of these rows, with nothing read yet; with what was learnt of the order `before`."""
    live = await (load_rows(keys) if load_rows else load(queries, consumer, keys))
    rows = {key: live.get(key) for key in keys}
    return ExactFold(queries, client, consumer, rows, decided, before, observer, load_rows)


def drift(definition: Definition, one: Refolded) -> RowDrift:
    """Return a differing row, with the columns that differ."""
    table = definition.table
    assert table is not None, "only rows of a Projection are folded"
    assert table.key is not None, "which have a key"
    live, folded = (
        None if row is None else dict(zip((c.name for c in table.columns), row, strict=True))
        for row in (one.live, one.folded)
    )
    if live is not None and folded is not None:
        assert one.live is not None, "it is the same as live"
        assert one.folded is not None, "and as folded"
        wrong = [table.columns[at].name for at in differing(table, one.live, one.folded)]
        live, folded = ({name: side[name] for name in wrong} for side in (live, folded))
    return RowDrift(table.key.shown(one.key), one.since, live, folded)


async def live_consumer(
    queries: Queries, definition: Definition, settings: Settings
) -> tuple[Consumer, bytes]:
    """Return the consumer with the live generation, and the code that generation was made by."""
    row = await registered(queries, definition)
    if row["state"] != "live":
        raise RebuildError(
            f"{definition.full_name} is {row['state']}: no batch writes its rows, and they are of another time",
            remedy=f"`projectionist rebuild` brings it to where the others are; one that is detached needs "
            f"`projectionist views attach {definition.full_name} --reason …` before",
        )
    control, policy = await queries.control(row["view"]), settings.policy(definition.consumer)
    given = (definition, policy, row["number"], row["key_name"])
    made = Consumer.of_view(*given, control=ControlRow.of([control]))
    return made, await queries.value("select_generation", row["view"], row["generation"])
