"""The spans of one batch: of its sampled events, of what brought them, of the transaction, of the acks.

An unsampled event costs one look at its flags. Spans are made when all is committed, with the times they stand for, so
that no transaction is longer for them. Where intents are written they are made before, since each intent bears the
context of its event's span. A batch that is rolled back leaves none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from opentelemetry.trace import Span, SpanContext, SpanKind

from projectionist.core.telemetry import baggage, names, tracing

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Telemetry
    from projectionist.outbox.intents.staging import StagedIntent
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.batch.outcomes import FailedAt
    from projectionist.runner.batch.planning import AggregatePlan
    from projectionist.runner.batch.types import Batch
    from projectionist.runner.decoding.delivery import Delivery


REPEAT = -1
"""In place of a course: the event had been settled before."""


class Places(msgspec.Struct):
    """Names, as attributes of its spans, where a batch comes from and goes to."""

    broker: Callable[[], tracing.Given] = dict
    database: tracing.Given = {}


class BatchTracer:
    """Makes the spans of one consumer's batches."""

    def __init__(
        self, definition: ConsumerDefinition, settings: Telemetry | None = None, where: Places | None = None
    ) -> None:
        self.places = where or Places()
        self._baggage = frozenset(settings.baggage if settings is not None else ())
        self._links = settings is not None and settings.trace == "link"
        # Four bytes of an event's hash: every consumer chooses the same events.
        self._below = int((settings.sample if settings is not None else 0) * 2**32)
        self.stream = definition.stream
        self.common: tracing.Given = {
            names.SYSTEM: names.NATS,
            names.DESTINATION: definition.stream,
            names.CONSUMER: definition.name,
        }

    def batch_spans(
        self, batch: Batch, courses: Sequence[AggregatePlan], begun_ns: int, repeats: Sequence[Delivery] = ()
    ) -> BatchSpans | None:
        """Return the spans of a batch whose events have been judged; None where nothing of it is sampled."""
        if not tracing.on():
            return None
        sampled = [
            (d, place)
            for place, one in enumerate(courses)
            for d in (one.tried if not (one.held or one.stale) else (*one.tried, *one.held, *one.stale))
            if (self._chosen(d) if (parent := d.traceparent) is None else tracing.is_sampled(parent))
        ]
        sampled += [(d, REPEAT) for d in repeats if d.traceparent and tracing.is_sampled(d.traceparent)]
        return BatchSpans(self, batch, sampled, begun_ns) if sampled else None

    def _chosen(self, delivery: Delivery) -> bool:
        return self._below > 0 and int.from_bytes(delivery.hash[:4], "big") < self._below

    def _members(self, delivery: Delivery) -> baggage.Members:
        if not self._baggage:
            return {}
        if delivery.arrival is not None:
            return baggage.of_headers(delivery.arrival.head, self._baggage)
        return baggage.of_text(baggage.permitted(delivery.baggage, self._baggage))

    def keep_baggage(self, *deliveries: Iterable[Delivery]) -> None:
        """Write down what is allowed of the baggage of events that are parked or ask for intents."""
        if self._baggage:
            for delivery in chain(*deliveries):
                delivery.baggage = baggage.written(self._members(delivery))

    def begin(
        self, delivery: Delivery, start_ns: int, received: SpanContext | None, at: tracing.Attributes
    ) -> Span:
        """Begin the span under which an event is processed."""
        parent: SpanContext | None = None
        links = [received] if received is not None else []
        if delivery.traceparent is not None:
            theirs = tracing.context_of(delivery.traceparent, delivery.tracestate)
            if self._links:
                links.insert(0, theirs)
            else:
                parent = theirs
        return tracing.span(
            f"{names.PROCESS} {self.stream}",
            SpanKind.CONSUMER,
            parent,
            {
                **baggage.attributes(self._members(delivery)),
                **at,
                names.OPERATION: names.PROCESS,
                names.OPERATION_TYPE: names.PROCESS,
                names.MESSAGE_ID: delivery.id,
                names.EVENT_TYPE: delivery.type,
                names.EVENT_SOURCE: delivery.source,
                names.DRAINED: delivery.parked,
            },
            start_ns,
            tuple(links),
        )


