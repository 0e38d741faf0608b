"""Folds what a class would make of rows, exactly from the events that live has applied to them, beside the live rows.

Live goes on meanwhile; nothing is written. The old code need not be there: the live rows are its word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.projections.tables.table_key import Keys, Prefix
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.row_table import RowTable
from projectionist.runner.history.handler_failures import handler_failure
from projectionist.runner.history.lost_events import holes_of, is_own
from projectionist.runner.history.unknown_rows import own_group
from projectionist.runner.jetstream import api
from projectionist.runner.preview.event_check import check_events
from projectionist.runner.preview.failed_heads import failed_heads, keys_of, tried
from projectionist.runner.preview.live_rows import LiveRows
from projectionist.runner.preview.preview_result import LISTED, PreviewResult, row_change
from projectionist.runner.preview.sample_rows import sample_rows
from projectionist.runner.verify.refold_rows import FoldObserver, table_of
from projectionist.runner.verify.verify import UndecidableRow, exactly, live_consumer

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.reactor_answers import HandlerResult
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.decoding.delivery import Delivery
    from projectionist.runner.history.handler_failures import HandlerFailure
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.verify.refold_rows import Refolded, Row

A_ROW = 500
"""To read one aggregate by its subject costs about as much as reading so many messages in a row."""


class PreviewObserver(FoldObserver):
    """Goes on behind a failure, without the aggregate that failed: its rows are not compared."""

    def __init__(self, consumer: Consumer, progress: Progress) -> None:
        """Take the consumer whose rows are folded."""
        self._progress = progress
        self._definition = consumer.view.definition
        _, self._key = table_of(consumer)
        self.begin()

    def begin(self) -> None:
        """Forget what was told."""
        self.events = 0
        self.intents: Counter[str] = Counter()
        self.failures: dict[str, HandlerFailure] = {}
        """The first of each aggregate; without order, of each event."""
        self._keys: set[Any] = set()
        self._groups: set[Any] = set()
        self._below: set[tuple[Any, ...]] = set()

    async def read(self, messages: int) -> None:
        """Show how far it is."""
        await self._progress.advance(messages)

    def takes(self, delivery: Delivery) -> bool:
        """Return False behind a failure."""
        if delivery.aggregate not in self.failures or self._definition.sequence == "unordered":
            return True
        self._leave_out(delivery)
        return False

    def applied(
        self, delivery: Delivery, result: HandlerResult | None, rows: Mapping[Any, Row | None]
    ) -> None:
        """Count it, and what it asked for."""
        self.events += 1
        if result is not None:
            self.intents.update(one.counted for one in result.intents)

    def failed(self, delivery: Delivery, error: BaseException | tuple[str, str]) -> None:
        """Keep it."""
        ordered = self._definition.sequence != "unordered"
        unit = (delivery.aggregate or "") if ordered else f"{delivery.source}/{delivery.id}"
        self.failures.setdefault(unit, handler_failure(delivery, error))
        self._leave_out(delivery)

    def lacks(self, key: Any) -> bool:
        """Return whether an event is missing in the row of this key."""
        below = self._below and any(key[: len(one)] == one for one in self._below)
        return below or key in self._keys or self._key.group(key) in self._groups

    def _leave_out(self, delivery: Delivery) -> None:
        step = None if delivery.problem is not None else step_of(self._definition, delivery.seq, delivery)
        if step is not None and isinstance(step.key, Prefix):
            self._below.add(step.key.values)
        elif step is not None and not isinstance(step.key, Exception):
            self._keys.update(step.key.listed if isinstance(step.key, Keys) else [step.key])
        elif self._definition.handlers[delivery.type].own:
            self._groups.add(own_group(self._definition, delivery.aggregate or ""))


class Previewer:
    """Previews one consumer with the code at hand."""

    def __init__(
        self,
        queries: Queries,
        definition: Definition,
        settings: Settings,
        client: Client,
        progress: Progress,
        *,
        reveal: bool = False,
    ) -> None:
        """Take what is previewed, on a connection that may only read; `reveal`: tell the values of rows, and the texts
        of errors."""
        self._queries = queries
        self._definition = definition
        self._settings = settings
        self._client = client
        self._progress = progress
        self._reveal = reveal
        self.result = PreviewResult(consumer=definition.name)

    async def run(self, sample: int, aggregate: str | None = None) -> PreviewResult:
        """Fold so many rows by chance, or those of one aggregate. Raises RebuildError where history is another's."""
        definition, result = self._definition, self.result
        if definition.kind is not Kind.PROJECTION:
            result.left_out = (
                "it has no rows that are folded one by one: `events check --fold` runs what can be run"
            )
            return result
        row = await self._queries.row("select_view", definition.name)
        if row is not None and row["state"] == "detached":
            result.left_out = "it is detached: batches leave it out, and its rows are of another time"
            return result
        if row is None or row["state"] != "live":
            if row is None and (former := await self._former_name()) is not None:
                result.left_out = (
                    f"it is called {former!r} in the database: `projectionist migrate` renames it"
                )
                return result
            given = (self._client, [definition], self._settings, self._progress)
            result.check = await check_events(*given, fold=True, reveal=self._reveal)
            return result
        consumer, made_by = await live_consumer(self._queries, definition, self._settings)
        registered = (await self._queries.control(consumer.view.number))["code"]
        result.generation = consumer.view.generation
        result.runs, result.older_rows = registered == definition.code, made_by != registered
        live = await LiveRows.of(self._queries, consumer)
        result.columns = live.changes
        await self._compare(consumer, live, sample, aggregate)
        announce("preview.done")
        return result

    async def _former_name(self) -> str | None:
        for name in self._definition.formerly:
            if await self._queries.row("select_view", name) is not None:
                return name
        return None

    async def _compare(self, consumer: Consumer, live: LiveRows, sample: int, aggregate: str | None) -> None:
        heads, self.result.failed_heads = await failed_heads(self._queries, self._client, consumer)
        heads = [one for one in heads if aggregate in (None, one.row["aggregate"])]
        given = (self._queries, self._client, consumer, live, self._progress)
        keys = await sample_rows(*given, sample, aggregate)
        of_heads = [key for one in heads for key in await keys_of(one, live)]
        keys = list(dict.fromkeys([*keys, *of_heads]))
        rows: dict[Any, Row | None] = {}
        failed: set[str] = set()
        messages = (await api.stream(self._client, self._definition.stream)).state.messages
        chunks = self._chunks(consumer, keys, messages)
        self._progress.begin("folding", messages if len(chunks) == 1 else 0)
        for chunk in chunks:
            observer = PreviewObserver(consumer, self._progress)
            found = await exactly(
                self._queries, consumer, self._client, chunk, observer=observer, load_rows=live.load
            )
            rows |= {one.key: one.folded for one in found}
            failed |= observer.failures.keys()
            finished = [one for one in found if not observer.lacks(one.key)]
            self._count(observer, len(found) - len(finished))
            await self._tell(consumer, finished)
        lookups = LookupReader(self._queries.connection, self._definition, keeps=True)
        lookups.views = {one.source: await self._live_table(one) for one in self._definition.looks_up}
        looked_up = await lookups.read_steps([one.step for one in heads if one.step is not None])
        self.result.heads = [
            tried(consumer, one, rows, failed, looked_up, reveal=self._reveal) for one in heads
        ]

    async def _live_table(self, view: Definition) -> RowTable:
        """Return the live rows of another view of the set."""
        consumer, _ = await live_consumer(self._queries, view, self._settings)
        return RowTable(self._queries.connection, consumer.view, self._queries.schema)

    def _chunks(self, consumer: Consumer, keys: Sequence[Any], messages: int) -> list[Sequence[Any]]:
        """Return what is read in one go: rows of aggregates with subjects of their own each for itself, where that is
        less."""
        subjects = self._definition.subjects
        alone = is_own(consumer) and self._definition.is_exact
        if alone and subjects.names_aggregate and len(keys) * A_ROW < messages:
            _, of = table_of(consumer)
            ordered = sorted(keys, key=of.group)
            return [list(rows) for _, rows in groupby(ordered, of.group)]
        return [keys] if keys else []

    def _count(self, observer: PreviewObserver, unfinished: int) -> None:
        result = self.result
        result.events += observer.events
        result.failed += len(observer.failures)
        listed = list(observer.failures.values())[: LISTED - len(result.failures)]
        result.failures += [one if self._reveal else replace(one, text=one.error) for one in listed]
        result.unfinished += unfinished
        result.intents = dict(sorted((Counter(result.intents) + observer.intents).items()))

    async def _tell(self, consumer: Consumer, found: Sequence[Refolded]) -> None:
        """Count what differs; where history is lost, what is left of it does not say what the row would be."""
        result, (table, key) = self.result, table_of(consumer)
        if result.columns is not None and result.columns.other_key:
            return
        result.rows += len(found)
        differing = [one for one in found if one.differs]
        holes = (
            await holes_of(self._queries, self._client, consumer, [one.key for one in differing])
            if differing
            else None
        )
        for one in differing:
            lost = None if holes is None else holes.at(one.key)
            if lost is not None:
                result.undecidable += 1
                if len(result.undecidable_rows) < LISTED:
                    result.undecidable_rows.append(UndecidableRow(key.shown(one.key), str(lost)))
                continue
            change = row_change(table, one, reveal=self._reveal)
            result.differ += 1
            result.looked_up += one.looked_up
            result.only_live += change.side == "live"
            result.only_new += change.side == "new"
            for name in change.columns:
                result.by_column[name] = result.by_column.get(name, 0) + 1
            if len(result.changes) < LISTED:
                result.changes.append(change)
