"""Records events in the transaction that is open on the caller's connection; the relay publishes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, overload

from projectionist.core.postgres.statements import Statements
from projectionist.outbox.recording.call import StreamOf, prepare_call
from projectionist.outbox.recording.libraries import Awaiting, Blocking, awaiting_library, blocking_library
from projectionist.outbox.recording.outbox_steps import RecordSteps, record_steps

if TYPE_CHECKING:
    from projectionist.outbox.recording.recorded import Recorded


class AwaitedConnection(Protocol):
    """A connection or session whose statements are awaited: of asyncpg, psycopg or SQLAlchemy."""

    @property
    def execute(self) -> Callable[..., Awaitable[Any]]:
        """Execute a statement."""


class OutboxRecorder:
    """Records events in an open transaction: `await app.outbox(connection).record("order/7", OrderPaid(), …)`."""

    def __init__(self, connection: Any, library: Awaiting, stream_of: StreamOf, schema: str) -> None:
        self._connection = connection
        self._library = library
        self._stream_of = stream_of
        self._schema = schema

    async def record(
        self,
        aggregate: str,
        *events: Any,
        expected_version: int,
        id: str | None = None,  # noqa: A002 the envelope's word
        correlation: str | None = None,
    ) -> Recorded:
        """Record events of an aggregate (`type/id`) behind the version that it is expected to have, 0 for a new one.

        The commit makes them real, and a rollback leaves nothing. Raises VersionConflict where somebody else was first,
        EventReused for an `id` of other events, PublishError for an event no consumer could read, OutboxError where
        no transaction is open. `id` names the request: recorded again under it, the answer is the first one.
        """
        steps = _steps(self._stream_of, self._schema, aggregate, events, expected_version, id, correlation)
        return await self._library(self._connection, steps)


class BlockingOutboxRecorder:
    """`OutboxRecorder` for a library that blocks: `app.outbox(session).record("order/7", OrderPaid(), …)`."""

    def __init__(self, connection: Any, library: Blocking, stream_of: StreamOf, schema: str) -> None:
        self._connection = connection
        self._library = library
        self._stream_of = stream_of
        self._schema = schema

    def record(
        self,
        aggregate: str,
        *events: Any,
        expected_version: int,
        id: str | None = None,  # noqa: A002 the envelope's word
        correlation: str | None = None,
    ) -> Recorded:
        """Do what `OutboxRecorder.record` does, without an await."""
        steps = _steps(self._stream_of, self._schema, aggregate, events, expected_version, id, correlation)
        return self._library(self._connection, steps)


@overload
def outbox_recorder(  # type: ignore[overload-overlap] # each library's connection is of one kind
    connection: AwaitedConnection, stream_of: StreamOf, schema: str
) -> OutboxRecorder: ...
@overload
def outbox_recorder(connection: object, stream_of: StreamOf, schema: str) -> BlockingOutboxRecorder: ...
def outbox_recorder(
    connection: object, stream_of: StreamOf, schema: str
) -> OutboxRecorder | BlockingOutboxRecorder:
    """Return what records on this connection; raises OutboxError for one of no library that is known."""
    if (library := awaiting_library(connection)) is not None:
        return OutboxRecorder(connection, library, stream_of, schema)
    return BlockingOutboxRecorder(connection, blocking_library(connection), stream_of, schema)


def _steps(
    stream_of: StreamOf,
    schema: str,
    aggregate: str,
    events: tuple[Any, ...],
    expected_version: int,
    id: str | None,  # noqa: A002 the envelope's word
    correlation: str | None,
) -> RecordSteps:
    call = prepare_call(
        stream_of, aggregate, events, expected_version=expected_version, id=id, correlation=correlation
    )
    return record_steps(call, Statements("projectionist.outbox", schema))
