"""Names the row that an event has written where its key is not its aggregate's id: by the class, from its content.

No batch writes such keys down. They are worked out for who asks, as far as class and content are at hand; else the
answer says what is lacking.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.projections.errors import BadValue
from projectionist.projections.folding.step import key_of
from projectionist.projections.tables.table_key import Keys, Prefix, TableKey
from projectionist.runner.batch.consumer import Consumer
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.decoding.delivery import Delivery

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.projections import Envelope
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.event import AnyEvent
    from projectionist.runner.jetstream.api import StoredMessage

    Message = Callable[[str, int], Awaitable[StoredMessage | None]]

NO_APP = "which row is in the event, which only its class can read: name the app with --app, or set app in the settings"
LISTED = 5
"""So many keys of an event's rows are named."""
BY_SQL = "its SQL wrote them; which rows is on no record"


class RowUnknown(Exception):
    """Why a row cannot be named."""


class RowNames:
    """Works keys out by the classes of an app; `message` reads a stream at a sequence."""

    def __init__(self, definitions: Sequence[Definition], settings: Settings, message: Message) -> None:
        self._definitions = {one.full_name: one for one in definitions}
        self._settings, self._message = settings, message

    def knows(self, view: str) -> bool:
        """Return whether the class of this view is at hand."""
        return view in self._definitions

    def leaves_out(self, view: str, kind: str) -> bool:
        """Return whether this is a view of a set whose other views handle events of the type, and it does not."""
        definition = self._definitions.get(view)
        return definition is not None and definition.is_member and kind not in definition.handlers

    async def key(self, connection: Connection, row: Record, source: str, event: str) -> str:
        """Return the key of the row that the event of this inbox row has written; raises RowUnknown with the reason."""
        definition = self._definitions[row["view"]]
        handler = definition.handlers.get(row["type"])
        if handler is None:
            raise RowUnknown(f"the class has no handler for {row['type']} any more")
        own = None if row["aggregate"] is None else str(row["aggregate"]).partition("/")[2]
        columns = None if definition.table is None else definition.table.key
        if columns is None:
            raise RowUnknown("the class has no rows of its own")
        if handler.own and own is not None and not columns.several:
            return own
        found = key_of(handler, own, *await self._event(connection, definition, row, (source, event)))
        if isinstance(found, BadValue):
            raise RowUnknown(f"the class takes no key from the event now: {found}")
        older = "" if row["code"] == definition.code else " (by the class here, which is not what runs)"
        return f"{_shown(columns, found)}{older}"

    async def _event(
        self, connection: Connection, definition: Definition, row: Record, identity: tuple[str, str]
    ) -> tuple[AnyEvent, Callable[[], Envelope]]:
        """Return the event as it was applied: edited, from the inbox, or from the stream; and its envelope."""
        policy = self._settings.policy(definition.consumer)
        reader = Consumer.of_view(definition, policy, row["number"], definition.name).reader
        envelope: Callable[[], Envelope] = _no_envelope
        if row["data"] is not None:
            event, problem, _ = reader.body(row["type"], row["schema"], bytes(row["data"]))
        else:
            delivery = reader.reread(await self._stored(row), row["seq"], row["incarnation"])
            if not isinstance(delivery, Delivery) or (delivery.source, delivery.id) != identity:
                raise RowUnknown("the stream holds it in another form than it was applied in")
            statements = Statements("projectionist.runner", self._settings.postgres.schema)
            decided = Decisions(await connection.fetch(statements["select_decisions"], row["number"]))
            delivery = decided.edited(delivery, reader)
            event, problem, envelope = delivery.event, delivery.problem, delivery.envelope
        if event is None:
            raise RowUnknown(f"the class cannot read the event: {problem}")
        return event, envelope

    async def _stored(self, row: Record) -> Arrival:
        if row["incarnation"] != row["current"]:
            raise RowUnknown("which row is in the event, and the stream that held it is gone")
        try:
            message = await self._message(row["stream"], row["seq"])
        except ProjectionistError as error:
            raise RowUnknown(
                f"which row is in the event, and the stream cannot be asked for it: {error}"
            ) from error
        if message is None or message.seq != row["seq"]:
            raise RowUnknown("which row is in the event, and the stream no longer holds it")
        return message.arrival()


def _shown(columns: TableKey, key: Any) -> str:
    """Write what an event says of its rows: their keys, or the first of many, or what they are below."""
    if isinstance(key, Prefix):
        return columns.shown_below(key)
    if not isinstance(key, Keys):
        return columns.shown(key)
    more = f" and {len(key.listed) - LISTED:,} more" if len(key.listed) > LISTED else ""
    return (", ".join(map(columns.shown, key.listed[:LISTED])) or "(none)") + more


def _no_envelope() -> Envelope:
    """Refuse a key that reads the envelope of an event whose body alone is kept."""
    raise ValueError("it reads the envelope, and of this event the body alone is kept")