class _Traced(msgspec.Struct):
    delivery: Delivery
    place: int
    """Of its course."""
    span: Span


class BatchSpans:
    """The spans of one run of one batch."""

    def __init__(
        self, tracing_: BatchTracer, batch: Batch, sampled: Sequence[tuple[Delivery, int]], begun_ns: int
    ) -> None:
        self._tracing = tracing_
        self._begun_ns = begun_ns
        self._size = len(batch.deliveries)
        self._at = tracing_.common | tracing_.places.broker()
        self._receiving = self._receive(batch, [d for d, _ in sampled]) if batch.deliveries else None
        self._received = self._receiving.get_span_context() if self._receiving is not None else None
        self._traced = [
            _Traced(delivery, place, tracing_.begin(delivery, begun_ns, self._received, self._at))
            for delivery, place in sampled
        ]
        self._committed_ns = begun_ns

    def inject_into_intents(self, staged: Iterable[StagedIntent]) -> None:
        """Write the intents under the spans of their events."""
        contexts = {
            (t.delivery.source, t.delivery.id): t.span.get_span_context()
            for t in self._traced
            if t.place != REPEAT
        }
        for intent in staged:
            context = contexts.get((intent.source, intent.id))
            if context is not None and context.trace_flags.sampled:
                intent.traceparent = tracing.written(context)
                intent.tracestate = context.trace_state.to_header() or None

    def committed(self, now: int, courses: Sequence[AggregatePlan], broken: dict[int, FailedAt]) -> None:
        """End what the commit has made true, at the time of the commit."""
        self._committed_ns = now
        if self._receiving is not None:
            self._receiving.end(self._begun_ns)
        for one in self._traced:
            outcome, error = "duplicate", None
            if one.place != REPEAT:
                outcome, error = _outcome(one.delivery, courses[one.place], broken.get(one.place))
            one.span.set_attribute(names.OUTCOME, outcome)
            if error is not None:
                tracing.fail(one.span, error)
            one.span.end(now)
        attributes: tracing.Given = {
            **self._tracing.places.database,
            names.DB_SYSTEM: names.POSTGRESQL,
            names.DB_SUMMARY: names.APPLY_BATCH,
            names.CONSUMER: self._tracing.common[names.CONSUMER],
        }
        self._one_of_all(names.APPLY_BATCH, attributes, self._begun_ns).end(now)

    def acked(self) -> None:
        """Note that what the broker delivered has been acknowledged."""
        if self._received is not None:
            attributes = self._at | {
                names.OPERATION: names.SETTLE,
                names.OPERATION_TYPE: names.SETTLE,
                names.MESSAGE_COUNT: self._size,
            }
            name = f"{names.SETTLE} {self._tracing.stream}"
            self._one_of_all(name, attributes, self._committed_ns).end(time.time_ns())

    def _one_of_all(self, name: str, attributes: tracing.Attributes, start_ns: int) -> Span:
        links = () if self._received else tuple(t.span.get_span_context() for t in self._traced)
        return tracing.span(name, SpanKind.CLIENT, self._received, attributes, start_ns, links)

    def _receive(self, batch: Batch, sampled: Sequence[Delivery]) -> Span:
        links = tuple(
            tracing.context_of(d.traceparent, d.tracestate) for d in sampled if d.traceparent is not None
        )
        attributes = self._at | {
            names.OPERATION: names.RECEIVE,
            names.OPERATION_TYPE: names.RECEIVE,
            names.MESSAGE_COUNT: self._size,
        }
        first_ns = min(d.received_us for d in batch.deliveries) * 1000
        name = f"{names.RECEIVE} {self._tracing.stream}"
        return tracing.span(name, SpanKind.CLIENT, None, attributes, first_ns or self._begun_ns, links)


def _outcome(delivery: Delivery, course: AggregatePlan, broken: FailedAt | None) -> tuple[str, str | None]:
    """Return what became of an event, and the class of the error that stopped it."""
    if any(delivery is one for one in course.stale):
        return "stale", None
    at = next((index for index, one in enumerate(course.tried) if one is delivery), None)
    if at is None or (broken is not None and at > broken.at):
        return "parked", None
    if broken is not None and at == broken.at:
        return "failed", broken.failed.error_class or "failed"
    return delivery.provisional.value, None
