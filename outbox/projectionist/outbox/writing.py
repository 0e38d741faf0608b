"""Intents of a producer: written in its own transaction, published by the relay. No consumer is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.core.headers import MOST_VERSION, trace_context
from projectionist.core.sql import Statements
from projectionist.core.telemetry import tracing
from projectionist.core.texts import ID_BYTES, TEXT_BYTES, flaw
from projectionist.outbox.intent import AGGREGATE, Intent, Slotted, content_of, options_of
from projectionist.outbox.keys import body_hash, intent_key, ordering_key

if TYPE_CHECKING:
    from projectionist.core.db import Connection


class IntentReused(ProjectionistError):
    """The same id was written before with other content: give another wish another id."""


class Outbox:
    """Where one producer, named `source`, puts its intents: atomically with whatever else it writes."""

    def __init__(self, source: str, *, schema: str = "projectionist") -> None:
        _check("source", source, TEXT_BYTES)
        self._source = source
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
        other content, or of another aggregate, it raises IntentReused; what cannot be sent raises ValueError.
        `aggregate` ("order/7") is what intents are ordered by. Ids and order are this source's own. Commit makes it
        real; a rollback leaves nothing. The trace that is going on here goes with it, unless `traceparent` names
        another; a malformed one is none.
        """
        _check("id", id, ID_BYTES)
        if aggregate is not None:
            _check("aggregate", aggregate, TEXT_BYTES)
        if version is not None and not 1 <= version <= MOST_VERSION:
            raise ValueError(f"the version {version} is not a number from 1 to {MOST_VERSION}")
        if traceparent is None:
            traceparent, tracestate = tracing.current()
        traceparent, tracestate = trace_context(traceparent, tracestate)
        slot, wish = (intent.slot, intent.intent) if isinstance(intent, Slotted) else (None, intent)
        options = options_of(wish)
        slot = slot or options.slot
        key, body = intent_key("", self._source, id, slot), content_of(wish)
        scope = aggregate
        if options.order_by is not AGGREGATE:
            scope = None if options.order_by is None else getattr(wish, options.order_by)
        destination = (
            options.provider if options.destination is None else str(getattr(wish, options.destination))
        )
        ordering = None if scope is None else ordering_key(self._source, options.provider, str(scope))
        written = await connection.fetchval(
            self._sql["add"],
            *(key, self._source, id, aggregate, version, slot, options.name, options.provider),
            *(destination, ordering, options.on_dead, body, body_hash(body), traceparent, tracestate),
        )
        where = (options.name, options.provider, destination, ordering, aggregate)
        if written is None and not await connection.fetchval(
            self._sql["alike"], key, body_hash(body), *where
        ):
            raise IntentReused(
                f"{self._source} has written {id!r} ({slot}) before, with other content or for another destination",
                remedy="Another wish needs another id, or a slot of its own",
            )
        return key


def _check(what: str, text: str, most: int) -> None:
    if not text:
        raise ValueError(f"the {what} of an intent is empty")
    if bad := flaw(text, most):
        raise ValueError(f"the {what} of an intent {bad}")
