"""What becomes of a read model's rows when events are erased: they are as a rebuild would make them without these.

A row that belongs to the erased aggregate alone goes, in the transaction that decides so. Rows that other events share
are folded anew. Which those are is in the events, so it is read before anything is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.states import DecisionKind
from projectionist.projections.compiled.definition import Kind
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.table_key import Prefix
from projectionist.runner.admin.erasure_report import CannotErase
from projectionist.runner.batch.decisions import CorrectionGone, Decisions
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.planning import CONTIGUOUS, UNORDERED
from projectionist.runner.batch.wanted_rows import named_keys
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.history.lost_events import is_own
from projectionist.runner.history.rows_below import TooManyBelow, keys_below
from projectionist.runner.history.unknown_rows import own_group
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan
from projectionist.runner.verify.recompute import rewriting
from projectionist.runner.verify.refold_rows import table_of
from projectionist.runner.verify.verify import begun, live_consumer

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.admin.erasure_report import EraseTarget
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.history.progress import Progress

AT_ONCE = 200
"""So many rows are folded anew in one transaction."""


REBUILD = (
    "`projectionist rebuild --accept-differences` makes them without it; then drop the generation that it keeps, with "
    "`projectionist generations drop`"
)


class RowsPlan(msgspec.Struct):
    """What is done with one consumer's rows."""

    consumer: Consumer | None = None
    own: Any = None
    """The first column of the keys of rows that go with their aggregate."""
    keys: list[Any] = []
    """Those of rows that are folded anew."""
    rebuild: str = ""
    """Why neither can be done, and a rebuild has to."""

    @property
    def is_read(self) -> bool:
        """Return whether it holds only for the events that were read."""
        return self.consumer is not None and self.own is None and not self.rebuild

    def __str__(self) -> str:
        if self.rebuild:
            return f"to be rebuilt: {self.rebuild}"
        if self.own is not None:
            return "its own rows go" if self.consumer and table_of(self.consumer)[1].several else "1 row goes"
        return f"{len(self.keys):,} rows are folded anew" if self.keys else ""


