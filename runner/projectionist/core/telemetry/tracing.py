"""Trace contexts and spans: read from headers and rows, asked for only where somebody samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    TraceState,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from projectionist.core import cloudevents
from projectionist.core.telemetry import names

MOST_LINKS = 128
"""What an SDK keeps of a span's links by default; the rest it drops."""

_PROPAGATOR = TraceContextTextMapPropagator()

Given = dict[str, str | int | bool]
Attributes = Mapping[str, str | int | bool]


def on() -> bool:
    """Return whether anybody listens. Asked once per batch: without a listener no span is made."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider | NoOpTracerProvider)


def tracer() -> Tracer:
    """Return the tracer of the provider there is now."""
    return _tracer_of(trace.get_tracer_provider())


@lru_cache(maxsize=1)
def _tracer_of(provider: TracerProvider) -> Tracer:
    """Return a tracer that is kept: an SDK makes another one at each call, which takes as long as a span."""
    return provider.get_tracer(names.SCOPE, schema_url=names.SCHEMA_URL)


def is_sampled(traceparent: str) -> bool:
    """Return whether a checked `traceparent` asks for spans: one look at its flags, since every event is asked."""
    return traceparent[54] in "13579bdf"


def context_of(traceparent: str, tracestate: str | None = None) -> SpanContext:
    """Return the context that a checked `traceparent` names."""
    return SpanContext(
        trace_id=int(traceparent[3:35], 16),
        span_id=int(traceparent[36:52], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(traceparent[53:55], 16)),
        trace_state=TraceState.from_header([tracestate]) if tracestate else TraceState(),
    )


def written(context: SpanContext) -> str:
    """Return the context as a `traceparent`."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"


def current() -> tuple[str | None, str | None]:
    """Return `traceparent` and `tracestate` of the trace that is going on around the caller, if there is one."""
    context = trace.get_current_span().get_span_context()
    return (written(context), context.trace_state.to_header() or None) if context.is_valid else (None, None)


def under(context: SpanContext | None) -> Context:
    """Return what a span of this parent is started in; without one it begins a trace, whatever goes on around it."""
    return Context() if context is None else trace.set_span_in_context(NonRecordingSpan(context), Context())


def span(
    name: str,
    kind: SpanKind,
    parent: SpanContext | None,
    attributes: Attributes,
    start_ns: int,
    links: tuple[SpanContext, ...] = (),
) -> Span:
    """Begin a span at `start_ns`; whoever asks for it ends it. More links than are kept are counted on it."""
    kept = [Link(one) for one in links[:MOST_LINKS]]
    given = dict(attributes)
    if len(links) > MOST_LINKS:
        given[names.LINKS_OMITTED] = len(links) - MOST_LINKS
    return tracer().start_span(name, under(parent), kind, given, kept, start_ns)


def fail(one: Span, kind: str) -> None:
    """Mark a span as failed: by the kind of the error, never by its text, which may quote what was sent."""
    one.set_attribute(names.ERROR_TYPE, kind)
    one.set_status(Status(StatusCode.ERROR))


@contextmanager
def sending(
    name: str, attributes: Attributes, carrier: Mapping[str, str]
) -> Iterator[tuple[Span, dict[str, str]]]:
    """Trace the publishing of what `carrier` are the headers of: a span below the context they hold, else below
    the present one, and the headers with the span's own context."""
    parent = _PROPAGATOR.extract(carrier) if cloudevents.TRACEPARENT in carrier else None
    with tracer().start_as_current_span(
        name,
        parent,
        SpanKind.PRODUCER,
        attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as one:
        carried = dict(carrier)
        _PROPAGATOR.inject(carried)
        try:
            yield one, carried
        except BaseException as error:
            fail(one, type(error).__name__)
            raise


@contextmanager
def whole(operation: str, consumer: str) -> Iterator[Span]:
    """Trace a long work whose events have no spans of their own: one span, marked as a replay."""
    attributes: Given = {names.CONSUMER: consumer, names.REPLAY: True}
    with tracer().start_as_current_span(
        f"{operation} {consumer}",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as one:
        try:
            yield one
        except BaseException as error:
            fail(one, type(error).__name__)
            raise
