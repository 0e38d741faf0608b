"""Intents of a producer: written in its own transaction, published by the relay. No consumer is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from projectionist.core.aggregates import parted
from projectionist.core.cloudevents import MOST_VERSION, trace_context
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES, flaw
from projectionist.core.telemetry import tracing
from projectionist.outbox.intents.intent import AGGREGATE, Intent, Slotted, content_of, options_of
from projectionist.outbox.intents.keys import body_hash, intent_key, ordering_key

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection


class OutboxError(ProjectionistError):
    """The intent cannot be written like this; nothing was."""


class IntentReused(OutboxError):
    """The same id was written before with other content: give another intent another id."""


class Outbox:
    """Where one producer, named `source`, puts its intents: atomically with whatever else it writes.

    `providers`: those of the app whose relay sends them. With them `add` refuses at once what that relay could not
    send: an intent for a provider that the app lacks, an event without aggregate and version.
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
        intent: Intent | Slotted,
        *,
        id: str,  # noqa: A002 - the envelope's word
        aggregate: str | None = None,
        version: int | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> str:
        """Write an intent in the transaction that is open on `connection`; its key.

        `id` names what happened ("order-7-paid"): written again with the same content it is one intent, with
        other content, or of another aggregate, it raises IntentReused; what cannot be sent raises ValueError; where
        no transaction is open, OutboxError. `aggregate` ("order/7") is what intents are ordered by, and with
        `version` what an event that is published bears. Ids and order are this source's own. Commit makes it real; a
        rollback leaves nothing. The trace that is going on here goes with it, unless `traceparent` names another; a
        malformed one is none.
        """
        _check_open(connection)
        _check("id", id, ID_BYTES)
        if aggregate is not None:
            _check("aggregate", aggregate, TEXT_BYTES)
            parted(aggregate)
        if version is not None and not 1 <= version <= MOST_VERSION:
            raise ValueError(f"the version {version} is not a number from 1 to {MOST_VERSION}")
        if traceparent is None:
            traceparent, tracestate = tracing.current()
        traceparent, tracestate = trace_context(traceparent, tracestate)
        slot, asked = (intent.slot, intent.intent) if isinstance(intent, Slotted) else (None, intent)
        options = options_of(asked)
        self._check_provider(asked, aggregate, version)
        slot = slot or options.slot
        key, body = intent_key("", self._source, id, slot), content_of(asked)
        scope = aggregate
        if options.order_by is not AGGREGATE:
            scope = None if options.order_by is None else getattr(asked, options.order_by)
        destination = (
            options.provider if options.destination is None else str(getattr(asked, options.destination))
        )
        ordering = None if scope is None else ordering_key(self._source, options.provider, str(scope))
        written = await connection.fetchval(
            self._sql["insert_intent"],
            key,
            self._source,
            id,
            aggregate,
            version,
            slot,
            options.name,
            options.provider,
            destination,
            ordering,
            options.on_dead,
            body,
            body_hash(body),
            traceparent,
            tracestate,
        )
        where = (options.name, options.provider, destination, ordering, aggregate)
        if written is None and not await connection.fetchval(
            self._sql["is_same_intent"], key, body_hash(body), *where
        ):
            raise IntentReused(
                f"{self._source} has written {id!r} ({slot}) before, with other content or for another destination",
                remedy="Another intent needs another id, or a slot of its own",
            )
        return key

    def _check_provider(self, asked: Intent, aggregate: str | None, version: int | None) -> None:
        if self._providers is None:
            return
        options = options_of(asked)
        if options.provider not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise OutboxError(
                f"{options.name} is for the provider {options.provider!r}, which the app lacks",
                remedy=f"Its providers are: {known}",
            )
        if getattr(self._providers[options.provider], "versioned", False) and None in (aggregate, version):
            raise OutboxError(
                f"{options.name} is an event for {options.provider!r}, and does not say whose and which version",
                remedy="Give add(aggregate='order/7', version=3), or use a provider class with versioned = False",
            )


def _check_open(connection: Connection) -> None:
    """Refuse a connection without an open transaction: what is written there is sent, whatever becomes of the rest."""
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


def _check(what: str, text: str, most: int) -> None:
    if not text:
        raise ValueError(f"the {what} of an intent is empty")
    if bad := flaw(text, most):
        raise ValueError(f"the {what} of an intent {bad}")