class ErasedRows:
    """Works out and does what an erase means for the rows of an app's consumers."""

    def __init__(
        self,
        queries: Queries,
        client: Client,
        settings: Settings,
        definitions: Sequence[Definition],
        progress: Progress,
    ) -> None:
        self._queries, self._client, self._settings = queries, client, settings
        self._progress = progress
        self._definitions = {one.name: one for one in definitions}

    async def plan(
        self, row: Record, target: EraseTarget, synthetic: Sequence[Mapping[str, Any]]
    ) -> RowsPlan:
        """Return what is to be done, having folded the rows as if it were decided; raises CannotErase."""
        if (
            row["kind"] == Kind.REACTOR or not row["has_rows"]
        ):  # what a retired view showed last is kept, and goes
            return RowsPlan()
        if row["state"] != "live":
            return RowsPlan(rebuild=f"no batch writes them while it is {row['state']}")
        definition = self._definitions.get(row["view_name"])
        if definition is None:
            return RowsPlan(rebuild="its class is not in this app")
        if definition.table is None or definition.table.key is None:
            return RowsPlan(rebuild="its SQL wrote them, which rows is on no record")
        consumer, _ = await live_consumer(self._queries, definition, self._settings)
        if consumer.view.generation != row["generation"]:
            raise CannotErase(f"{row['view_name']} was rebuilt at this moment", remedy="Erase again")
        kind = (target.aggregate or "").partition("/")[0]
        if target.aggregate is not None and is_own(consumer):
            own = own_group(definition, target.aggregate) if consumer.view.own_type == kind else None
            return RowsPlan(consumer, own=own)
        try:
            keys, lost = await self._keys(consumer, row, target)
        except TooManyBelow as error:
            return RowsPlan(
                consumer, rebuild=f"a handler with rows= took one of the events, and {error.message}"
            )
        except CorrectionGone:
            return RowsPlan(consumer, rebuild="a correction is no longer kept, which says what rows")
        if lost:
            return RowsPlan(
                consumer, rebuild=f"the stream no longer holds {lost:,} of the events, which say what rows"
            )
        await self._rehearse(consumer, keys, synthetic)
        return RowsPlan(consumer, keys=keys)

    async def delete_own(self, plan: RowsPlan) -> None:
        """Delete the rows of an erased aggregate; the caller holds its position."""
        if plan.consumer is None or plan.own is None:
            return
        table = plan.consumer.view.definition.table
        assert table is not None, "it has a row"
        statements = ReadModel(table, self._queries.schema, plan.consumer.view.generation)
        await self._queries.connection.execute(statements.delete_own, [plan.own])

    async def rewrite(self, plan: RowsPlan) -> str:
        """Fold the rows anew that others share; what is left to do, if it could not be done."""
        if plan.rebuild or plan.consumer is None:
            return plan.rebuild and f"{plan.rebuild}; {REBUILD}"
        if plan.keys:
            self._progress.begin(f"folding rows of {plan.consumer.view.definition.name} anew", len(plan.keys))
        for first in range(0, len(plan.keys), AT_ONCE):
            keys = plan.keys[first : first + AT_ONCE]
            try:
                async with rewriting(self._queries, plan.consumer, self._client, keys):
                    pass
                await self._progress.advance(len(keys))
            except RebuildError as error:  # its text may name a key, which is content
                return f"they could not be folded anew ({type(error).__name__}); erase again, or {REBUILD}"
        return ""

    async def _keys(self, consumer: Consumer, row: Record, target: EraseTarget) -> tuple[list[Any], int]:
        """Return the keys of the rows that the events wrote, and how many of the events cannot be read any more."""
        number, definition = row["number"], consumer.view.definition
        known = await self._queries.rows("select_applied_identities", number, *target.arguments)
        decided = Decisions(await self._queries.rows("select_decisions", number))
        met = _TargetEvents(target, {(one["source"], one["id"]) for one in known if one["applied"]})
        read, keys, prefixes = decided.reading(consumer.reader), dict[Any, None](), set[tuple[Any, ...]]()
        state = (await api.stream(self._client, definition.stream)).state
        last = state.last_seq
        self._progress.begin(f"reading stream {definition.stream} for {definition.name}", state.messages)
        blocks = scan(self._client, definition.stream, definition.subjects.filter, 1, last)
        async with aclosing(blocks):
            async for block in blocks:
                for delivery in map(read, block):
                    if isinstance(delivery, Delivery) and met.meet(delivery):
                        step = step_of(definition, delivery.seq, delivery)
                        if step is not None and isinstance(step.key, Prefix):
                            prefixes.add(step.key.values)
                        keys.update(dict.fromkeys(() if step is None else named_keys(step.key)))
                await self._progress.advance(len(block))
        keys.update(dict.fromkeys(await keys_below(self._client, definition, read, prefixes)))
        return list(keys), await self._lost(row, target, met, decided)

    async def _lost(self, row: Record, target: EraseTarget, met: _TargetEvents, decided: Decisions) -> int:
        """Return how many events live has applied and the stream no longer holds: of those without a row in the inbox
        their versions tell."""
        if target.aggregate is None or row["sequence"] == UNORDERED:
            return len(met.missing)
        found = await self._queries.rows("select_positions", row["number"], [target.aggregate])
        upto = found[0]["version"] if found else 0
        if (
            row["sequence"] != CONTIGUOUS
        ):  # the version live stands at was an event's, whatever came before it
            is_met = not upto or upto in met.versions or decided.stepped_over(target.aggregate, upto)
            return max(len(met.missing), int(not is_met))
        passed = decided.count(target.aggregate, 0, upto)
        held = {v for v in met.versions if v <= upto and not decided.stepped_over(target.aggregate, v)}
        return int(upto - passed - len(held))

    async def _rehearse(
        self, consumer: Consumer, keys: list[Any], synthetic: Sequence[Mapping[str, Any]]
    ) -> None:
        """Fold the rows without the events; raises CannotErase where handlers fail then, as every rebuild would."""
        exact = None
        try:
            while keys and (exact is None or not exact.is_whole):
                decided: list[Row] = [
                    *await self._queries.rows("select_decisions", consumer.number),
                    *synthetic,
                ]
                exact = await begun(self._queries, consumer, self._client, keys, decided, exact)
                await exact.read()
                await exact.end()
        except HandlersFailed as error:
            raise CannotErase(
                f"without it handlers of {consumer.view.definition.name} fail, and so would every rebuild: {error}",
                remedy="Erase the whole aggregate, or deploy handlers that can do without this event; "
                "nothing was changed",
            ) from error


class _TargetEvents:
    """The events of a target that were met in the stream."""

    def __init__(self, target: EraseTarget, missing: set[tuple[str, str]]) -> None:
        self._target, self.missing = target, missing
        self.versions: set[int] = set()

    def meet(self, delivery: Delivery) -> bool:
        """Note it, if it is one of the target."""
        identity = delivery.source, delivery.id
        if self._target.aggregate is not None:
            meant = delivery.aggregate == self._target.aggregate
        else:
            meant = identity == (self._target.source, self._target.id)
        if meant:
            self.missing.discard(identity)
            self.versions.add(delivery.version or 0)
        return meant


def synthetic(
    target: EraseTarget, places: Sequence[tuple[str, str, str | None, int | None]], upto: int | None
) -> list[dict[str, Any]]:
    """Return the decisions that an erase would record, as statements return decisions. Pure."""
    none = dict.fromkeys(("number", "upto", "source", "id", "seq", "headers", "data"))
    if target.aggregate is not None and upto is not None:
        versions = {"aggregate": target.aggregate, "version": 1, "upto": upto}
        return [{**none, "kind": DecisionKind.ERASE, **versions}]
    return [
        {
            **none,
            "kind": DecisionKind.ERASE,
            "aggregate": aggregate,
            "version": version,
            "source": source,
            "id": name,
        }
        for source, name, aggregate, version in places
    ]
