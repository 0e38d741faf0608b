"""Spans of attempts and lookups, in the trace of the event behind the intent; and counters of replies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from opentelemetry.trace import Span, SpanKind

from projectionist.core import cloudevents
from projectionist.core.telemetry import baggage, instruments, metrics, names, tracing
from projectionist.outbox.providers.reply import Outcome

if TYPE_CHECKING:
    from projectionist.outbox.providers.base import Provider, Request
    from projectionist.outbox.providers.reply import Reply
    from projectionist.outbox.relay.intent_store import LeasedIntent, Settled

_WELL = frozenset({Outcome.SENT, Outcome.IN_FLIGHT})


def begin(leased: LeasedIntent, provider: Provider) -> None:
    """Begin the span of an attempt; its context goes to the provider in place of the event's."""
    kind = SpanKind.PRODUCER if provider.system == names.NATS else SpanKind.CLIENT
    span = leased.span = _span(leased, names.SEND, kind, provider)
    if span is not None:
        leased.request = carrying(leased.request, span)


def look_up(leased: LeasedIntent, provider: Provider) -> None:
    """Begin the span of a lookup."""
    leased.span = _span(leased, names.LOOK_UP, SpanKind.CLIENT, provider)


def end(leased: LeasedIntent, reply: Reply) -> None:
    """End the span, if there is one."""
    span, leased.span = leased.span, None
    if span is None:
        return
    span.set_attribute(names.OUTCOME, reply.outcome.value)
    if reply.outcome not in _WELL:
        tracing.fail(span, reply.outcome.value)
    span.end()


def count(provider: str, system: str, settled: Sequence[Settled]) -> None:
    """Count replies that have been written."""
    if not metrics.on():
        return
    who = {names.PROVIDER: provider}
    common = who | {names.SYSTEM: system, names.OPERATION: names.SEND}
    for outcome, n in Counter(one.reply.outcome.value for one in settled if one.tried).items():
        metrics.add(instruments.ATTEMPTS, n, who | {names.OUTCOME: outcome})
    for state, n in Counter(one.next.state.value for one in settled).items():
        metrics.add(instruments.INTENTS_SETTLED, n, who | {names.STATE: state})
    for one in settled:
        if one.tried and one.heard:
            metrics.record(
                instruments.SEND_DURATION, one.reply.took_s, common | {names.OUTCOME: one.reply.outcome.value}
            )


def carrying(request: Request, span: Span) -> Request:
    """Return the request with the context of this span, if it has a valid one."""
    context = span.get_span_context()
    if not context.is_valid:
        return request
    state = context.trace_state.to_header() or None
    return msgspec.structs.replace(request, traceparent=tracing.written(context), tracestate=state)


def _host(provider: Provider, request: Request) -> str | None:
    try:
        return provider.host(request)
    except Exception:  # noqa: BLE001 - a user's code: the attribute is left out, and the attempt is made
        return None


def _span(leased: LeasedIntent, operation: str, kind: SpanKind, provider: Provider) -> Span | None:
    request = leased.request
    parent = request.traceparent
    if parent is None or not tracing.on() or not cloudevents.is_traceparent(parent):
        return None
    if not tracing.is_sampled(parent):
        return None
    attributes: tracing.Given = {
        **baggage.attributes(baggage.of_text(request.baggage)),
        names.SYSTEM: provider.system,
        names.OPERATION: operation,
        names.OPERATION_TYPE: names.SEND,
        names.DESTINATION: request.provider,
        names.PROVIDER: request.provider,
        names.INTENT: request.intent,
        names.INTENT_KEY: request.key,
        names.MESSAGE_ID: request.key,
        names.ATTEMPT: leased.attempt,
    }
    if host := _host(provider, request):
        attributes[names.SERVER_ADDRESS] = host
    context = tracing.context_of(parent, request.tracestate)
    return tracing.span(f"{operation} {request.provider}", kind, context, attributes, time.time_ns())
