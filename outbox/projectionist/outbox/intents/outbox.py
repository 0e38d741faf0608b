"""Intents of a producer: written in its own transaction, published by the relay. No consumer is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from projectionist.core.aggregates import parted
from projectionist.core.cloudevents import MOST_VERSION, trace_context
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES, flaw
from projectionist.core.telemetry import tracing
from projectionist.outbox.intents.intent import (
    Intent,
    IntentOptions,
    Scheduled,
    Slotted,
    content_of,
    destination_of,
    options_of,
    ordering_of,
)
from projectionist.outbox.intents.keys import body_hash, intent_key
from projectionist.outbox.intents.schedule import class_of, due_of, expires_s
from projectionist.outbox.intents.staging import StagedIntent

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection


class OutboxError(ProjectionistError):
    """The intent cannot be written like this; nothing was."""


class IntentReused(OutboxError):
    """The same id was written before with other content: give another intent another id."""


class Outbox:
    """Writes the intents of one producer, named `source`, atomically with its other writes.

    `providers`: those of the app whose relay sends them. With them `add` refuses at once intents that the relay could
    not send: one for a provider that the app lacks, an event without aggregate and version.
    """

    def __init__(
        self,
        source: str,
        *,
        schema: str = "projectionist",
        providers: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        _check("source", source, TEXT_BYTES)
        self._source = source
        self._providers = providers
        self._sql = Statements("projectionist.outbox", schema)

    async def add(
        self,
        connection: Connection,
        intent: Intent | Slotted | Scheduled,
        *,
        id: str,  # noqa: A002 - the envelope's word
        aggregate: str | None = None,
        version: int | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> str:
        """Write an intent in the transaction that is open on `connection`; return its key.

        `id` names what happened ("order-7-paid"): written again with the same content it is one intent, with
        other content, or of another aggregate, it raises IntentReused; an intent that cannot be sent raises ValueError;
        where no transaction is open, OutboxError. Intents are ordered by `aggregate` ("order/7"), and an event that is
        published bears it, with `version`. Ids and order are this source's own. Commit makes it real; a rollback leaves
        nothing. The trace that is going on here goes with it, unless `traceparent` names another; a malformed one is
        none. An intent with `.at(moment)` is sent then, by the database's clock.
        """
        _check_open(connection)
        _check_event(id, aggregate, version)
        if traceparent is None:
            traceparent, tracestate = tracing.current()
        traceparent, tracestate = trace_context(traceparent, tracestate)
        due = _due(intent) if isinstance(intent, Scheduled) else None
        intent = intent.intent if isinstance(intent, Scheduled) else intent
        named = intent.slot if isinstance(intent, Slotted) else None
        intent = intent.intent if isinstance(intent, Slotted) else intent
        options = options_of(intent)
        self._check_provider(options, aggregate, version)
        slot = named or options.slot
        staged = StagedIntent(
            key=intent_key("", self._source, id, slot),
            source=self._source,
            id=id,
            aggregate=aggregate,
            version=version,
            slot=slot,
            class_name=options.name,
            provider=options.provider,
            destination=destination_of(intent),
            ordering=ordering_of(intent, self._source, aggregate),
            on_dead=options.on_dead,
            body=content_of(intent),
            traceparent=traceparent,
            tracestate=tracestate,
            seq=0,
            due=None if due is None else due.isoformat(),
            expires_s=None if due is None else expires_s(options),
        )
        if not await self._write(connection, staged):
            raise IntentReused(
                f"{self._source} has written {id!r} ({slot}) before, with other content or for another destination",
                remedy="Another intent needs another id, or a slot of its own",
            )
        return staged.key

    async def _write(self, connection: Connection, intent: StagedIntent) -> bool:
        """Write an intent; return False where another one has its key."""
        due = None if intent.due is None else datetime.fromisoformat(intent.due)
        written = await connection.fetchval(
            self._sql["insert_intent"],
            intent.key,
            intent.source,
            intent.id,
            intent.aggregate,
            intent.version,
            intent.slot,
            intent.class_name,
            intent.provider,
            intent.destination,
            intent.ordering,
            intent.on_dead,
            intent.body,
            body_hash(intent.body, intent.due),
            intent.traceparent,
            intent.tracestate,
            due,
            None if due is None or intent.expires_s is None else due + timedelta(seconds=intent.expires_s),
        )
        return written is not None or await self._is_there(connection, intent)

    async def _is_there(self, connection: Connection, intent: StagedIntent) -> bool:
        same = await connection.fetchval(
            self._sql["is_same_intent"],
            intent.key,
            body_hash(intent.body, intent.due),
            intent.class_name,
            intent.provider,
            intent.destination,
            intent.ordering,
            intent.aggregate,
        )
        return bool(same)

    def _check_provider(self, options: IntentOptions, aggregate: str | None, version: int | None) -> None:
        if self._providers is None:
            return
        if options.provider not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise OutboxError(
                f"{options.name} is for the provider {options.provider!r}, which the app lacks",
                remedy=f"Its providers are: {known}",
            )
        if getattr(self._providers[options.provider], "versioned", False) and None in (aggregate, version):
            raise OutboxError(
                f"{options.name} is an event for {options.provider!r}, and has no aggregate or no version",
                remedy="Give add(aggregate='order/7', version=3), or use a provider class with versioned = False",
            )


def _due(scheduled: Scheduled) -> datetime:
    """Return when a producer's intent is to be sent; refuse one whose time is that of an event."""
    if isinstance(scheduled.due, timedelta):
        raise ValueError(
            f"{class_of(scheduled)}.after({scheduled.due}): what a producer adds has no event whose time would count; "
            "write at(…)"
        )
    return due_of(scheduled, datetime.now(UTC))


def _check_open(connection: Connection) -> None:
    """Refuse a connection without an open transaction: an intent there is sent even if the caller's write is undone."""
    if not hasattr(connection, "is_in_transaction"):
        raise OutboxError(
            f"add() takes a connection of asyncpg, and got a {type(connection).__name__}",
            remedy="SQLAlchemy has it: (await connection.get_raw_connection()).driver_connection",
        )
    if not connection.is_in_transaction():
        raise OutboxError(
            "no transaction is open on this connection, so the intent would be sent even if your own write is undone",
            remedy="Call add() inside `async with connection.transaction():`. SQLAlchemy opens its transaction with "
            "the first statement: make that one before",
        )


def _check_event(event_id: str, aggregate: str | None, version: int | None) -> None:
    _check("id", event_id, ID_BYTES)
    if aggregate is not None:
        _check("aggregate", aggregate, TEXT_BYTES)
        parted(aggregate)
    if version is not None and not 1 <= version <= MOST_VERSION:
        raise ValueError(f"the version {version} is not a number from 1 to {MOST_VERSION}")


def _check(what: str, text: str, most: int) -> None:
    if not text:
        raise ValueError(f"the {what} of an intent is empty")
    if bad := flaw(text, most):
        raise ValueError(f"the {what} of an intent {bad}")
