"""Everything that is on record about one event, from its arrival to the answers of providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.admin.intent_actions import IntentActions as Intents
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.admin.row_names import BY_SQL, NO_APP, RowUnknown
from projectionist.runner.retention.archive_search import ArchivedRows, ArchiveSearch, Attempt

if TYPE_CHECKING:
    from pathlib import Path

    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.row_names import RowNames

GONE = "its inbox row is gone: retention has removed it, or a reset; what is left is below"


ADDED = "added in a transaction of its own, not by a handler"


class SideRecord(msgspec.Struct, frozen=True):
    """A duplicate, an entry of quarantine, a decision, an incident or a Cancel."""

    kind: str
    at: datetime
    incarnation: int | None
    seq: int | None
    what: str | None
    who: str | None
    why: str | None


class Passage(msgspec.Struct):
    """The passage of the event through one consumer."""

    consumer: str
    state: str = ""
    verdict: str = ""
    idle: bool = False
    """Whether it was applied without effect: its handler's condition did not hold."""
    archived: bool = False
    """Whether this is from the archive: the inbox has it no more."""
    stream: str = ""
    incarnation: int | None = None
    seq: int | None = None
    """Of the stream."""
    subject: str = ""
    received: datetime | None = None
    processed: datetime | None = None
    """When its state was last set: applied, drained, parked."""
    batch: int | None = None
    host: str | None = None
    pid: int | None = None
    """Of the process that had it."""
    rows: list[str] = []
    """The tables its handlers write, with the row's key where that is known."""
    row_note: str = ""
    """Why the row's key is not told, if it is not."""
    parked: dict[str, Any] | None = None
    """Why it waits, if it does."""
    beside: list[SideRecord] = []
    intents: list[dict[str, Any]] = []
    note: str = ""
    """What is missing here, and why."""


RECORDED = (
    *("consumer", "state", "verdict", "idle", "archived", "stream", "incarnation", "seq", "subject"),
    *("received", "processed", "batch", "host", "pid"),
)
"""Names what rows of the inbox tell of a passage."""


class Journey(msgspec.Struct):
    """One event."""

    source: str
    id: str
    type: str | None = None
    schema: int | None = None
    aggregate: str | None = None
    version: int | None = None
    correlation: str | None = None
    causation: str | None = None
    trace: str | None = None
    """The id of the trace it came in."""
    consumers: list[Passage] = []
    acts: list[dict[str, Any]] = []
    """What was done by hand about it, or about its aggregate."""


class AggregateStatus(msgspec.Struct, frozen=True):
    """The state of an aggregate with one consumer, and its newest events."""

    consumer: str
    version: int
    head: str
    finding: str | None
    parked: int
    due: datetime | None
    events: list[dict[str, Any]]
    removed: int
    """How many versions up to `version` the inbox does not hold and no decision names: retention has removed them."""


