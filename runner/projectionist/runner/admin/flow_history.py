"""The events of one flow, which share a correlation id or came in one trace, and what became of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.admin.intent_actions import IntentActions
from projectionist.runner.admin.event_history import Journey, Passage, passage_of

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres

By = Literal["correlation", "trace"]
"""Names what the events of a flow have in common."""
BY: tuple[By, ...] = ("correlation", "trace")
PRODUCER = 0
"""Stands for a consumer where a producer has added an intent itself."""
READ_FOR_EACH = 100
"""So many rows of the inbox are read for each event that is asked for: an event has a row a consumer."""
READ_LEAST = 2_000
NAMED = 3
"""So many consumers are told by name."""


class Flow(msgspec.Struct):
    """Its events in the order in which they came, each as a journey in brief."""

    by: By
    name: str
    events: list[Journey]
    """Without attempts, rows and what lies beside: the journey of each event has them."""
    more: bool
    """Says whether it has more events than were asked for."""
    count: int
    """How many it has; at least so many where `is_whole` is not set."""
    is_whole: bool
    """Says whether all of it was looked at. Of one with very many events some are taken, not the first of all."""
    notes: list[str]
    """What is not there, and where it is to be found."""


class Flows:
    """Looks flows up over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str, settings: Postgres) -> None:
        self._connection, self._settings = connection, settings
        self._sql = Statements("projectionist.runner", schema)
        self._intents = IntentActions(connection, schema)

    def is_indexed(self, by: By) -> bool:
        """Return whether events can be found by this without reading all of them."""
        return self._settings.correlation_index if by == "correlation" else self._settings.trace_index

    async def find(self, by: By, name: str, limit: int) -> Flow:
        """Return the first `limit` events of a flow, none if nothing has this name; NotThere without its index."""
        if not self.is_indexed(by):
            raise NotThere(
                f"{by} ids are not indexed",
                remedy=f"Set {by}_index = true in [postgres] and run `projectionist migrate`",
            )
        await self._intents.opened()
        value = name.lower() if by == "trace" else name
        most = max(READ_LEAST, READ_FOR_EACH * limit)
        rows = await self._connection.fetch(self._sql[f"select_events_by_{by}"], value, limit, most)
        found = {(row["source"], row["id"]): _event(row) for row in rows}
        await self._fill(found, [(n, row["source"], row["id"]) for row in rows for n in row["consumers"]])
        count, is_whole = (rows[0]["count"], not rows[0]["is_bounded"]) if rows else (0, True)
        return Flow(
            by=by,
            name=name,
            events=list(found.values()),
            more=count > limit or not is_whole,
            count=count,
            is_whole=is_whole,
            notes=await self._notes(),
        )

    async def _notes(self) -> list[str]:
        names = [row["name"] for row in await self._connection.fetch(self._sql["select_purged_consumers"])]
        if not names:
            return []
        told = ", ".join(names) if len(names) <= NAMED else f"{len(names):,} consumers"
        note = (
            f"retention has removed old settled events of {told} from the inbox, and no flow lists them: "
            "`projectionist journey ID` tells of one that is in the archive, by its id"
        )
        return [note]

    async def _fill(self, found: dict[tuple[str, str], Journey], places: list[tuple[int, str, str]]) -> None:
        """Fill in what each consumer made of them, and which intents came of that."""
        passages: dict[tuple[str, str, str], Passage] = {}
        for row in await self._connection.fetch(self._sql["select_flow_passages"], *_columns(places)):
            one = passages[row["source"], row["id"], row["consumer"]] = _passage(row)
            found[row["source"], row["id"]].consumers.append(one)
        places += [(PRODUCER, *event) for event in found]
        for row in await self._connection.fetch(self._sql["select_flow_intents"], *_columns(places)):
            source, event, consumer = row["source"], row["id"], row["consumer"]
            if (source, event, consumer) not in passages:
                passages[source, event, consumer] = Passage(consumer=consumer)
                found[source, event].consumers.append(passages[source, event, consumer])
            passages[source, event, consumer].intents.append(
                {name: value for name, value in row.items() if name not in ("source", "id", "consumer")}
            )


def _columns(places: list[tuple[int, str, str]]) -> tuple[list[int], list[str], list[str]]:
    return [one[0] for one in places], [one[1] for one in places], [one[2] for one in places]


def _event(row: Record) -> Journey:
    names = ("source", "id", "type", "schema", "aggregate", "version", "correlation", "causation", "trace")
    return Journey(**{name: row[name] for name in names})


def _passage(row: Record) -> Passage:
    names = ("cause", "why", "attempts", "next_try", "waits", "discarded", "error_class", "error")
    return passage_of(row, {name: row[name] for name in names} if row["cause"] is not None else None)