class Journeys:
    """Looks things up over one connection that is in no transaction, and in the files of the archive, if a folder is
    given."""

    def __init__(
        self, connection: Connection, schema: str, archive: Path | None = None, names: RowNames | None = None
    ) -> None:
        """Set out with `archive`, a folder of files, `names` what reads the keys of rows that aggregates share."""
        self._connection = connection
        self._sql = Statements("projectionist.runner", schema)
        self._intents = Intents(connection, schema)
        self._archive, self._filed = archive, ArchivedRows()
        self._names = names

    @property
    def notes(self) -> list[str]:
        """Return what of the archive was not read, and why."""
        return self._filed.notes

    async def events(self, event: str, source: str | None = None) -> list[Journey]:
        """Return the journeys of the events with this id, one a source; NotThere if no consumer knows it."""
        await self._intents.opened()
        await self._search(event)
        known = {*await self._sources(event), *self._filed.sources(event)}
        sources = [source] if source is not None else sorted(known)
        found = [one for name in sources if (one := await self._journey(name, event)).consumers]
        if not found:
            raise NotThere(
                f"no consumer knows event {event!r}",
                remedy=f"{await self._hint(event)}{self._left()}",
            )
        return found

    async def _hint(self, event: str) -> str:
        if await self._connection.fetch(self._sql["select_aggregate_positions"], event, None):
            return f"`projectionist journey --aggregate {event}` shows the aggregate of this name"
        return "It has not been read, or retention has removed all that was known of it"

    def _left(self) -> str:
        return "".join(f"; {note}" for note in self.notes)

    async def _search(self, text: str) -> None:
        if self._archive is not None:
            self._filed = await anyio.to_thread.run_sync(ArchiveSearch(self._archive).find, text)

    async def intent(self, key: str) -> list[Journey]:
        """Return the journey of the event that an intent came from; NotThere for an unknown key."""
        await self._intents.opened()
        row = await self._connection.fetchrow(self._sql["select_intent_event"], key)
        if row is not None:
            return await self.events(row["id"], row["source"])
        await self._search(key)
        kept = self._filed.intents.get(key)
        if kept is None:
            raise NotThere(
                f"no intent has the key {key!r}",
                remedy=f"`projectionist outbox list --each` shows keys{self._left()}",
            )
        return await self.events(kept.id, kept.source)

    async def aggregate(self, aggregate: str, consumer: str | None, limit: int) -> list[AggregateStatus]:
        """Return where an aggregate stands with each consumer; NotThere if none has seen it."""
        rows = await self._connection.fetch(self._sql["select_aggregate_positions"], aggregate, consumer)
        if not rows:
            raise NotThere(
                f"no consumer has seen aggregate {aggregate!r}",
                remedy="It is written type/id, like order/7, in the letters in which it was recorded",
            )
        await self._search(aggregate)
        return [await self._status(row, aggregate, limit) for row in rows]

    async def _sources(self, event: str) -> list[str]:
        return [
            row["source"] for row in await self._connection.fetch(self._sql["select_event_sources"], event)
        ]

    async def _status(self, row: Record, aggregate: str, limit: int) -> AggregateStatus:
        given = (row["number"], aggregate, limit, _json(self._filed.inbox))
        events = await self._connection.fetch(self._sql["select_aggregate_events"], *given)
        return AggregateStatus(
            consumer=row["consumer"],
            version=row["version"],
            head=row["head"],
            finding=row["finding"],
            parked=row["parked"],
            due=row["due"],
            events=[dict(event) for event in events],
            removed=row["version"] - row["known"],
        )

    async def _journey(self, source: str, event: str) -> Journey:
        journey, passages = Journey(source=source, id=event), dict[str, Passage]()
        filed, filed_intents = _json(self._filed.inbox), _json(self._filed.intents)
        for row in await self._connection.fetch(self._sql["select_event_inbox_rows"], source, event, filed):
            _fill_header(journey, row)
            known = passages.setdefault(
                row["consumer"], passage_of(row)
            )  # of a set there is a row for each view
            rows, note = await self._rows(row, source, event)
            known.rows, known.row_note = known.rows + rows, known.row_note or note
        for row in await self._connection.fetch(self._sql["select_parked_details"], event, None, source):
            if row["name"] in passages:
                passages[row["name"]].parked = _parked(row)

        def passage(row: Record) -> Passage:
            return passages.setdefault(row["consumer"], Passage(consumer=row["consumer"], note=GONE))

        for row in await self._connection.fetch(self._sql["select_event_side_records"], source, event):
            one = SideRecord(**{name: row[name] for name in SideRecord.__struct_fields__})
            passage(row).beside.append(one)
            if one.kind == "quarantine" and not passage(row).state:
                passage(row).state, passage(row).note = "quarantined", ""
        for row in await self._connection.fetch(
            self._sql["select_event_intents"], source, event, filed_intents
        ):
            passage(row).intents.append(await self._intent(row))
            if row["number"] == 0:
                passage(row).note = ADDED
        journey.consumers = [passages[name] for name in sorted(passages)]
        journey.acts = await self._acts(journey)
        return journey

    async def _rows(self, row: Record, source: str, event: str) -> tuple[list[str], str]:
        """Return the tables that the event's handlers write, with the key of the row, or why it is not told."""
        tables: Sequence[str] = row["tables"]
        key, lacking = row["row_key"], NO_APP
        if self._names is not None and self._names.leaves_out(row["view"], row["type"]):
            return [], ""
        if row["kind"] == Kind.SQL:
            lacking = BY_SQL
        elif tables and self._names is not None and self._names.knows(row["view"]):
            try:
                key = await self._names.key(self._connection, row, source, event)
            except RowUnknown as unknown:
                key, lacking = None, str(unknown)
        suffix = "" if key is None else f" {key}"
        return [f"{table}{suffix}" for table in sorted(tables)], lacking if tables and key is None else ""

    async def _intent(self, row: Record) -> dict[str, Any]:
        attempts = (
            (await self._intents.show(row["key"]))["attempts"]
            if row["attempts"] is None
            else msgspec.convert(msgspec.json.decode(row["attempts"]), list[Attempt])
        )
        shown = {name: value for name, value in row.items() if name not in ("consumer", "number", "attempts")}
        return shown | {"attempts": attempts}

    async def _acts(self, journey: Journey) -> list[dict[str, Any]]:
        names = [journey.id, f"{journey.source}/{journey.id}", journey.aggregate]
        objects = [f"{one.consumer}: {name}" for one in journey.consumers for name in names if name]
        objects += [
            f"{one.consumer}: sequence {each.seq} of incarnation {each.incarnation}"
            for one in journey.consumers
            for each in one.beside
            if each.kind == "quarantine"
        ]
        return [dict(row) for row in await self._connection.fetch(self._sql["select_event_audit"], objects)]


def _json(rows: Mapping[Any, msgspec.Struct]) -> str:
    return msgspec.json.encode(list(rows.values())).decode()


def _fill_header(journey: Journey, row: Record) -> None:
    for name in ("type", "schema", "aggregate", "version", "correlation", "causation"):
        setattr(journey, name, row[name])
    journey.trace = row["traceparent"].split("-")[1] if row["traceparent"] else journey.trace


def passage_of(row: Record, parked: dict[str, Any] | None = None) -> Passage:
    """Return what a row of the inbox tells of a passage: as much of it as was read."""
    known = {name: row[name] for name in RECORDED if name in row}
    return Passage(**known, parked=parked)


def _parked(row: Record) -> dict[str, Any]:
    names = ("cause", "why", "head", "finding", "attempts", "next_try", "waits", "parked_at", "discarded")
    return {name: row[name] for name in (*names, "first_failed", "last_failed", "error_class", "error")}
